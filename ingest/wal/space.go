package wal

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// spaceRetry is the time between two tries to write to a full file system.
const spaceRetry = 200 * time.Millisecond

// errStalled is what callers get while the file system is full.
var errStalled = fmt.Errorf("%w: %w", ErrOverload, ErrNoSpace)

// A full file system is the one failure that the log outlives: a write that found no room left nothing behind that a
// sync could have lost, so the committer tries the rest of it again until there is room. Meanwhile the log is stalled:
// nothing is appended, and nobody waits.

// writeAll writes b to the newest segment, trying again while there is no space.
func (l *Log) writeAll(b []byte) error {
	for {
		n, err := l.file.Write(b)
		if err == nil || !vfs.IsNoSpaceError(err) {
			return err
		}
		b = b[max(0, min(n, len(b))):]
		if !l.awaitSpace(err) {
			return err
		}
	}
}

// nextSegment makes the file of the segment of h, trying again while there is no space.
func (l *Log) nextSegment(h *header) (vfs.File, error) {
	for {
		f, err := writeNamed(l.fs, l.opts.Dir, segmentName(h.number), h.append(nil))
		if err == nil || !errors.Is(err, ErrNoSpace) || !l.awaitSpace(err) {
			return f, err
		}
	}
}

// awaitSpace sends the waiters away and pauses before the next try; false means that the log is being closed.
func (l *Log) awaitSpace(cause error) bool {
	l.mu.Lock()
	if !l.isStalled {
		l.isStalled = true
		close(l.stalled)
		l.metrics.stalls.Inc()
		l.logger.Error("the write-ahead log's file system is full; writes are refused until there is space",
			"dir", l.opts.Dir, "err", cause)
	}
	l.mu.Unlock()
	timer := time.NewTimer(spaceRetry)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.stop:
		return false
	}
}

// resumeLocked ends a stall: a group became durable.
func (l *Log) resumeLocked() {
	if l.isStalled {
		l.isStalled, l.stalled = false, make(chan struct{})
		l.logger.Info("the write-ahead log has space again", "dir", l.opts.Dir)
	}
}
