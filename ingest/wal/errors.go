package wal

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that say what a caller can do. They come wrapped with their cause.
var (
	// ErrFailed: a write or sync failed. The log takes and acknowledges nothing more. Repair the disk, then open the log
	// again.
	ErrFailed = errors.New("write-ahead log failed")
	// ErrOverload: the disk does not keep up, or it lacks space or descriptors, which storage.Exhausted tells; retry later.
	ErrOverload = errors.New("write-ahead log overloaded")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("write-ahead log closed")
	// ErrTooLarge: the payload exceeds PayloadBytesMax; split it.
	ErrTooLarge = errors.New("payload too large for the write-ahead log")
	// ErrNotReplayed: Replay must run, successfully, before the log takes frames.
	ErrNotReplayed = errors.New("write-ahead log not replayed")
	// ErrLocked: another process or Log has the directory open.
	ErrLocked = errors.New("write-ahead log locked")
	// ErrVersion: the files were written by a newer version of this program, which alone can read them.
	ErrVersion = errors.New("unknown version of the write-ahead log")
)

// DamageError says that bytes which once were durable cannot be read back. The log refuses to go on unless
// Options.AcceptLoss is set.
type DamageError struct {
	// File is the damaged or missing file, relative to the log's directory.
	File string
	// Segment is its number; 0 for the watermark file.
	Segment uint64
	// Offset is the first byte of File that is not as it was; 0 if the file is missing.
	Offset int64
	// Reason says what was found, in words.
	Reason string
	// LostFrames is the number of frames known to be lost at least, -1 if not known.
	LostFrames int64
	// FirstSeq is the sequence number of the first lost frame, 0 if not known.
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

// Unwrap gives the error of the failed read, if that was the damage.
func (e *DamageError) Unwrap() error { return e.Err }
