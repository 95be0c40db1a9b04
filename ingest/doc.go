// Package ingest stores samples: it acknowledges a write when it is durable, keeps the newest samples in memory, and flushes
// closed hours to the tables.
//
// A write goes through these steps, see [Ingester.Write]:
//
//   - admission.go admits the request, or refuses it because it is too large or a resource is short.
//   - request.go decodes it (ingest/remotewrite) and finds its series by a hash of their raw labels.
//   - series.go creates the series that are new: in the index, in the log, then in the registry.
//   - write.go appends the samples to the write-ahead log (ingest/wal) and to the head (ingest/head), and waits until the log is
//     synced.
//
// Samples are read from the head until ingest/flush has written their row, one series and hour, to the data table.
//
// A [Writer] is the first half of this path, up to known series. Mode direct shares it. In this mode there is neither log
// nor head, and several processes share the tables. Each sample is a cell of the data table before it is acknowledged.
//
// Invariants:
//   - A sample is acknowledged only when it is durable. Its series is in the log before it, and the index knows its hour.
//   - The order of a series' samples in the log is their order in the head: the later write of a timestamp wins.
//   - A row leaves the head only after the table holds it. A reader that reads the head first and then the tables, and prefers
//     the head, misses nothing and counts nothing twice.
//   - The log is truncated only before the oldest segment that a row in the head needs, and only after the tables are synced.
//
// Open replays the log. One goroutine decodes records (ingest/replay), another one applies them in their order. The head keeps
// its memory limit: rows above it are flushed during the replay. Such a flush may repeat an earlier one, or a crash may cut it
// off. Both do no harm, because the log still has all its samples, a later replay applies them again, and later chunks win. A
// deletion gets a new chunk number at each replay, above all chunks in the tables, because a killed replay may have flushed
// samples that the deletion hides. Series limits do not apply to series of the log.
//
// Invariants of mode direct:
//   - A sample is acknowledged only when the table has acknowledged it, and after the index knows its series and hour.
//   - Writing a sample twice changes nothing. So rows that the storage did not take are written again. A request that the storage
//     refuses for long is not acknowledged.
//   - Late samples, which come after their hour, are marked for the compactor of chunks.
//
// Concurrency: all methods of Ingester may be called by any number of goroutines. Close stops the background jobs and waits for
// them.
package ingest
