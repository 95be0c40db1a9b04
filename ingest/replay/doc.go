// Package replay decodes the write-ahead log for those who read it back.
//
// [Reader] decodes records into batches, ahead of the goroutine that applies them to head and index. [ReadLog] lists the series
// and hours in the log of a stopped server.
//
// Concurrency: one goroutine calls Record and Finish of a Reader, another one receives its batches and calls Reuse and Stop.
package replay
