package wal

import (
	"fmt"
	"time"

	"halite/storage"
)

const (
	// stallRetry is the time between two attempts at an operation that lacks disk space, descriptors or memory.
	stallRetry = 200 * time.Millisecond
	// slowLogInterval is the minimum time between two warnings about a slow disk.
	slowLogInterval = 10 * time.Second
)

// An operation that fails for lack of disk space, descriptors or memory (storage.Exhausted) does not fail the log. Such a
// failure loses no synced data, so the committer repeats the operation until it succeeds. Meanwhile the log is stalled:
// Append and Wait return ErrOverload.

// writeAll writes b to the newest segment. It retries while a resource is exhausted.
func (l *Log) writeAll(b []byte) error {
	return l.retry(func() error {
		n, err := l.file.Write(b)
		b = b[max(0, min(n, len(b))):]
		return err
	})
}

// retry repeats an operation while a resource is exhausted. It gives up when the log closes.
func (l *Log) retry(operation func() error) error {
	for {
		err := operation()
		if err == nil || !storage.Exhausted(err) || !l.stall(err) {
			return err
		}
	}
}

// stall fails all waiters and pauses before the next attempt. It returns false if the log closes.
func (l *Log) stall(cause error) bool {
	l.mu.Lock()
	if l.stallErr == nil {
		l.stallErr = fmt.Errorf("%w: %w", ErrOverload, cause)
		close(l.stalled)
		l.metrics.stalls.Inc()
		l.logger.Error("the write-ahead log lacks disk space or descriptors; it refuses writes until it has them",
			"dir", l.opts.Dir, "err", cause)
	}
	l.mu.Unlock()
	timer := time.NewTimer(stallRetry)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.stop:
		return false
	}
}

// resumeLocked ends a stall or overload after a commit.
func (l *Log) resumeLocked() {
	l.refused = nil
	if l.stallErr != nil {
		l.stallErr, l.stalled = nil, make(chan struct{})
		l.logger.Info("the write-ahead log accepts writes again", "dir", l.opts.Dir)
	}
}

// countSlowCommitLocked counts and logs the commit that has ended if it was slow.
func (l *Log) countSlowCommitLocked() {
	now := l.now()
	took := now.Sub(l.commitBegan)
	if took < l.opts.SlowAfter {
		return
	}
	l.metrics.slow.Inc()
	if now.Sub(l.slowLogged) >= slowLogInterval {
		l.slowLogged = now
		l.logger.Warn("the disk of the write-ahead log is slow", "dir", l.opts.Dir, "commit", took)
	}
}
