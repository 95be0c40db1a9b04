package wal

import (
	"errors"
	"fmt"
	"os"
)

// salvage repairs a damaged log. A new checkpoint takes all readable frames, an empty segment follows, and the damaged files
// move to damaged/. If a crash interrupts it, the log is damaged as before.
func (l *Log) salvage(w *walker, frames int64) error {
	if err := l.quarantineDamaged(w); err != nil {
		return err
	}
	if err := l.beginWatermark(w); err != nil {
		return err
	}
	number := max(w.checkpoint, w.mark.pos.Segment)
	if n := len(w.segments); n > 0 {
		number = max(number, w.segments[n-1])
	}
	number++
	h := header{typ: typeSegment, salt: w.salt, number: number, firstSeq: max(w.cur.seq, w.mark.nextSeq, 1),
		syncedBytes: headerBytes}
	f, err := writeNamed(l.fs, l.opts.Dir, segmentName(number), h.append(nil))
	if err != nil {
		return err
	}
	l.file = f
	size, err := l.checkpointSurvivors(w, &h, frames)
	if err != nil {
		return err
	}
	obsolete := w.obsolete
	if w.checkpoint > 0 {
		obsolete = append(obsolete, checkpointName(w.checkpoint))
	}
	for _, n := range w.segments {
		obsolete = append(obsolete, segmentName(n))
	}
	at := logEnd{Position{number, headerBytes}, h.firstSeq, h.sum}
	return l.continueAt(w.salt, h.firstSeq, at, obsolete, segmentMeta{number: number, bytes: size})
}

// checkpointSurvivors writes and publishes the checkpoint of all readable frames.
func (l *Log) checkpointSurvivors(w *walker, next *header, frames int64) (sizeBytes int64, err error) {
	c, err := newCheckpointWriter(l.fs, l.opts.Dir, next, w.flushedBefore())
	if err != nil {
		return 0, err
	}
	// Use the earlier list of files, without the new segment and watermark.
	again := &walker{fs: w.fs, dir: w.dir, layout: w.layout, accept: true}
	again.visit = func(f *frame, _ bool, _ Position) error { return c.add(f.kind, f.payload) }
	err = again.run()
	if got := int64(c.at.seq - 1); err == nil && got != frames {
		err = fmt.Errorf("wal: the first read found %d frames, the second %d; open the log again", frames, got)
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

// quarantineDamaged links the damaged files into damaged/ and sets their new paths in the losses.
func (l *Log) quarantineDamaged(w *walker) error {
	dir := l.fs.PathJoin(l.opts.Dir, damagedName)
	if err := makeDir(l.fs, dir); err != nil {
		return err
	}
	kept := make(map[string]string)
	for i := range w.losses {
		file := w.losses[i].Damage.File
		if _, done := kept[file]; !done {
			name, err := l.quarantine(dir, file)
			if err != nil {
				return err
			}
			kept[file] = name
		}
		w.losses[i].Kept = kept[file]
	}
	return syncDir(l.fs, dir)
}

// quarantine links one file into dir under a free name. It returns the path relative to the log's directory, empty if the file
// does not exist.
func (l *Log) quarantine(dir, file string) (string, error) {
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
			return "", fmt.Errorf("link the damaged %s: %w", file, err)
		}
	}
}
