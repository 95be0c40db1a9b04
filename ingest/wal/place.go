package wal

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Place is the beginning of a segment. It names the segment of one log: copies of a log that were written to
// separately differ in Sum, because the headers of segments are chained.
type Place struct {
	Log     uint64 `json:"log"`
	Segment uint64 `json:"segment"`
	Sum     uint64 `json:"sum"`
}

// Extent says which part of a log a directory holds. It comes from the watermark and the headers of the files alone.
type Extent struct {
	// Log is the random number that all files of a log share; 0 if there is no log.
	Log uint64
	// Empty: no frame was ever appended.
	Empty bool
	// Cut is the segment before which only the tables hold the frames; 0 if the log was never cut.
	Cut uint64
	// Damage is what Replay would report of files that are missing or have a damaged header; nil if there are none.
	Damage error
	// Starts counts how often the log was opened.
	Starts uint32
	// First and Last are the segments of the log. Last includes segments that the watermark names and that are missing.
	First, Last uint64
	// sums are those of the headers that can be read.
	sums map[uint64]uint64
}

// Contradicts reports whether the segment of p exists with another content before it.
func (e *Extent) Contradicts(p Place) bool {
	sum, ok := e.sums[p.Segment]
	return ok && sum != p.Sum
}

// Look reads the extent of the log in dir. It changes nothing and takes no lock. Damaged frames are left to Replay.
func Look(fs vfs.FS, dir string) (Extent, error) {
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
	e.Log, e.Starts, e.Cut, e.First = w.salt, w.mark.starts, w.cut(), w.checkpoint
	e.Empty = w.checkpoint == 0 && w.mark.nextSeq <= 1
	for i := range w.files {
		s := &w.files[i]
		e.First, e.Last = cmp.Or(e.First, s.number), s.number
		e.Empty = e.Empty && s.size <= headerBytes
		if s.bad == "" {
			e.sums[s.number] = s.header.sum
		}
	}
	e.Last = max(e.Last, w.mark.pos.Segment)
	e.Damage = w.checkFiles()
	return e, nil
}

// cut is the segment before which only the tables hold the frames; 0 if there is none.
func (w *walker) cut() uint64 {
	if w.checkpoint > 0 && w.ckpt.bad == "" {
		return w.ckpt.header.cut
	}
	return w.checkpoint
}

// Place waits until a segment exists on disk and returns its beginning. The caller makes sure that the log is not cut
// behind it meanwhile. Errors: those of Wait.
func (l *Log) Place(segment uint64) (Place, error) {
	if _, err := l.awaitSegment(segment); err != nil {
		return Place{}, err
	}
	s := segmentFile{number: segment, name: segmentName(segment)}
	w := &walker{fs: l.fs, dir: l.opts.Dir}
	err := w.readHeader(&s)
	if err == nil && s.bad != "" {
		err = &DamageError{File: s.name, Segment: segment, Reason: s.bad, LostFrames: -1, Err: s.readErr}
	}
	if err != nil {
		return Place{}, err
	}
	return Place{Log: s.header.salt, Segment: segment, Sum: s.header.sum}, nil
}

// Starts counts how often the log was opened, this time included.
func (l *Log) Starts() uint32 {
	l.mark.mu.Lock()
	defer l.mark.mu.Unlock()
	return l.mark.last.starts
}

// First returns the first segment of the log, before which a checkpoint stands in or nothing was logged.
func (l *Log) First() uint64 {
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

// SetAside moves the whole log into damaged/, so that a new one begins. Replay must not have run. If it is cut off, the
// next call goes on with it.
func (l *Log) SetAside() error {
	names, err := l.fs.List(l.opts.Dir)
	if err != nil {
		return fmt.Errorf("list the log's directory: %w", err)
	}
	aside := l.fs.PathJoin(l.opts.Dir, damagedName)
	if err := makeDir(l.fs, aside); err != nil {
		return err
	}
	var gone []string
	for _, name := range names {
		_, isSegment := parseName(name, segmentSuffix)
		_, isCheckpoint := parseName(name, checkpointSuffix)
		if !isSegment && !isCheckpoint && name != watermarkName && !strings.HasSuffix(name, tempSuffix) {
			continue
		}
		if _, err := l.keep(aside, name); err != nil {
			return err
		}
		gone = append(gone, name)
	}
	if err := syncDir(l.fs, aside); err != nil {
		return err
	}
	return removeAll(l.fs, l.opts.Dir, gone)
}
