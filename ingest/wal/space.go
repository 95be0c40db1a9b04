package wal

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage"
)

const (
	// stallRetry is the time between two tries of an operation that lacks disk space, descriptors or memory.
	stallRetry = 200 * time.Millisecond
	// slowLogInterval is the least time between two warnings about a slow disk.
	slowLogInterval = 10 * time.Second
)

// The log outlives an operation that fails for lack of disk space, descriptors or memory (storage.Exhausted). Such a
// failure leaves nothing behind that a sync could have lost, so the committer repeats the operation until it succeeds.
// Meanwhile the log is stalled: Append and Wait fail with ErrOverload.

// writeAll writes b to the newest segment, again and again while the machine lacks what it needs.
func (l *Log) writeAll(b []byte) error {
	return l.retry(func() error {
		n, err := l.file.Write(b)
		b = b[max(0, min(n, len(b))):]
		return err
	})
}

// retry repeats an operation while the machine lacks what it needs. It gives up when the log is being closed.
func (l *Log) retry(operation func() error) error {
	for {
		err := operation()
		if err == nil || !storage.Exhausted(err) || !l.stall(err) {
			return err
		}
	}
}

// nextSegment makes the file of the segment of h.
func (l *Log) nextSegment(h *header) (f vfs.File, err error) {
	l.nextMu.Lock()
	defer l.nextMu.Unlock()
	err = l.retry(func() error {
		if l.nextFile == nil {
			if err := l.createNext(); err != nil {
				return err
			}
		}
		f, l.nextFile = l.nextFile, nil
		err := fillNamed(l.fs, f, l.opts.Dir, nextName, segmentName(h.number), h.append(nil))
		if err == nil {
			err = l.syncDir()
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
		return nil
	})
	return f, err
}

// createNext creates the empty file of the segment to come. The caller holds nextMu.
func (l *Log) createNext() error {
	f, err := l.fs.Create(l.fs.PathJoin(l.opts.Dir, nextName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("create the file of the next segment: %w", err)
	}
	l.nextFile = f
	return nil
}

// prepareNext creates the file of the next segment ahead of time: the log must not lack a descriptor when it begins the
// segment. A failure is left to nextSegment.
func (l *Log) prepareNext() {
	if !l.nextMu.TryLock() {
		return // nextSegment is at it
	}
	defer l.nextMu.Unlock()
	if l.nextFile == nil {
		_ = l.createNext()
	}
}

// dropNext removes the file of the segment to come. The log is closed. A file that stays is removed at the next start.
func (l *Log) dropNext() error {
	l.nextMu.Lock()
	defer l.nextMu.Unlock()
	if l.nextFile == nil {
		return nil
	}
	err := l.nextFile.Close()
	l.nextFile = nil
	return errors.Join(err, removeAll(l.fs, l.opts.Dir, []string{nextName}))
}

// stall sends the waiters away and pauses before the next try; false means that the log is being closed.
func (l *Log) stall(cause error) bool {
	l.mu.Lock()
	if l.stallErr == nil {
		l.stallErr = fmt.Errorf("%w: %w", ErrOverload, cause)
		close(l.stalled)
		l.metrics.stalls.Inc()
		l.logger.Error("the write-ahead log lacks disk space or descriptors; writes are refused until it has them",
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

// resumeLocked ends stall and overload: a group became durable.
func (l *Log) resumeLocked() {
	l.refused = nil
	if l.stallErr != nil {
		l.stallErr, l.stalled = nil, make(chan struct{})
		l.logger.Info("the write-ahead log takes writes again", "dir", l.opts.Dir)
	}
}

// noteDurationLocked counts the commit that has ended if it was slow.
func (l *Log) noteDurationLocked() {
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

// syncDir makes the names in the log's directory durable.
func (l *Log) syncDir() error {
	if err := l.dir.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", l.opts.Dir, err)
	}
	return nil
}

// remove removes the named files for good.
func (l *Log) remove(names []string) error {
	if len(names) == 0 {
		return nil
	}
	if err := removeAll(l.fs, l.opts.Dir, names); err != nil {
		return err
	}
	return l.syncDir()
}
