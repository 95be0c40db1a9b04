// Package journal stores the active series and hours of open days, the days that are not compacted yet.
//
// The journal of a day is a sequence of records, one row each. A record has new series and the hours of series. It contains
// its own dictionaries, so that it can be read alone. A process that has the tables for itself numbers the records of a day,
// and the series through all of them. If several processes write, each adds records under its own name; a [cursor] remembers
// which of them this process knows. FORMAT.md in the index's folder draws the bytes.
package journal
