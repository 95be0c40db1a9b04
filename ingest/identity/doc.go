// Package identity makes sure that a log and tables belong together. Otherwise acknowledged samples could be missing without
// any sign.
//
// One cell of table meta names the log that protects the tables. [Check] compares the cell with the files of the log, and refuses
// tables and a log that do not belong together. A [Keeper] writes the cell.
//
// After a crash at any instant, tables and log agree:
//   - Start: the log counts its starts and begins a segment. Then the cell records both. Then the server accepts writes.
//   - Checkpoint: the cell names the first segment that the tables may lack. Then the tables are synced. Then the log is
//     truncated before that segment. So the tables may know a later truncation than the log, but never an earlier one.
//
// Concurrency: the caller serialises the methods of a Keeper.
package identity
