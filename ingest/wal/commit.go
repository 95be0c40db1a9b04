package wal

import (
	"errors"
	"fmt"
	"time"

	"halite/storage"
)

// spareBytesMax is the largest buffer that is kept for the next group, so that one burst does not hold memory for
// ever.
const spareBytesMax = 8 << 20

// commitLoop commits when kicked, at most once in CommitDelay unless much is waiting. While a commit runs, the next
// group gathers.
func (l *Log) commitLoop() {
	defer l.background.Done()
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
		if wait := l.opts.CommitDelay - time.Since(last); wait > 0 && !last.IsZero() && l.worthWaiting() {
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

// worthWaiting: others may come to share the next sync. A lone client that sends its next request when the last is
// answered would only be slowed down.
func (l *Log) worthWaiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.gathering.data) < l.opts.CommitBytes && (l.lastWaiters > 1 || l.gathering.waiters != 1)
}

// commit makes the gathering group durable.
func (l *Log) commit() {
	l.mu.Lock()
	g := l.gathering
	if errors.Is(l.err, ErrFailed) || len(g.data) == 0 && len(g.cuts) == 0 {
		l.mu.Unlock()
		return
	}
	g.end = l.next
	l.writing, l.commitBegan = g, l.now()
	l.lastWaiters = g.waiters
	l.gathering = &group{data: l.spare[:0], done: make(chan struct{})}
	l.spare = nil
	l.groupStart = l.next.pos.Offset
	// A token for this group must not hurry the next.
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
		return // The watermark failed meanwhile, and fail has told the waiters.
	}
	l.durable = g.end
	l.resumeLocked()
	l.noteDurationLocked()
	l.commits++
	l.bytesWritten += uint64(len(g.data))
	l.metrics.committed(len(g.data))
	l.writing = nil
	close(g.done)
	if cap(g.data) <= spareBytesMax {
		l.spare = g.data
	}
}

// writeGroup writes and syncs g, segment by segment. With an error it names the operation that failed.
func (l *Log) writeGroup(g *group) (operation string, err error) {
	from := 0
	for _, c := range g.cuts {
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
	if err := l.file.SyncData(); err != nil {
		return "sync", err
	}
	l.metrics.synced(l.now().Sub(start))
	return "", nil
}

// beginSegment creates the segment of h behind the current one, all of which is durable.
func (l *Log) beginSegment(h header) error {
	f, err := l.nextSegment(&h)
	if err != nil {
		return err
	}
	if err := l.file.Close(); err != nil {
		return errors.Join(fmt.Errorf("close segment %d: %w", h.number-1, err), f.Close())
	}
	l.file = f
	at := tip{Position{h.number, headerBytes}, h.firstSeq, h.sum}
	// From here on the loss of the whole segment is noticed.
	err = l.retry(func() error { return l.mark.advance(mark{pos: at.pos, sum: at.sum, nextSeq: at.seq}) })
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = append(l.sealed, segmentMeta{h.number - 1, h.prevBytes, l.firstSeq})
	l.firstSeq = h.firstSeq
	l.durable = at
	return nil
}

// markLoop advances the watermark, commits what nobody waits for and makes the file of the next segment.
func (l *Log) markLoop() {
	defer l.background.Done()
	ticker := time.NewTicker(l.opts.WatermarkInterval)
	defer ticker.Stop()
	for {
		l.prepareNext()
		select {
		case <-ticker.C:
		case <-l.stop:
			return
		}
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
		if err != nil && !storage.Exhausted(err) { // else the next tick tries again
			l.fail("watermark", err)
			return
		}
	}
}
