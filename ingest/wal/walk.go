package wal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// walker reads a whole log, checkpoint first, and judges what it finds. It changes nothing on disk; Replay, salvage
// and Inspect are built on it.
type walker struct {
	fs  vfs.FS
	dir string
	layout
	// accept makes it report damage in losses and go on; otherwise the first damage ends the walk.
	accept bool
	// visit gets each frame; its payload is valid during the call. at is the frame's place in the file, which for the
	// frames of a checkpoint is not a Position.
	visit func(f *frame, inCheckpoint bool, at Position) error
	// fileDone, if set, is called behind the last frame of each file.
	fileDone func(file walkedFile)

	mark   mark
	markOK bool
	// markErr is the error of reading the watermark file, if that was why markOK is false.
	markErr error
	salt    uint64
	ckpt    segmentFile
	files   []segmentFile
	cur     cursor
	losses  []Loss
	torn    tornTail
	// carryAt is the offset in the last segment up to which its bytes are known to have reached the disk.
	carryAt int64
	// carry is the cursor at that place, end the one behind the last valid frame.
	carry, end cursor
}

// cursor is a place between two frames.
type cursor struct {
	off int64
	// seq is that of the next frame, sum that of the previous one.
	seq, sum uint64
	// linked: sum is known, so the next frame must follow it. Not so behind damage.
	linked bool
}

type segmentFile struct {
	number uint64
	name   string
	header header
	size   int64
	// bad says why the header cannot be used.
	bad     string
	readErr error
}

type walkedFile struct {
	name             string
	header           header
	sizeBytes, atEnd int64
	frames           int64
}

type tornTail struct {
	at            Position
	bytes, frames int64
}

// run walks the log.
func (w *walker) run() error {
	if err := w.readMark(); err != nil {
		return err
	}
	if err := w.readHeaders(); err != nil {
		return err
	}
	w.cur = cursor{seq: 1, linked: true}
	w.end = w.cur
	if w.fresh() {
		return nil
	}
	if err := w.checkMarkFile(); err != nil {
		return err
	}
	if w.checkpoint > 0 {
		if err := w.walkCheckpoint(); err != nil {
			return err
		}
	}
	if err := w.checkFirst(); err != nil {
		return err
	}
	for i := range w.files {
		if err := w.walkSegment(i); err != nil {
			return err
		}
	}
	return w.checkMark()
}

// checkFiles looks for files that are missing or have a damaged header. It reads no frames.
func (w *walker) checkFiles() error {
	if w.fresh() {
		return nil
	}
	if err := w.checkMarkFile(); err != nil {
		return err
	}
	if w.ckpt.bad != "" {
		return w.lose(DamageError{File: w.ckpt.name, Segment: w.checkpoint, Reason: w.ckpt.bad, Err: w.ckpt.readErr}, 0)
	}
	if err := w.checkFirst(); err != nil {
		return err
	}
	for i, s := range w.files {
		if i > 0 && s.number > w.files[i-1].number+1 {
			return w.missing(w.files[i-1].number+1, w.firstSeq(i))
		}
		if s.bad != "" {
			return w.lose(DamageError{File: s.name, Segment: s.number, Reason: s.bad, Err: s.readErr}, 0)
		}
	}
	return w.checkMark()
}

// checkMarkFile makes sure that there is a watermark.
func (w *walker) checkMarkFile() error {
	if w.markOK {
		return nil
	}
	d := DamageError{File: watermarkName, Reason: "neither slot of the watermark is intact", Err: w.markErr}
	if !w.watermark {
		d.Reason = "the watermark file is missing"
	}
	return w.lose(d, 0)
}

// fresh: nothing was ever appended. The watermark file may exist, it is the first to be made.
func (w *walker) fresh() bool {
	return w.layout.empty() && (!w.watermark || w.markOK && w.mark.pos.Segment == 0)
}

func (w *walker) readMark() error {
	if !w.watermark {
		return nil
	}
	w.mark, w.markOK, w.markErr = readMark(w.fs, w.dir)
	if errors.Is(w.markErr, ErrVersion) {
		return w.markErr
	}
	return nil
}

// readHeaders reads the headers of all files and settles the log's salt.
func (w *walker) readHeaders() error {
	if w.checkpoint > 0 {
		w.ckpt = segmentFile{number: w.checkpoint, name: checkpointName(w.checkpoint)}
		if err := w.readHeader(&w.ckpt); err != nil {
			return err
		}
	}
	for _, number := range w.segments {
		s := segmentFile{number: number, name: segmentName(number)}
		if err := w.readHeader(&s); err != nil {
			return err
		}
		w.files = append(w.files, s)
	}
	if w.markOK {
		w.salt = w.mark.salt
	}
	if n := len(w.files); n > 1 && w.files[n-1].orphan() {
		w.obsolete = append(w.obsolete, w.files[n-1].name)
		w.files = w.files[:n-1]
	}
	w.judgeHeader(&w.ckpt, typeCheckpoint)
	for i := range w.files {
		w.judgeHeader(&w.files[i], typeSegment)
	}
	return nil
}

