package wal

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SegmentID identifies a segment of one log. The headers of segments are chained. So two copies of a log that were written
// independently differ in Sum.
type SegmentID struct {
	Log     uint64 `json:"log"`
	Segment uint64 `json:"segment"`
	Sum     uint64 `json:"sum"`
}

// Extent describes which part of a log a directory holds. It comes from the watermark and the headers of the files.
type Extent struct {
	// Log is the salt of the log, which all its files share; 0 if there is no log.
	Log uint64
	// Empty reports whether no frame was ever appended.
	Empty bool
	// FlushedBefore is the number of a segment. Frames of earlier segments are only in the tables. It is 0 if the log was never
	// truncated.
	FlushedBefore uint64
	// Damage is the error that Replay would return for missing files and damaged headers; nil if there are none.
	Damage error
	// Starts counts how often the log was opened.
	Starts uint32
	// First and Last are the first and last segment of the log. Last counts a missing segment if the watermark names it.
	First, Last uint64
	// sums maps the numbers of segments to the sums of their headers, if they can be read.
	sums map[uint64]uint64
}

// Contradicts reports whether the log has a segment with id's number but with different frames before it.
func (e *Extent) Contradicts(id SegmentID) bool {
	sum, ok := e.sums[id.Segment]
	return ok && sum != id.Sum
}

// ReadExtent reads the extent of the log in dir. It changes nothing, takes no lock and does not look for damaged frames.
func ReadExtent(fs vfs.FS, dir string) (Extent, error) {
	e := Extent{Empty: true, sums: map[uint64]uint64{}}
	if _, err := fs.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return e, nil
	}
	layout, err := readLayout(fs, dir)
	if err != nil {
		return e, err
	}
	w := &walker{fs: fs, dir: dir, layout: layout}
	if err := errors.Join(w.readMark(), w.readHeaders()); err != nil {
		return e, err
	}
	e.Log, e.Starts, e.FlushedBefore, e.First = w.salt, w.mark.starts, w.flushedBefore(), w.checkpoint
	e.Empty = w.checkpoint == 0 && w.mark.nextSeq <= 1
	for i := range w.files {
		s := &w.files[i]
		e.First, e.Last = cmp.Or(e.First, s.number), s.number
		e.Empty = e.Empty && s.size <= headerBytes
		if s.damage == "" {
			e.sums[s.number] = s.header.sum
		}
	}
	e.Last = max(e.Last, w.mark.pos.Segment)
	e.Damage = w.checkFiles()
	return e, nil
}

// flushedBefore returns Extent.FlushedBefore.
func (w *walker) flushedBefore() uint64 {
	if w.checkpoint > 0 && w.ckpt.damage == "" {
		return w.ckpt.header.flushedBefore
	}
	return w.checkpoint
}

// SegmentID waits until a segment exists on disk and returns its identity. The caller prevents a Truncate of the segment
// meanwhile. Errors: as Wait.
func (l *Log) SegmentID(segment uint64) (SegmentID, error) {
	if _, err := l.awaitSegment(segment); err != nil {
		return SegmentID{}, err
	}
	s := segmentFile{number: segment, name: segmentName(segment)}
	w := &walker{fs: l.fs, dir: l.opts.Dir}
	err := w.readHeader(&s)
	if err == nil && s.damage != "" {
		err = &DamageError{File: s.name, Segment: segment, Reason: s.damage, LostFrames: -1, Err: s.readErr}
	}
	if err != nil {
		return SegmentID{}, err
	}
	return SegmentID{Log: s.header.salt, Segment: segment, Sum: s.header.sum}, nil
}

// Starts returns how often the log was opened, including this time.
func (l *Log) Starts() uint32 {
	l.mark.mu.Lock()
	defer l.mark.mu.Unlock()
	return l.mark.last.starts
}

// Checkpoint makes a log in dir with all frames of the segments before the given one, which Rotate has returned. The new log
// has hard links to the segments, or copies. Checkpoint may run concurrently with Append. After an error the caller removes
// dir. Errors: as Wait; errors of the file system.
func (l *Log) Checkpoint(dir string, before uint64) error {
	l.truncating.Lock()
	defer l.truncating.Unlock()
	if _, err := l.awaitSegment(before); err != nil {
		return err
	}
	last := segmentFile{number: before, name: segmentName(before)}
	w := &walker{fs: l.fs, dir: l.opts.Dir}
	if err := w.readHeader(&last); err != nil {
		return err
	}
	if last.damage != "" {
		return &DamageError{File: last.name, Segment: before, Reason: last.damage, LostFrames: -1, Err: last.readErr}
	}
	if err := makeDir(l.fs, dir); err != nil {
		return err
	}
	for _, name := range l.namesBefore(before) {
		if err := vfs.LinkOrCopy(l.fs, l.fs.PathJoin(l.opts.Dir, name), l.fs.PathJoin(dir, name)); err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
	}
	h := last.header
	f, err := writeNamed(l.fs, dir, last.name, h.append(nil))
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close %s: %w", last.name, err)
	}
	return createWatermark(l.fs, dir, mark{salt: h.salt, generation: 1, pos: Position{before, headerBytes}, sum: h.sum,
		nextSeq: h.firstSeq, clean: true, starts: l.Starts()})
}

// namesBefore returns the files that hold the frames of the segments before the given one.
func (l *Log) namesBefore(before uint64) (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.checkpoint.number > 0 {
		names = append(names, checkpointName(l.checkpoint.number))
	}
	for _, s := range l.sealed {
		if s.number < before {
			names = append(names, segmentName(s.number))
		}
	}
	return names
}

// SetAside moves the whole log to damaged/, so that a new one begins. The caller calls it before Replay. After a crash, the
// next call completes it.
func (l *Log) SetAside() error {
	names, err := l.fs.List(l.opts.Dir)
	if err != nil {
		return fmt.Errorf("list the log's directory: %w", err)
	}
	damaged := l.fs.PathJoin(l.opts.Dir, damagedName)
	if err := makeDir(l.fs, damaged); err != nil {
		return err
	}
	var moved []string
	for _, name := range names {
		_, isSegment := parseName(name, segmentSuffix)
		_, isCheckpoint := parseName(name, checkpointSuffix)
		if !isSegment && !isCheckpoint && name != watermarkName && !strings.HasSuffix(name, tempSuffix) {
			continue
		}
		if _, err := l.quarantine(damaged, name); err != nil {
			return err
		}
		moved = append(moved, name)
	}
	if err := syncDir(l.fs, damaged); err != nil {
		return err
	}
	return removeAll(l.fs, l.opts.Dir, moved)
}
