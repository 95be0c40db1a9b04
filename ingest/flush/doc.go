// Package flush moves rows from the head to the data table and then truncates the write-ahead log.
//
// A row holds the samples of one series and hour. A flush writes each row as one chunk, or as several if the row is very
// large. [Flusher.Step] is one run of the background job:
//
//   - policy.go decides which rows to flush: rows of closed hours, spread over some minutes, and further rows if memory or
//     the log reaches its limit. Its functions are pure.
//   - partition.go divides the table's keys into ranges of about the same size. A flush writes one range after the other. So
//     it needs little memory at a time, and the files of one hour do not overlap.
//   - job.go freezes the rows of a range, encodes them, writes them to the table and removes them from the head.
//   - checkpoint.go syncs the tables and truncates the log.
//   - sequence.go numbers the chunks. Among several chunks in a row of the table, the one with the highest number wins.
//
// Invariants:
//   - A row leaves the head only after the table holds it.
//   - The log is truncated only before the oldest segment that a row in the head needs, and only after the tables are
//     synced.
//
// Concurrency: one flush, checkpoint or series garbage collection runs at a time, under [Flusher.Lock].
package flush
