package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// segmentScan reads one segment.
type segmentScan struct {
	*walker
	file *segmentFile
	r    *fileReader
	// limit is where the segment's frames end: as the next segment says, or else (limitKnown false) the end of the
	// file.
	limit      int64
	limitKnown bool
	last       bool
	next       int
	frames     int64
	markSeen   bool
}

func (w *walker) walkSegment(i int) (err error) {
	s := &w.files[i]
	if i > 0 && s.number > w.files[i-1].number+1 {
		if err := w.missing(w.files[i-1].number+1, w.firstSeq(i)); err != nil {
			return err
		}
	}
	r, err := openReader(w.fs, w.fs.PathJoin(w.dir, s.name))
	if err != nil {
		d := DamageError{File: s.name, Segment: s.number, Reason: "the file cannot be opened", Err: err}
		return w.lose(d, w.firstSeq(i+1))
	}
	defer func() { err = errors.Join(err, r.close()) }()
	sc := segmentScan{walker: w, file: s, r: r, limit: r.size, last: i == len(w.files)-1, next: i + 1}
	if !sc.last && w.files[i+1].bad == "" && w.files[i+1].number == s.number+1 {
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
		w.fileDone(walkedFile{name: s.name, header: s.header, sizeBytes: r.size, atEnd: w.cur.off, frames: sc.frames})
	}
	return nil
}

// begin puts the cursor behind the file header.
func (sc *segmentScan) begin() error {
	w := sc.walker
	if sc.file.bad != "" {
		w.cur.off = 0
		return sc.skip(sc.file.bad, sc.file.readErr)
	}
	h := &sc.file.header
	if h.firstSeq != w.cur.seq && w.cur.seq > 0 {
		// The segment before ended where this one says, or damage was reported there.
		if err := w.loseUntil(sc.damage("the segment does not follow the one before it", nil), headerBytes,
			h.firstSeq); err != nil {
			return err
		}
	}
	if h.firstSeq < w.cur.seq {
		// Never hand out a frame twice, not even from files that were mixed up.
		w.cur.off = headerBytes
	} else {
		w.cur = cursor{off: headerBytes, seq: h.firstSeq, sum: h.sum, linked: true}
	}
	if sc.last {
		w.carryAt = max(headerBytes, h.bornBytes)
		if w.markOK && w.mark.pos.Segment == sc.file.number {
			w.carryAt = max(w.carryAt, w.mark.pos.Offset)
		}
	}
	return nil
}

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
			reason = w.cur.follows(&f)
		}
		if reason == "" {
			if err := w.visit(&f, false, Position{sc.file.number, w.cur.off}); err != nil {
				return err
			}
			w.cur = cursor{off: w.cur.off + f.sizeBytes(), seq: f.seq + 1, sum: f.sum, linked: true}
			sc.frames++
			continue
		}
		if !verified && sc.ends() {
			return nil
		}
		if err := sc.skip(reason, nil); err != nil {
			return err
		}
	}
}

// follows says why f cannot stand at the cursor, or nothing.
func (c *cursor) follows(f *frame) string {
	switch {
	case c.linked && f.seq != c.seq:
		return fmt.Sprintf("frame %d stands where frame %d belongs", f.seq, c.seq)
	case c.linked && f.prev != uint32(c.sum):
		return fmt.Sprintf("frame %d does not follow the frame before it", f.seq)
	case f.seq < c.seq:
		return fmt.Sprintf("frame %d stands behind frame %d", f.seq, c.seq-1)
	}
	return ""
}

// checkMark compares the cursor with the watermark as it comes by.
func (sc *segmentScan) checkMark() error {
	w := sc.walker
	if w.cur.off == w.carryAt && w.cur.linked {
		w.carry = w.cur
	}
	if !w.markOK || w.mark.pos.Segment != sc.file.number || sc.markSeen || w.cur.off < w.mark.pos.Offset {
		return nil
	}
	sc.markSeen = true
	if !w.cur.linked || w.cur.off == w.mark.pos.Offset && w.cur.sum == w.mark.sum && w.cur.seq == w.mark.nextSeq {
		return nil
	}
	at := w.cur
	err := w.loseUntil(sc.damage("the frame before this place is not the one that the watermark names", nil), at.off, 0)
	w.cur.linked = at.linked
	return err
}

