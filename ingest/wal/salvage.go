package wal

import (
	"errors"
	"fmt"
	"os"
)

// salvage makes a damaged log whole again: all frames that can be read go into a checkpoint, an empty segment follows,
// and the damaged files are kept under damaged/. If it is cut off, the damage is as it was.
func (l *Log) salvage(w *walker, frames int64) error {
	if err := l.keepDamaged(w); err != nil {
		return err
	}
	if err := l.ensureMark(w); err != nil {
		return err
	}
	number := max(w.checkpoint, w.mark.pos.Segment)
	if n := len(w.segments); n > 0 {
		number = max(number, w.segments[n-1])
	}
	number++
	h := header{typ: typeSegment, salt: w.salt, number: number, firstSeq: max(w.cur.seq, w.mark.nextSeq, 1),
		bornBytes: headerBytes}
	f, err := writeNamed(l.fs, l.opts.Dir, segmentName(number), h.append(nil))
	if err != nil {
		return err
	}
	l.file = f
	size, err := l.checkpointSurvivors(w, &h, frames)
	if err != nil {
		return err
	}
	gone := w.obsolete
	if w.checkpoint > 0 {
		gone = append(gone, checkpointName(w.checkpoint))
	}
	for _, n := range w.segments {
		gone = append(gone, segmentName(n))
	}
	at := tip{Position{number, headerBytes}, h.firstSeq, h.sum}
	return l.continueAt(w.salt, h.firstSeq, at, gone, segmentMeta{number: number, bytes: size})
}

// checkpointSurvivors writes and publishes the checkpoint of everything readable.
func (l *Log) checkpointSurvivors(w *walker, next *header, frames int64) (sizeBytes int64, err error) {
	c, err := newCheckpointWriter(l.fs, l.opts.Dir, next, w.cut())
	if err != nil {
		return 0, err
	}
	// The files as they were listed before: the new segment and watermark are not part of what is read.
	again := &walker{fs: w.fs, dir: w.dir, layout: w.layout, accept: true}
	again.visit = func(f *frame, _ bool, _ Position) error { return c.add(f.kind, f.payload) }
	err = again.run()
	if got := int64(c.at.seq - 1); err == nil && got != frames {
		err = fmt.Errorf("wal: %d frames could be read at first, %d the second time; open again", frames, got)
	}
	if err == nil {
		err = c.finish()
	}
	if err != nil {
		return 0, errors.Join(err, c.discard())
	}
	if err := c.publish(); err != nil {
		return 0, err
	}
	return c.written, l.syncDir()
}

// keepDamaged links the damaged files into damaged/ and notes their places in the losses.
func (l *Log) keepDamaged(w *walker) error {
	dir := l.fs.PathJoin(l.opts.Dir, damagedName)
	if err := makeDir(l.fs, dir); err != nil {
		return err
	}
	kept := make(map[string]string)
	for i := range w.losses {
		file := w.losses[i].Damage.File
		if _, done := kept[file]; !done {
			name, err := l.keep(dir, file)
			if err != nil {
				return err
			}
			kept[file] = name
		}
		w.losses[i].Kept = kept[file]
	}
	return syncDir(l.fs, dir)
}

// keep links one file; the result is empty if there is none. Earlier files of the name stay.
func (l *Log) keep(dir, file string) (string, error) {
	from := l.fs.PathJoin(l.opts.Dir, file)
	if _, err := l.fs.Stat(from); errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	for n := 0; ; n++ {
		name := file
		if n > 0 {
			name = fmt.Sprintf("%s.%d", file, n)
		}
		err := l.fs.Link(from, l.fs.PathJoin(dir, name))
		if err == nil {
			return l.fs.PathJoin(damagedName, name), nil
		}
		if !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("keep the damaged %s: %w", file, err)
		}
	}
}
