// Package journal stores the active series and hours of open days, which are not yet compacted.
//
// The journal of a day is a sequence of records, one row each. A record has new series and the hours of series. It contains
// its own dictionaries, so it can be read alone. A single writing process numbers the records of a day, and the series
// across all its records. If several processes write, each adds records under its own name. A [cursor] records which ones
// this process has read. FORMAT.md in the index's folder draws the bytes.
package journal
