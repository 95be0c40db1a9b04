package wal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// rotateLocked makes the next frame the first of a new segment.
func (l *Log) rotateLocked() {
	h := header{typ: typeSegment, salt: l.salt, number: l.next.pos.Segment + 1, firstSeq: l.next.seq,
		prevBytes: l.next.pos.Offset, prevSum: l.next.sum, syncedBytes: headerBytes}
	h.append(nil)
	l.gathering.rotations = append(l.gathering.rotations, rotation{at: len(l.gathering.data), header: h})
	l.next = logEnd{Position{h.number, headerBytes}, h.firstSeq, h.sum}
	l.groupStart = headerBytes
}

// Rotate ends the current segment, unless it is empty. Frames appended before the call lie in segments before the returned
// one; frames appended after it lie in the returned segment or a later one.
func (l *Log) Rotate() (segment uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	if l.next.pos.Offset > headerBytes {
		l.rotateLocked()
	}
	return l.next.pos.Segment, nil
}

// FirstSegmentWithin returns the first segment such that the log from there on has at most sizeBytes bytes. It counts
// neither the checkpoint nor unsynced frames. If the newest segment alone is larger, it returns the number after it.
func (l *Log) FirstSegmentWithin(sizeBytes int64) (segment uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	segment = l.durable.pos.Segment + 1
	sizeBytes -= l.durable.pos.Offset
	for n := len(l.sealed) - 1; sizeBytes >= 0; n-- {
		segment--
		if n < 0 {
			break
		}
		sizeBytes -= l.sealed[n].bytes
	}
	return segment
}

// FirstSegment returns the number of the log's first segment. Before it there is a checkpoint or nothing.
func (l *Log) FirstSegment() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.checkpoint.number > 0:
		return l.checkpoint.number
	case len(l.sealed) > 0:
		return l.sealed[0].number
	}
	return l.durable.pos.Segment
}

// beginSegment creates the segment of h. The current segment must be durable.
func (l *Log) beginSegment(h header) error {
	f, err := l.nextSegment(&h)
	if err != nil {
		return err
	}
	if err := l.file.Close(); err != nil {
		return errors.Join(fmt.Errorf("close segment %d: %w", h.number-1, err), f.Close())
	}
	l.file = f
	at := logEnd{Position{h.number, headerBytes}, h.firstSeq, h.sum}
	// After this point replay detects the loss of the whole segment.
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

// nextSegment returns the file of the segment with the header h, under its final name.
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

// createNext creates the empty file of the next segment. The caller holds nextMu.
func (l *Log) createNext() error {
	f, err := l.fs.Create(l.fs.PathJoin(l.opts.Dir, nextName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("create the file of the next segment: %w", err)
	}
	l.nextFile = f
	return nil
}

// prepareNext creates the file of the next segment ahead of time, so that the log has its descriptor when the segment begins.
// If that fails, nextSegment tries again.
func (l *Log) prepareNext() {
	if !l.nextMu.TryLock() {
		return // nextSegment is running
	}
	defer l.nextMu.Unlock()
	if l.nextFile == nil {
		_ = l.createNext()
	}
}

// removeNext removes the file of the next segment when the log closes. If that fails, the next Open removes it.
func (l *Log) removeNext() error {
	l.nextMu.Lock()
	defer l.nextMu.Unlock()
	if l.nextFile == nil {
		return nil
	}
	err := l.nextFile.Close()
	l.nextFile = nil
	return errors.Join(err, removeAll(l.fs, l.opts.Dir, []string{nextName}))
}

// syncDir syncs the log's directory.
func (l *Log) syncDir() error {
	if err := l.dir.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", l.opts.Dir, err)
	}
	return nil
}

// remove removes the named files and syncs the directory.
func (l *Log) remove(names []string) error {
	if len(names) == 0 {
		return nil
	}
	if err := removeAll(l.fs, l.opts.Dir, names); err != nil {
		return err
	}
	return l.syncDir()
}
