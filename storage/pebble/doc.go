// Package pebble is the embedded engine: the wide-column contract of package storage on an LSM tree in one directory.
//
// Cells are placed by time: the physical key starts with table, family and the day of the cell's timestamp, so that a
// family and day (a partition) lies in files of its own. Old days are never rewritten by new ones, retention drops
// whole files, and a read of one family and day walks one sorted run of keys. FORMAT.md draws the keys. Reads put rows
// together again by merging the partitions that the filter admits.
//
// Once a day is closed, a background job packs the hours of each series and day into one day chunk (Options.DayChunks): a
// physical matter only, rows and cells stay what they are. Reads merge day chunks with cells that came late; a change of
// a packed row rewrites its day chunk in the row's own batch. All hours of a series share a row lock for that. A swap of
// packed files excludes writers of the table while it lasts; reads never wait for it unless they look into that day.
//
// Durability: there is no write-ahead log here. What Apply wrote survives power loss once Store.Sync has returned;
// what Load wrote is durable when it returns; EnsureTable is durable when it returns. The caller owns the log.
//
// Atomicity: each row mutation is one batch of the tree. Mutations that must read first (deletes, CheckAndApply) hold
// the exclusive side of their row's stripe lock; plain writes hold the shared side, and so never block one another.
//
// Damage and full disks never end the process: a read that meets a damaged block fails with storage.ErrCorrupt and the
// file's name, while other reads and writes go on. Open refuses a store whose manifest or whose list of files is not whole;
// Options.AcceptLoss goes on without files that are lost. Lack of space surfaces as storage.ErrUnavailable from writes until
// a flush succeeds again.
package pebble