// ends says whether what stands at the cursor is the end of the log's frames rather than damage.
func (sc *segmentScan) ends() bool {
	w := sc.walker
	if sc.limitKnown {
		return false
	}
	if !sc.last {
		// The next segment, which alone knows the end of this one, is lost itself, and that is reported there.
		_, _, found := sc.r.nextFrame(w.cur.off+1, sc.limit, w.salt, max(w.cur.seq, 1))
		return !found && sc.r.err == nil
	}
	if sc.file.bad != "" || w.cur.off < sc.file.header.bornBytes {
		return false
	}
	if w.markOK && (w.mark.clean || Position{sc.file.number, w.cur.off}.Before(w.mark.pos)) {
		return false
	}
	// A frame of a later group proves that what is missing here was once durable.
	var behind int64
	for from, seq := w.cur.off+1, max(w.cur.seq, 1); ; behind++ {
		off, f, found := sc.r.nextFrame(from, sc.limit, w.salt, seq)
		if !found {
			break
		}
		if off-int64(f.back) > w.cur.off {
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

// skip reports damage at the cursor and moves the cursor to the next frame that can be read, or to the limit.
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
	if err := w.loseUntil(sc.damage(reason, readErr), to, resumeSeq); err != nil {
		return err
	}
	w.cur.off = to
	return nil
}

// finish checks that the segment ended where it should.
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
	return w.loseUntil(sc.damage("the segment is not the one that the next segment follows", nil), sc.limit, next.firstSeq)
}

// walkCheckpoint reads the checkpoint file.
func (w *walker) walkCheckpoint() (err error) {
	s := &w.ckpt
	r, err := openReader(w.fs, w.fs.PathJoin(w.dir, s.name))
	if err != nil {
		d := DamageError{File: s.name, Segment: s.number, Reason: "the file cannot be opened", Err: err}
		return w.lose(d, 0)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	w.cur = cursor{off: headerBytes, seq: 1, sum: s.header.sum, linked: true}
	reason := s.bad
	if reason != "" {
		w.cur.off = 0
	}
	for {
		if reason == "" {
			var f frame
			f, reason = r.frameAt(w.cur.off, r.size, w.salt)
			if reason == "" {
				reason = w.cur.follows(&f)
			}
			if reason == "" && f.kind == kindEnd {
				return w.endCheckpoint(r, &f)
			}
			if reason == "" {
				if err := w.visit(&f, true, Position{s.number, w.cur.off}); err != nil {
					return err
				}
				w.cur = cursor{off: w.cur.off + f.sizeBytes(), seq: f.seq + 1, sum: f.sum, linked: true}
				continue
			}
		}
		to, f, found := r.nextFrame(w.cur.off+1, r.size, w.salt, w.cur.seq)
		d := DamageError{File: s.name, Segment: s.number, Offset: w.cur.off, Reason: reason,
			Err: errors.Join(s.readErr, r.err)}
		if err := w.loseUntil(d, to, f.seq); err != nil || !found {
			return err
		}
		w.cur.off, reason = to, ""
	}
}

func (w *walker) endCheckpoint(r *fileReader, f *frame) error {
	if w.fileDone != nil {
		w.fileDone(walkedFile{name: w.ckpt.name, header: w.ckpt.header, sizeBytes: r.size,
			atEnd: w.cur.off + f.sizeBytes(), frames: int64(f.seq) - 1})
	}
	d := DamageError{File: w.ckpt.name, Segment: w.ckpt.number, Offset: w.cur.off}
	if len(f.payload) != 8 || binary.LittleEndian.Uint64(f.payload) != f.seq-1 {
		d.Reason = "the end of the checkpoint does not count its frames"
		return w.lose(d, 0)
	}
	if d.Offset += f.sizeBytes(); d.Offset != r.size {
		d.Reason = "bytes behind the end of the checkpoint"
		return w.loseUntil(d, r.size, f.seq+1)
	}
	return nil
}
