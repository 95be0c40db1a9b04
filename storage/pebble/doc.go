// Package pebble is the embedded engine: the contract of package storage on an LSM tree in one directory.
//
// Keys start with table, family and the day of the cell's timestamp. So the cells of one family and day (a partition) have
// their own files. New days never rewrite old days, retention drops whole files, and a read of one partition walks one
// sorted run. Reads merge the partitions that their filter admits. FORMAT.md draws the keys.
//
// After a day is closed, a background job packs the hours of each series and day into one day chunk (Options.DayChunks).
// Rows and cells do not change for readers. Reads merge day chunks with later cells. A change of a packed row rewrites the
// day chunk in the batch of the row. So all hours of a series share a row lock. A swap of packed files blocks writers of the
// table, but only reads of that day.
//
// Durability: this package has no write-ahead log; the caller has one. Rows of Apply survive power loss once Store.Sync
// returns. Rows of Load and schemas of EnsureTable are durable when these calls return.
//
// Atomicity: each row mutation is part of one batch. Mutations that read first (deletes, CheckAndApply) hold their row's
// stripe lock exclusively. Plain writes share it, so they never block each other.
//
// Damage and full disks never end the process. A read of a damaged block fails with storage.ErrCorrupt and the name of the
// file; other reads and writes continue. Open refuses a store with a damaged manifest or with missing files. With
// Options.AcceptLoss it continues without lost files. Without disk space, writes fail with storage.ErrUnavailable until a
// flush succeeds again.
//
// The packages below it, from the bottom: cellkey (keys), health, daycells (format), partition, fault (errors), treefs (file
// system), cursor, tablet, catalog, recovery.
package pebble
