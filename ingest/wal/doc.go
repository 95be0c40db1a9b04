// Package wal is the write-ahead log: an ordered sequence of frames that survives kill -9 and power loss.
//
// [Log.Append] buffers a frame. [Log.Wait] returns once the frame and everything before it is written and synced (fdatasync).
// Commits are grouped: while one sync runs, the next group gathers frames. [Log.Replay] yields the newest checkpoint and then
// every frame once, in the order of Append. [Log.Truncate] replaces old segments by a checkpoint.
//
// The log does not look into payloads. Package record below encodes those that ingest writes. FORMAT.md draws every byte.
//
// Invariants:
//   - The log writes a group only after it has synced the previous group, and each frame names the start of its group. So a
//     valid frame after a hole proves whether the hole was once durable (damage) or not (torn tail).
//   - A file gets its name only after its contents are synced. So a named file with a bad header is damaged, never torn.
//   - The watermark never lies beyond the end of the durable frames. It names each new segment before the log acknowledges
//     a frame in it.
//   - After a failed write or sync the log acknowledges nothing; only a new Open can help. A lack of disk space, descriptors
//     or memory is not a failure: the log repeats the operation until it succeeds.
//
// Concurrency: any number of goroutines may use a Log. Replay runs once, before the first Append. One goroutine commits, and one
// advances the watermark; Close ends both.
package wal
