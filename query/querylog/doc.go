// Package querylog keeps two records of queries: a log of slow queries, and a file of running queries.
//
// The log is a file of JSON lines. A background goroutine appends to it, so that a slow or full disk delays no query. If its
// queue or the disk is full, the log drops a line and counts it.
//
// The file of active queries is mapped into memory and has a slot for each query that may run. Begin writes a query into
// a slot, and its end clears the slot. Neither needs a system call. Writes to a mapped file
// survive kill -9 and the OOM killer. So the next start finds the queries that ran when the process died. Power loss may
// lose them. FORMAT.md draws both files.
//
// A Log is safe for concurrent use.
package querylog
