package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// segmentScan reads one segment for a walker.
type segmentScan struct {
	*walker
	file *segmentFile
	r    *fileReader
	// limit is the end of the segment's frames. If limitKnown is set, it comes from the header of the next segment;
	// otherwise it is the end of the file.
	limit      int64
	limitKnown bool
	last       bool
	next       int
	frames     int64
	markSeen   bool
}

// walkSegment reads the i-th segment.
func (w *walker) walkSegment(i int) (err error) {
	s := &w.files[i]
	if i > 0 && s.number > w.files[i-1].number+1 {
		if err := w.reportMissing(w.files[i-1].number+1, w.firstSeq(i)); err != nil {
			return err
		}
	}
	r, err := openReader(w.fs, w.fs.PathJoin(w.dir, s.name))
	if err != nil {
		d := DamageError{File: s.name, Segment: s.number, Reason: "the file cannot be opened", Err: err}
		return w.reportDamage(d, w.firstSeq(i+1))
	}
	defer func() { err = errors.Join(err, r.close()) }()
	sc := segmentScan{walker: w, file: s, r: r, limit: r.size, last: i == len(w.files)-1, next: i + 1}
	if !sc.last && w.files[i+1].damage == "" && w.files[i+1].number == s.number+1 {
		sc.limit, sc.limitKnown = w.files[i+1].header.prevBytes, true
	}
	if err := sc.begin(); err != nil {
		return err
	}
	if err := sc.walk(); err != nil {
		return err
	}
	if err := sc.finish(); err != nil {
		return err
	}
	if w.fileDone != nil {
		w.fileDone(walkedFile{name: s.name, header: s.header, sizeBytes: r.size, endOffset: w.cur.off, frames: sc.frames})
	}
	return nil
}

// begin moves the cursor after the file header.
func (sc *segmentScan) begin() error {
	w := sc.walker
	if sc.file.damage != "" {
		w.cur.off = 0
		return sc.skip(sc.file.damage, sc.file.readErr)
	}
	h := &sc.file.header
	if h.firstSeq != w.cur.seq && w.cur.seq > 0 {
		// Either the previous segment ends as this header says, or the walk has reported damage there.
		if err := w.reportDamageUntil(sc.damage("the segment does not follow the one before it", nil), headerBytes,
			h.firstSeq); err != nil {
			return err
		}
	}
	if h.firstSeq < w.cur.seq {
		// Yield no frame twice, even if files were swapped.
		w.cur.off = headerBytes
	} else {
		w.cur = cursor{off: headerBytes, seq: h.firstSeq, sum: h.sum, linked: true}
	}
	if sc.last {
		w.syncedOffset = max(headerBytes, h.syncedBytes)
		if w.markOK && w.mark.pos.Segment == sc.file.number {
			w.syncedOffset = max(w.syncedOffset, w.mark.pos.Offset)
		}
	}
	return nil
}

// walk reads the frames up to the limit.
func (sc *segmentScan) walk() error {
	w := sc.walker
	for {
		if sc.last {
			if err := sc.checkMark(); err != nil {
				return err
			}
		}
		if w.cur.off >= sc.limit {
			return nil
		}
		f, reason := sc.r.frameAt(w.cur.off, sc.limit, w.salt)
		verified := reason == ""
		if verified {
			reason = w.cur.mismatch(&f)
		}
		if reason == "" {
			if err := w.pass(&f, false, sc.file.number); err != nil {
				return err
			}
			sc.frames++
			continue
		}
		if !verified && sc.atEnd() {
			return nil
		}
		if err := sc.skip(reason, nil); err != nil {
			return err
		}
	}
}

// mismatch describes why f does not belong at the cursor; it returns "" if f does.
func (c *cursor) mismatch(f *frame) string {
	switch {
	case c.linked && f.seq != c.seq:
		return fmt.Sprintf("found frame %d instead of frame %d", f.seq, c.seq)
	case c.linked && f.prev != uint32(c.sum):
		return fmt.Sprintf("frame %d does not follow the frame before it", f.seq)
	case f.seq < c.seq:
		return fmt.Sprintf("frame %d comes after frame %d", f.seq, c.seq-1)
	}
	return ""
}

// checkMark compares the cursor with the watermark when the cursor passes it.
func (sc *segmentScan) checkMark() error {
	w := sc.walker
	if w.cur.off == w.syncedOffset && w.cur.linked {
		w.synced = w.cur
	}
	if !w.markOK || w.mark.pos.Segment != sc.file.number || sc.markSeen || w.cur.off < w.mark.pos.Offset {
		return nil
	}
	sc.markSeen = true
	if !w.cur.linked || w.cur.off == w.mark.pos.Offset && w.cur.sum == w.mark.sum && w.cur.seq == w.mark.nextSeq {
		return nil
	}
	at := w.cur
	err := w.reportDamageUntil(sc.damage("the frame before this offset is not the frame that the watermark names", nil), at.off, 0)
	w.cur.linked = at.linked
	return err
}

