package wal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage"
)

// checkpointBufferBytes is the size of one write.
const checkpointBufferBytes = 1 << 20

// checkpointWriter writes a checkpoint under a temporary name.
type checkpointWriter struct {
	fs        vfs.FS
	dir, name string
	file      vfs.File
	salt      uint64
	buf       []byte
	at        logEnd
	written   int64
}

// newCheckpointWriter begins the checkpoint before the segment next. It uses the salt, number and firstSeq of next. The tables
// hold all frames of segments before flushedBefore.
func newCheckpointWriter(fs vfs.FS, dir string, next *header, flushedBefore uint64) (*checkpointWriter, error) {
	c := &checkpointWriter{fs: fs, dir: dir, name: checkpointName(next.number), salt: next.salt}
	f, err := fs.Create(c.tempPath(), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("create checkpoint: %w", err)
	}
	c.file = f
	h := header{typ: typeCheckpoint, salt: next.salt, number: next.number, firstSeq: next.firstSeq, flushedBefore: flushedBefore}
	c.buf = h.append(c.buf)
	c.at = logEnd{seq: 1, sum: h.sum}
	return c, nil
}

func (c *checkpointWriter) tempPath() string { return c.fs.PathJoin(c.dir, c.name+tempSuffix) }

func (c *checkpointWriter) add(kind byte, payload []byte) error {
	f := frame{kind: kind, seq: c.at.seq, prev: uint32(c.at.sum), payload: payload}
	c.buf = appendFrame(c.buf, c.salt, &f)
	c.at.seq, c.at.sum = f.seq+1, f.sum
	if len(c.buf) < checkpointBufferBytes {
		return nil
	}
	return c.flush()
}

func (c *checkpointWriter) flush() error {
	if _, err := c.file.Write(c.buf); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	c.written += int64(len(c.buf))
	c.buf = c.buf[:0]
	// Start writing now, so that the sync at the end does not delay the syncs of the log.
	if _, err := c.file.SyncTo(c.written); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return nil
}

// write writes the frames that emitFrames emits, and finishes the file.
func (c *checkpointWriter) write(emitFrames func(emit func(kind byte, payload []byte) error) error) error {
	err := emitFrames(func(kind byte, payload []byte) error {
		if kind == 0 || kind > KindMax || len(payload) > PayloadBytesMax {
			return fmt.Errorf("%w: kind %d, %d bytes in a checkpoint", ErrTooLarge, kind, len(payload))
		}
		return c.add(kind, payload)
	})
	if err != nil {
		return err
	}
	return c.finish()
}

// finish completes and syncs the temporary file.
func (c *checkpointWriter) finish() error {
	count := binary.LittleEndian.AppendUint64(nil, c.at.seq-1)
	if err := c.add(kindEnd, count); err != nil {
		return err
	}
	if err := c.flush(); err != nil {
		return err
	}
	if err := c.file.Sync(); err != nil {
		return fmt.Errorf("sync checkpoint: %w", err)
	}
	err := c.file.Close()
	c.file = nil
	if err != nil {
		return fmt.Errorf("close checkpoint: %w", err)
	}
	return nil
}

// discard closes and removes the temporary file. If that fails, the next Open removes it.
func (c *checkpointWriter) discard() error {
	var err error
	if c.file != nil {
		err = c.file.Close()
	}
	return errors.Join(err, c.fs.Remove(c.tempPath()))
}

// publish gives the finished file its final name. The caller syncs the directory.
func (c *checkpointWriter) publish() error {
	if err := c.fs.Rename(c.tempPath(), c.fs.PathJoin(c.dir, c.name)); err != nil {
		return fmt.Errorf("rename checkpoint: %w", err)
	}
	return nil
}

// Truncate replaces all segments before the given one by a checkpoint. The function checkpoint emits the frames of these
// segments that replay still needs. Truncate waits until the given segment exists, and may run concurrently with Append. If
// there is no earlier segment, it does nothing and does not call checkpoint.
//
// If checkpoint or the write of its file fails, the log does not change; see storage.Exhausted. If it is unknown whether the
// checkpoint took effect, the log fails (ErrFailed).
func (l *Log) Truncate(before uint64, checkpoint func(emit func(kind byte, payload []byte) error) error) error {
	l.truncating.Lock()
	defer l.truncating.Unlock()
	needed, err := l.awaitSegment(before)
	if err != nil || !needed {
		return err
	}
	c, err := newCheckpointWriter(l.fs, l.opts.Dir, l.segmentHeader(before), before)
	if err != nil {
		return err
	}
	if err := c.write(checkpoint); err != nil {
		l.discard(c)
		return err
	}
	err = c.publish()
	if storage.Exhausted(err) { // the file still has its temporary name
		l.discard(c)
		return err
	}
	if err == nil {
		err = l.syncDir()
	}
	if err != nil {
		l.fail("checkpoint", err)
		return err
	}
	l.metrics.truncates.Inc()
	return l.dropSegments(segmentMeta{number: before, bytes: c.written})
}

// discard removes an unfinished checkpoint.
func (l *Log) discard(c *checkpointWriter) {
	if err := c.discard(); err != nil {
		l.logger.Warn("an unfinished checkpoint file remains until the next start", "err", err)
	}
}

// segmentHeader returns number, firstSeq and salt of an existing segment.
func (l *Log) segmentHeader(number uint64) *header {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &header{salt: l.salt, number: number, firstSeq: l.firstSeq}
	for _, s := range l.sealed {
		if s.number == number {
			h.firstSeq = s.firstSeq
		}
	}
	return h
}

// awaitSegment waits until the segment exists on disk. needed is false if there is no earlier segment.
func (l *Log) awaitSegment(before uint64) (needed bool, err error) {
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return false, l.err
	}
	if before > l.next.pos.Segment {
		defer l.mu.Unlock()
		return false, fmt.Errorf("wal: truncate before segment %d, but the log ends in %d", before, l.next.pos.Segment)
	}
	pos := Position{Segment: before}
	if pos.Before(l.durable.pos) {
		defer l.mu.Unlock()
		return before > l.checkpoint.number && len(l.sealed) > 0 && l.sealed[0].number < before, nil
	}
	g := l.writing
	if g == nil || !pos.Before(g.end.pos) {
		g = l.gathering
		signal(l.kick)
	}
	stalled := l.stalled
	l.mu.Unlock()
	// If this segment exists, all earlier segments are sealed. There is at least one, because a rotation needs a frame before it.
	select {
	case <-g.done:
		return true, g.err
	case <-stalled:
		return false, l.stallError()
	}
}

// dropSegments removes the files that the published checkpoint replaces.
func (l *Log) dropSegments(checkpoint segmentMeta) error {
	l.mu.Lock()
	var names []string
	if l.checkpoint.number > 0 {
		names = append(names, checkpointName(l.checkpoint.number))
	}
	for len(l.sealed) > 0 && l.sealed[0].number < checkpoint.number {
		names = append(names, segmentName(l.sealed[0].number))
		l.sealed = l.sealed[1:]
	}
	l.checkpoint = checkpoint
	l.mu.Unlock()
	// If a crash interrupts the removal, the next Open completes it.
	if err := l.remove(names); err != nil {
		return fmt.Errorf("remove files that the checkpoint replaces: %w", err)
	}
	return nil
}
