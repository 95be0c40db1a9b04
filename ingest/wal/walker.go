package wal

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// walker reads a whole log, checkpoint first, and checks it. It changes nothing on disk. Replay, salvage, Inspect and Scan
// use it.
type walker struct {
	fs  vfs.FS
	dir string
	layout
	// accept makes the walk continue after damage and collect the damage in losses. Otherwise the first damage ends the
	// walk.
	accept bool
	// visit receives each frame; its payload is valid during the call. at is the frame's place in its file. That holds also
	// for frames of a checkpoint, which have no Position in the log.
	visit func(f *frame, inCheckpoint bool, at Position) error
	// fileDone, if set, is called after the last frame of each file.
	fileDone func(file walkedFile)

	mark   mark
	markOK bool
	// markErr is the error of reading the watermark file.
	markErr error
	salt    uint64
	ckpt    segmentFile
	files   []segmentFile
	cur     cursor
	losses  []Loss
	torn    tornTail
	// syncedOffset is an offset in the last segment. The disk certainly holds everything before it.
	syncedOffset int64
	// synced is the cursor at syncedOffset. end is the cursor after the last valid frame.
	synced, end cursor
}

// cursor is a position between two frames.
type cursor struct {
	off int64
	// seq is the sequence number of the next frame. sum is the checksum of the previous one.
	seq, sum uint64
	// linked means that sum is known, so that the next frame must refer to it. It is false after damage.
	linked bool
}

type segmentFile struct {
	number uint64
	name   string
	header header
	size   int64
	// damage describes why the header is unusable; empty if it is usable.
	damage  string
	readErr error
}

type walkedFile struct {
	name                 string
	header               header
	sizeBytes, endOffset int64
	frames               int64
}

type tornTail struct {
	at            Position
	bytes, frames int64
}

// run reads the log.
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
	if err := w.checkWatermarkFile(); err != nil {
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

// checkFiles looks for missing files and damaged headers. It reads no frames.
func (w *walker) checkFiles() error {
	if w.fresh() {
		return nil
	}
	if err := w.checkWatermarkFile(); err != nil {
		return err
	}
	if w.ckpt.damage != "" {
		return w.reportDamage(DamageError{File: w.ckpt.name, Segment: w.checkpoint, Reason: w.ckpt.damage, Err: w.ckpt.readErr}, 0)
	}
	if err := w.checkFirst(); err != nil {
		return err
	}
	for i, s := range w.files {
		if i > 0 && s.number > w.files[i-1].number+1 {
			return w.reportMissing(w.files[i-1].number+1, w.firstSeq(i))
		}
		if s.damage != "" {
			return w.reportDamage(DamageError{File: s.name, Segment: s.number, Reason: s.damage, Err: s.readErr}, 0)
		}
	}
	return w.checkMark()
}

// checkWatermarkFile reports a missing or damaged watermark.
func (w *walker) checkWatermarkFile() error {
	if w.markOK {
		return nil
	}
	d := DamageError{File: watermarkName, Reason: "neither slot of the watermark is intact", Err: w.markErr}
	if !w.watermark {
		d.Reason = "the watermark file is missing"
	}
	return w.reportDamage(d, 0)
}

// fresh reports whether no frame was ever appended. The watermark file may exist: the log creates it first.
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

// readHeaders reads the headers of all files and determines the log's salt.
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

// sizeBytes is the size of all files of the log.
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
		s.damage, s.readErr = "the file cannot be opened", err
		return nil
	}
	s.size = r.size
	// Read only the header: the walk reports unreadable pages after it.
	b := make([]byte, min(headerBytes, r.size))
	s.readErr = r.readFull(b, 0)
	s.header, s.damage, err = parseHeader(b)
	s.readErr = errors.Join(s.readErr, r.close())
	if err != nil && s.readErr == nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if s.readErr != nil {
		s.damage = "the file header cannot be read"
	}
	return nil
}

// judgeHeader marks a file as damaged if its header does not match its name or this log.
func (w *walker) judgeHeader(s *segmentFile, typ byte) {
	if s.number == 0 || s.damage != "" {
		return
	}
	if w.salt == 0 {
		w.salt = s.header.salt
	}
	switch {
	case s.header.typ != typ:
		s.damage = "the type in the file header does not match the file name"
	case s.header.number != s.number:
		s.damage = fmt.Sprintf("the file header has the number %d", s.header.number)
	case s.header.salt != w.salt:
		s.damage = "the file belongs to another log"
	}
}

// orphan reports whether s is the empty segment of an interrupted salvage: a crash came before the checkpoint got its name.
// Only a checkpoint of the same number can precede such a segment, so it is the first one.
func (s *segmentFile) orphan() bool {
	return s.damage == "" && s.size == headerBytes && s.number > 1 && s.header.prevBytes == 0
}

// checkFirst reports what is missing before the first segment.
func (w *walker) checkFirst() error {
	w.cur = cursor{seq: 1}
	if w.checkpoint > 0 {
		w.cur.seq = 0
		if w.ckpt.damage == "" {
			w.cur.seq = w.ckpt.header.firstSeq
		}
	}
	if len(w.files) == 0 {
		return w.reportMissing(max(w.checkpoint, w.mark.pos.Segment, 1), w.mark.nextSeq)
	}
	first := &w.files[0]
	begin := w.firstSeq(0)
	switch {
	case w.checkpoint > 0 && first.number > w.checkpoint:
		return w.reportMissing(w.checkpoint, begin)
	case w.checkpoint > 0:
		return nil
	case first.number > 1:
		w.cur.seq = 0
		return w.reportDamage(DamageError{File: checkpointName(first.number), Segment: first.number, LostFrames: -1,
			Reason: "the checkpoint or the segments before it are missing"}, begin)
	case begin > 1:
		return w.reportDamage(DamageError{File: first.name, Segment: 1, LostFrames: -1,
			Reason: "the first segment is not the beginning of the log"}, begin)
	}
	return nil
}

// firstSeq returns the firstSeq of the i-th segment, 0 if unknown.
func (w *walker) firstSeq(i int) uint64 {
	if i < len(w.files) && w.files[i].damage == "" {
		return w.files[i].header.firstSeq
	}
	return 0
}

func (w *walker) reportMissing(number, resumeSeq uint64) error {
	return w.reportDamage(DamageError{File: segmentName(number), Segment: number, Reason: "the segment is missing",
		LostFrames: -1}, resumeSeq)
}

// reportDamage records damage, or returns it as the error that ends the walk. resumeSeq is the next readable frame, 0 if
// unknown.
func (w *walker) reportDamage(d DamageError, resumeSeq uint64) error {
	return w.reportDamageUntil(d, 0, resumeSeq)
}

// reportDamageUntil is reportDamage for a file that is readable again at toOffset.
func (w *walker) reportDamageUntil(d DamageError, toOffset int64, resumeSeq uint64) error {
	if errors.Is(d.Err, os.ErrPermission) { // the file may be intact, so a caller must not accept it as a loss
		return fmt.Errorf("read the write-ahead log: %s: %w", d.File, d.Err)
	}
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

// checkMark reports a last segment that is older than the watermark.
func (w *walker) checkMark() error {
	if n := len(w.files); n > 0 && w.markOK && w.mark.pos.Segment > w.files[n-1].number {
		return w.reportMissing(w.files[n-1].number+1, w.mark.nextSeq)
	}
	return nil
}
