// Package ingest takes samples in, keeps the newest in memory and hands closed hours to the tables.
//
// An [Ingester] answers a write once its samples are in the write-ahead log and fdatasync'd. Until a row (one series,
// one hour) is flushed to the data table its samples live in the head and are read from there; the rows of a closed
// hour travel as one chunk each, spread over the minutes after the close: one range of row keys after the other, so
// that a flush needs little memory and the engine's files of one hour do not overlap. Rows of an open hour go early, as
// one run of several, when the head or the log has reached its limit or disk space lacks.
//
// It is not the log (ingest/wal), not the in-memory rows (ingest/head) and not the wire format (ingest/remotewrite); it ties
// them to the series catalogue and the tables, enforces limits, and runs the background jobs.
//
// Invariants:
//   - A sample is acknowledged only when it is durable, its series is in the log before it, and the catalogue knows the
//     hour.
//   - The order of a series' samples in the log is their order in the head: the later write of a timestamp wins.
//   - A row leaves the head only after the table holds it. A reader that asks the head first, then the tables, and lets
//     the head win, misses nothing and counts nothing twice.
//   - The log is cut only below the oldest segment that a row still in the head needs, and only after the tables are
//     synced.
//
// Open replays the log. One goroutine decodes records, another applies them in their order. The head has the memory that it has
// while the server runs: rows above it are flushed beside the replay. Such a flush may repeat an earlier one, or be cut off by a
// crash. Both do no harm: the log still has everything that it had, a later replay applies it again, and runs that are written
// later win. A deletion gets a new run number at each replay, above all runs in the tables, because a replay that was killed may
// have flushed what the deletion hides. Limits of series do not apply to series of the log.
//
// A [Through] is the other way of storing: each sample is a cell of the data table before it is acknowledged, there is
// neither log nor head, and any number of processes share the tables (index.Options.Writer). ingest/packer turns the cells of
// closed hours into runs. Its invariants:
//   - A sample is acknowledged only when the table has acknowledged it, and before that the catalogue its series and hour.
//   - Writing again what may be written already changes nothing, so what the storage did not take is written again, and what
//     it refuses for long is not acknowledged.
//   - Samples that come late after their hour are marked for the packer, see there.
//
// Concurrency: all methods of Ingester and Through may be called by any number of goroutines; Close ends the background jobs and
// waits for them.
package ingest
