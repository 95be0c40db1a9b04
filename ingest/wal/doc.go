// Package wal is the write-ahead log: an ordered list of opaque frames that survive kill -9 and power loss.
//
// A frame is acknowledged when [Log.Wait] has returned nil for its position: by then it and everything before it was
// written and fdatasync'd. Commits are grouped: while one sync runs, the next group gathers. [Log.Replay] yields the
// newest checkpoint and then every frame in the order of Append, once each. [Log.Truncate] replaces old segments by a
// checkpoint.
//
// The package is not a store of samples: what a payload means is up to the caller, although the codecs of the payloads
// that ingest writes live here too (record.go, series.go, samples.go, metadata.go), because they are part of what is
// on disk. FORMAT.md beside this file draws every byte.
//
// Invariants:
//   - A group is written only after the group before it was synced, and each frame names the start of its group. A
//     frame that verifies behind a hole therefore proves whether the hole was once durable (damage) or not (torn tail).
//   - A file gets its name only after its contents were synced, so a named file with a bad header is damaged, never
//     torn.
//   - The watermark never names more than what is durable, and each new segment is named by it before its first frame
//     is acknowledged.
//   - Nothing is acknowledged after a failed write or sync; only a new Open can help. An operation that lacks disk space,
//     descriptors or memory is no failure: the log repeats it until it succeeds.
//
// Concurrency: a Log may be used by any number of goroutines. Replay runs once, before the first Append. One goroutine
// commits, one advances the watermark; Close ends both.
package wal
