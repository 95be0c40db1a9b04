// Package replay decodes the write-ahead log.
//
// [Reader] decodes records into batches. Another goroutine applies them to head and index. [ReadLog] lists the series and hours
// in the log of a stopped server.
//
// Concurrency: one goroutine calls Record and Finish of a Reader, another one receives its batches and calls Reuse and Stop.
package replay
