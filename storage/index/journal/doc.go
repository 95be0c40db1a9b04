// Package journal stores the active series and hours of open days, the days that are not compacted yet.
//
// The journal of a day is a sequence of records, one row each. A record has new series and the hours of series. It contains
// its own dictionaries, so that it can be read alone. A single writing process numbers the records of a day, and its series
// across all records. If several processes write, each adds records under its own name. A [cursor] remembers the records
// that this process knows. FORMAT.md in the index's folder draws the bytes.
package journal
