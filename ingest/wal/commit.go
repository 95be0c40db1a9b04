package wal

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage"
)

// spareBytesMax is the size of the largest buffer that the log reuses. It frees larger buffers, which bursts leave behind.
const spareBytesMax = 8 << 20

// commitLoop commits when kicked, at most once in CommitDelay unless the group is large. While a commit runs, the next group
// gathers frames.
func (l *Log) commitLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var last time.Time
	for {
		select {
		case <-l.kick:
		case <-l.stop:
			l.commit()
			return
		}
		if wait := l.opts.CommitDelay - time.Since(last); wait > 0 && !last.IsZero() && l.shouldDelay() {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-l.full:
			case <-l.stop:
			}
		}
		last = time.Now()
		l.commit()
	}
}

// shouldDelay reports whether other writers may join the next sync. A lone client sends its next request only after the last
// response, so a delay would only slow it down.
func (l *Log) shouldDelay() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.gathering.data) < l.opts.CommitBytes && (l.lastWaiters > 1 || l.gathering.waiters != 1)
}

// commit makes the current group durable.
func (l *Log) commit() {
	l.mu.Lock()
	g := l.gathering
	if errors.Is(l.err, ErrFailed) || len(g.data) == 0 && len(g.rotations) == 0 {
		l.mu.Unlock()
		return
	}
	g.end = l.next
	l.writing, l.commitBegan = g, l.now()
	l.lastWaiters = g.waiters
	l.gathering = &group{data: l.spare[:0], done: make(chan struct{})}
	l.spare = nil
	l.groupStart = l.next.pos.Offset
	// A token of this group must not end the delay of the next one.
	select {
	case <-l.full:
	default:
	}
	l.mu.Unlock()

	if operation, err := l.writeGroup(g); err != nil {
		l.fail(operation, err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.err, ErrFailed) {
		return // The watermark failed meanwhile, and fail has woken the waiters.
	}
	l.durable = g.end
	l.resumeLocked()
	l.countSlowCommitLocked()
	l.commits++
	l.bytesWritten += uint64(len(g.data))
	l.metrics.committed(len(g.data))
	l.writing = nil
	close(g.done)
	if cap(g.data) <= spareBytesMax {
		l.spare = g.data
	}
}

// writeGroup writes and syncs g, segment by segment. With an error it returns the name of the operation that failed.
func (l *Log) writeGroup(g *group) (operation string, err error) {
	from := 0
	for _, c := range g.rotations {
		if operation, err := l.writeSync(g.data[from:c.at]); err != nil {
			return operation, err
		}
		if err := l.beginSegment(c.header); err != nil {
			return "segment", err
		}
		from = c.at
	}
	return l.writeSync(g.data[from:])
}

func (l *Log) writeSync(b []byte) (operation string, err error) {
	if len(b) == 0 {
		return "", nil
	}
	if err := l.writeAll(b); err != nil {
		return "write", err
	}
	start := l.now()
	if err := syncData(l.file); err != nil {
		return "sync", err
	}
	l.metrics.synced(l.now().Sub(start))
	return "", nil
}

// syncData syncs the data of a file. It repeats a call that a signal interrupted, as os.File.Sync does. Any other error is final:
// a later sync can succeed although the disk lacks bytes.
func syncData(f vfs.File) error {
	for {
		if err := f.SyncData(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// maintain advances the watermark, commits frames for which nobody waits, and creates the file of the next segment.
func (l *Log) maintain(context.Context) {
	l.mu.Lock()
	at, err := l.durable, l.err
	if l.next.pos != at.pos {
		signal(l.kick)
	}
	l.mu.Unlock()
	if err != nil {
		return
	}
	err = l.mark.advance(mark{pos: at.pos, sum: at.sum, nextSeq: at.seq})
	if err != nil && !storage.Exhausted(err) { // these errors are temporary; the next call tries again
		l.fail("watermark", err)
		return
	}
	l.prepareNext()
}
