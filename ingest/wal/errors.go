package wal

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of the log. A caller decides by them what to do. They wrap their cause.
var (
	// ErrFailed means that a write or sync failed. The log accepts and acknowledges no more frames. The operator repairs the
	// disk, then opens the log again.
	ErrFailed = errors.New("write-ahead log failed")
	// ErrOverload means that the disk is too slow, or that space or descriptors are exhausted (see storage.Exhausted); retry
	// later.
	ErrOverload = errors.New("write-ahead log overloaded")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("write-ahead log closed")
	// ErrTooLarge means that the payload exceeds PayloadBytesMax; the caller splits it.
	ErrTooLarge = errors.New("payload too large for the write-ahead log")
	// ErrNotReplayed means that Replay has not succeeded yet.
	ErrNotReplayed = errors.New("write-ahead log not replayed")
	// ErrLocked means that another process or Log has the directory open.
	ErrLocked = errors.New("write-ahead log locked")
	// ErrVersion means that a newer version of this program wrote the files. Only that version can read them.
	ErrVersion = errors.New("unknown version of the write-ahead log")
)

// DamageError reports bytes that once were durable and cannot be read. Replay returns it unless Options.AcceptLoss is set.
type DamageError struct {
	// File is the damaged or missing file, relative to the log's directory.
	File string
	// Segment is the number of the file; 0 for the watermark file.
	Segment uint64
	// Offset is the first damaged byte of File; 0 if the file is missing.
	Offset int64
	// Reason describes the damage in words.
	Reason string
	// LostFrames is the minimum number of lost frames, -1 if unknown.
	LostFrames int64
	// FirstSeq is the sequence number of the first lost frame, 0 if unknown.
	FirstSeq uint64
	// Err is the error of a failed read, or nil.
	Err error
}

func (e *DamageError) Error() string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "write-ahead log damaged: %s at byte %d: %s", e.File, e.Offset, e.Reason)
	if e.LostFrames > 0 {
		fmt.Fprintf(&sb, "; at least %d frames are lost", e.LostFrames)
	}
	if e.FirstSeq > 0 {
		fmt.Fprintf(&sb, " from frame %d on", e.FirstSeq)
	}
	if e.Err != nil {
		fmt.Fprintf(&sb, ": %v", e.Err)
	}
	return sb.String()
}

// Unwrap returns the error of the failed read, if there is one.
func (e *DamageError) Unwrap() error { return e.Err }
