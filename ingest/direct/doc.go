// Package direct writes samples without a log: each sample is a cell of the data table before it is acknowledged. Any number
// of processes share the tables. Package compactor turns the cells of closed hours into chunks.
//
// A write begins like a write of the ingester, see [ingest.Writer]. Then it leaves notes of its hours for the compactor,
// writes its cells, and checks for deletions made meanwhile.
//
// Invariants: see the package comment of ingest.
//
// Concurrency: all methods of Direct may be called by any number of goroutines. Close stops the background jobs and waits
// for them.
package direct