// sizeBytes is the size of all files that are read.
func (w *walker) sizeBytes() int64 {
	size := w.ckpt.size
	for n := range w.files {
		size += w.files[n].size
	}
	return size
}

func (w *walker) readHeader(s *segmentFile) error {
	r, err := openReader(w.fs, w.fs.PathJoin(w.dir, s.name))
	if err != nil {
		s.bad, s.readErr = "file cannot be opened", err
		return nil
	}
	s.size = r.size
	// Only the header's own bytes: an unreadable page further on is judged where it stands.
	b := make([]byte, min(headerBytes, r.size))
	s.readErr = r.readFull(b, 0)
	s.header, s.bad, err = parseHeader(b)
	s.readErr = errors.Join(s.readErr, r.close())
	if err != nil && s.readErr == nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if s.readErr != nil {
		s.bad = "file header cannot be read"
	}
	return nil
}

func (w *walker) judgeHeader(s *segmentFile, typ byte) {
	if s.number == 0 || s.bad != "" {
		return
	}
	if w.salt == 0 {
		w.salt = s.header.salt
	}
	switch {
	case s.header.typ != typ:
		s.bad = "file is of another type than its name says"
	case s.header.number != s.number:
		s.bad = fmt.Sprintf("file has the number %d", s.header.number)
	case s.header.salt != w.salt:
		s.bad = "file belongs to another log"
	}
}

// orphan is the empty segment of a salvage that was cut off before its checkpoint got its name: only a checkpoint of
// the same number can precede it, and then it is the first.
func (s *segmentFile) orphan() bool {
	return s.bad == "" && s.size == headerBytes && s.number > 1 && s.header.prevBytes == 0
}

// checkFirst makes sure that nothing is missing before the first segment.
func (w *walker) checkFirst() error {
	w.cur = cursor{seq: 1}
	if w.checkpoint > 0 {
		w.cur.seq = 0
		if w.ckpt.bad == "" {
			w.cur.seq = w.ckpt.header.firstSeq
		}
	}
	if len(w.files) == 0 {
		return w.missing(max(w.checkpoint, w.mark.pos.Segment, 1), w.mark.nextSeq)
	}
	first := &w.files[0]
	begin := w.firstSeq(0)
	switch {
	case w.checkpoint > 0 && first.number > w.checkpoint:
		return w.missing(w.checkpoint, begin)
	case w.checkpoint > 0:
		return nil
	case first.number > 1:
		w.cur.seq = 0
		return w.lose(DamageError{File: checkpointName(first.number), Segment: first.number, LostFrames: -1,
			Reason: "the checkpoint, or the segments that it replaces, are missing"}, begin)
	case begin > 1:
		return w.lose(DamageError{File: first.name, Segment: 1, LostFrames: -1,
			Reason: "the first segment does not begin the log"}, begin)
	}
	return nil
}

// firstSeq is that of the i-th segment, 0 if not known.
func (w *walker) firstSeq(i int) uint64 {
	if i < len(w.files) && w.files[i].bad == "" {
		return w.files[i].header.firstSeq
	}
	return 0
}

func (w *walker) missing(number, resumeSeq uint64) error {
	return w.lose(DamageError{File: segmentName(number), Segment: number, Reason: "the segment is missing",
		LostFrames: -1}, resumeSeq)
}

// lose records damage behind which the frame resumeSeq (0: not known) follows, or returns it as the error of the walk.
func (w *walker) lose(d DamageError, resumeSeq uint64) error { return w.loseUntil(d, 0, resumeSeq) }

func (w *walker) loseUntil(d DamageError, toOffset int64, resumeSeq uint64) error {
	loss := Loss{ToOffset: toOffset}
	d.LostFrames = -1
	if resumeSeq > 0 {
		if w.cur.seq > 0 && resumeSeq >= w.cur.seq {
			d.LostFrames = int64(resumeSeq - w.cur.seq)
		}
		if d.LostFrames > 0 {
			d.FirstSeq, loss.LastSeq = w.cur.seq, resumeSeq-1
		}
		w.cur.seq = max(w.cur.seq, resumeSeq)
	}
	w.cur.linked = false
	if !w.accept {
		return &d
	}
	loss.Damage = d
	w.losses = append(w.losses, loss)
	return nil
}

// checkMark reports the segments that the watermark knows of behind the last one that exists.
func (w *walker) checkMark() error {
	if n := len(w.files); n > 0 && w.markOK && w.mark.pos.Segment > w.files[n-1].number {
		return w.missing(w.files[n-1].number+1, w.mark.nextSeq)
	}
	return nil
}
