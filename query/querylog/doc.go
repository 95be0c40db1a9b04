// Package querylog keeps two records of queries: a log of slow queries, and a file of running queries.
//
// The log is a file of JSON lines. A background goroutine appends to it, so that a slow or full disk delays no query. If its
// queue or the disk is full, the log drops a line and counts it.
//
// The file of active queries is mapped into memory and has a slot for each query that may run. A query is written into a
// slot when it starts, and the slot is cleared when it ends. Both work without a system call. Writes to a mapped file
// survive kill -9 and the OOM killer. So the next start finds the queries that ran when the process died. Power loss may
// lose them. FORMAT.md draws both files.
//
// Concurrency: a Log may be used by any number of goroutines.
package querylog
