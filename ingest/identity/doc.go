// Package identity makes sure that a log and tables belong together. If they did not, acknowledged samples would be missing and
// nobody would know.
//
// One cell of table meta names the log that protects the tables. [Check] compares the cell with the files of the log, and refuses
// tables and a log that do not belong together. A [Keeper] writes the cell.
//
// A crash at any instant leaves tables and a log that agree:
//   - Start: the log counts its starts and begins a segment. Then the cell takes over both. Then writes are accepted.
//   - Checkpoint: the cell names the segment before which the tables hold everything. Then the tables are synced. Then the log is
//     truncated there. So the tables may know a later truncation than the log, but never an earlier one.
//
// Concurrency: the caller serialises the methods of a Keeper.
package identity
