package wal

import "time"

// Stats is a snapshot of a Log.
type Stats struct {
	// Segments counts the segment files, Segment is the number of the newest.
	Segments int
	Segment  uint64
	// Checkpoint is the number of the checkpoint that replay starts with, 0 if there is none.
	Checkpoint uint64
	// SizeBytes is the size of all segments and the checkpoint.
	SizeBytes int64
	// BufferBytes wait to be written.
	BufferBytes int
	// Appended is the end of what was appended, Durable of what is synced, Watermark of what the watermark file
	// vouches for.
	Appended, Durable, Watermark Position
	// FramesAppended, Commits and BytesWritten count since Open.
	FramesAppended, Commits, BytesWritten uint64
	// CommitAge is how long the disk has been busy with the commit under way; 0 if there is none.
	CommitAge time.Duration
	// Err is nil or the reason for which the log failed.
	Err error
}

// ReplayStats tells what Replay found.
type ReplayStats struct {
	// Checkpoint is the number of the checkpoint that was read, 0 if there was none; Segments counts the segments.
	Checkpoint uint64
	Segments   int
	// Frames and PayloadBytes were handed to the callback.
	Frames, PayloadBytes int64
	// Clean says that the log had been closed, not cut off.
	Clean bool
	// TornAt is where the incomplete end of an uncleanly ended log began, TornBytes its size and TornFrames the
	// number of whole frames in it. They were never acknowledged (or within the last WatermarkInterval, see Options).
	TornAt     Position
	TornBytes  int64
	TornFrames int64
	// Losses lists the damage that was accepted; empty unless Options.AcceptLoss.
	Losses []Loss
	// Duration of the replay, including the callbacks.
	Duration time.Duration
}

// Loss is one stretch of the log that could not be read back.
type Loss struct {
	// Damage names file, offset, reason and lost frames.
	Damage DamageError
	// ToOffset is the first byte of the file that could be read again, or the file's size; 0 if the file is missing.
	ToOffset int64
	// LastSeq is the sequence number of the last lost frame, 0 if not known.
	LastSeq uint64
	// Kept is where the damaged file is now, relative to the log's directory; empty if there is no file to keep.
	Kept string
}