// atEnd reports whether the log's frames end at the cursor. If it returns false, the bytes there are damage.
func (sc *segmentScan) atEnd() bool {
	w := sc.walker
	if sc.limitKnown {
		return false
	}
	if !sc.last {
		// Only the next segment names the end of this one. The walk reports the loss there.
		_, _, found := sc.r.nextFrame(w.cur.off+1, sc.limit, w.salt, max(w.cur.seq, 1))
		return !found && sc.r.err == nil
	}
	if sc.file.damage != "" || w.cur.off < sc.file.header.syncedBytes {
		return false
	}
	if w.markOK && (w.mark.clean || Position{sc.file.number, w.cur.off}.Before(w.mark.pos)) {
		return false
	}
	// A frame of a later group proves that the missing frame was once durable.
	var behind int64
	for from, seq := w.cur.off+1, max(w.cur.seq, 1); ; behind++ {
		off, f, found := sc.r.nextFrame(from, sc.limit, w.salt, seq)
		if !found {
			break
		}
		if off-int64(f.groupOffset) > w.cur.off {
			return false
		}
		from, seq = off+f.sizeBytes(), f.seq+1
	}
	if sc.r.err != nil {
		return false
	}
	w.torn = tornTail{Position{sc.file.number, w.cur.off}, sc.r.size - w.cur.off, behind}
	return true
}

func (sc *segmentScan) damage(reason string, err error) DamageError {
	if err == nil {
		err = sc.r.err
	}
	return DamageError{File: sc.file.name, Segment: sc.file.number, Offset: sc.cur.off, Reason: reason, Err: err}
}

// skip reports damage at the cursor and moves the cursor to the next valid frame, or to the limit.
func (sc *segmentScan) skip(reason string, readErr error) error {
	w := sc.walker
	to, f, found := sc.r.nextFrame(w.cur.off+1, sc.limit, w.salt, max(w.cur.seq, 1))
	resumeSeq := f.seq
	if !found {
		to = sc.limit
		resumeSeq = w.firstSeq(sc.next)
		if sc.last && w.markOK && w.mark.pos.Segment >= sc.file.number && w.mark.nextSeq >= w.cur.seq {
			resumeSeq = w.mark.nextSeq
		}
	}
	if err := w.reportDamageUntil(sc.damage(reason, readErr), to, resumeSeq); err != nil {
		return err
	}
	w.cur.off = to
	return nil
}

// finish checks the end of the segment.
func (sc *segmentScan) finish() error {
	w := sc.walker
	if sc.last {
		w.end = w.cur
		if w.markOK && w.mark.pos.Segment == sc.file.number && !sc.markSeen && w.cur.linked {
			return sc.skip("the log ends before its watermark", nil)
		}
		return nil
	}
	if !sc.limitKnown || !w.cur.linked {
		return nil
	}
	next := &w.files[sc.next].header
	if w.cur.seq == next.firstSeq && w.cur.sum == next.prevSum {
		return nil
	}
	return w.reportDamageUntil(sc.damage("the segment does not match the header of the next segment", nil), sc.limit, next.firstSeq)
}

// pass passes a frame at the cursor to visit and moves the cursor behind it. number is the number of the file.
func (w *walker) pass(f *frame, inCheckpoint bool, number uint64) error {
	if err := w.visit(f, inCheckpoint, Position{number, w.cur.off}); err != nil {
		return err
	}
	w.cur = cursor{off: w.cur.off + f.sizeBytes(), seq: f.seq + 1, sum: f.sum, linked: true}
	return nil
}

// frameAtCursor parses the next frame of a checkpoint. An empty reason means that the frame is valid and belongs at the cursor.
func (w *walker) frameAtCursor(r *fileReader) (f frame, reason string) {
	if f, reason = r.frameAt(w.cur.off, r.size, w.salt); reason == "" {
		reason = w.cur.mismatch(&f)
	}
	return f, reason
}

// walkCheckpoint reads the checkpoint file.
func (w *walker) walkCheckpoint() (err error) {
	s := &w.ckpt
	r, err := openReader(w.fs, w.fs.PathJoin(w.dir, s.name))
	if err != nil {
		d := DamageError{File: s.name, Segment: s.number, Reason: "the file cannot be opened", Err: err}
		return w.reportDamage(d, 0)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	w.cur = cursor{off: headerBytes, seq: 1, sum: s.header.sum, linked: true}
	reason := s.damage
	if reason != "" {
		w.cur.off = 0
	}
	for {
		for reason == "" {
			var f frame
			if f, reason = w.frameAtCursor(r); reason != "" {
				break
			}
			if f.kind == kindEnd {
				return w.endCheckpoint(r, &f)
			}
			if err := w.pass(&f, true, s.number); err != nil {
				return err
			}
		}
		to, f, found := r.nextFrame(w.cur.off+1, r.size, w.salt, w.cur.seq)
		d := DamageError{File: s.name, Segment: s.number, Offset: w.cur.off, Reason: reason,
			Err: errors.Join(s.readErr, r.err)}
		if err := w.reportDamageUntil(d, to, f.seq); err != nil || !found {
			return err
		}
		w.cur.off, reason = to, ""
	}
}

// endCheckpoint checks the last frame of the checkpoint and the end of its file.
func (w *walker) endCheckpoint(r *fileReader, f *frame) error {
	if w.fileDone != nil {
		w.fileDone(walkedFile{name: w.ckpt.name, header: w.ckpt.header, sizeBytes: r.size,
			endOffset: w.cur.off + f.sizeBytes(), frames: int64(f.seq) - 1})
	}
	d := DamageError{File: w.ckpt.name, Segment: w.ckpt.number, Offset: w.cur.off}
	if len(f.payload) != 8 || binary.LittleEndian.Uint64(f.payload) != f.seq-1 {
		d.Reason = "the last frame of the checkpoint has a wrong count of frames"
		return w.reportDamage(d, 0)
	}
	if d.Offset += f.sizeBytes(); d.Offset != r.size {
		d.Reason = "the file continues after the end of the checkpoint"
		return w.reportDamageUntil(d, r.size, f.seq+1)
	}
	return nil
}
