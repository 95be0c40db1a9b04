package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Replay hands every frame of the log to fn, the newest checkpoint's first, then calls done, and makes the log ready for
// Append. It runs once. The payload is valid during the call of fn. fn may leave work to other goroutines; done waits for
// it. done may be nil. Frames of the checkpoint have its number as segment and offset 0. A log that cannot be read back
// whole is a *DamageError, unless Options.AcceptLoss; nothing on disk is changed then. An error of fn or done ends the
// replay and is returned.
func (l *Log) Replay(fn func(kind byte, payload []byte, pos Position) error, done func() error) (ReplayStats, error) {
	l.replaying.Lock()
	defer l.replaying.Unlock()
	l.mu.Lock()
	err := l.err
	l.mu.Unlock()
	if l.replayed {
		return ReplayStats{}, errors.New("wal: Replay runs once")
	}
	if !errors.Is(err, ErrNotReplayed) {
		return ReplayStats{}, err
	}
	l.replayed = true
	start := l.now()
	layout, err := readLayout(l.fs, l.opts.Dir)
	if err != nil {
		return ReplayStats{}, err
	}
	var stats ReplayStats
	w := &walker{fs: l.fs, dir: l.opts.Dir, layout: layout, accept: l.opts.AcceptLoss}
	w.visit = func(f *frame, inCheckpoint bool, at Position) error {
		if inCheckpoint {
			at.Offset = 0
		}
		if stats.Frames == 0 {
			l.replayBytes.Store(w.sizeBytes())
		}
		l.replayedBytes.Add(f.sizeBytes())
		stats.Frames++
		stats.PayloadBytes += int64(len(f.payload))
		return fn(f.kind, f.payload, at)
	}
	err = w.run()
	if done != nil {
		err = errors.Join(err, done())
	}
	if err != nil {
		return stats, err
	}
	stats.Checkpoint, stats.Segments = w.checkpoint, len(w.files)
	stats.Clean = w.markOK && w.mark.clean
	stats.TornAt, stats.TornBytes, stats.TornFrames = w.torn.at, w.torn.bytes, w.torn.frames
	stats.Losses = w.losses
	l.report(&stats)
	if len(w.losses) > 0 {
		err = l.salvage(w, stats.Frames)
	} else {
		err = l.resume(w)
	}
	if err != nil {
		return stats, err
	}
	stats.Duration = l.now().Sub(start)
	l.background.Add(2)
	go l.commitLoop()
	go l.markLoop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = nil
	return stats, nil
}

// ReplayProgress returns how many bytes Replay has read, and how many there are; both are 0 before it has read any.
func (l *Log) ReplayProgress() (bytes, totalBytes int64) {
	return l.replayedBytes.Load(), l.replayBytes.Load()
}

func (l *Log) report(stats *ReplayStats) {
	l.metrics.tornBytes.Set(float64(stats.TornBytes))
	l.metrics.lost.Set(float64(len(stats.Losses)))
	if stats.TornBytes > 0 {
		l.logger.Warn("the log's unfinished end was discarded; nothing in it had been acknowledged",
			"at", stats.TornAt.String(), "bytes", stats.TornBytes, "frames", stats.TornFrames)
	}
	for i := range stats.Losses {
		l.logger.Error("the log is damaged and the loss was accepted", "loss", stats.Losses[i].Damage.Error(),
			"to_byte", stats.Losses[i].ToOffset)
	}
}

// resume begins a new segment behind an undamaged log. Frames that may never have reached the disk are written again
// into it: the page cache can show them although a sync of theirs failed, and nothing must build on that.
func (l *Log) resume(w *walker) error {
	if err := l.ensureMark(w); err != nil {
		return err
	}
	h := header{typ: typeSegment, salt: w.salt, number: 1, firstSeq: 1, bornBytes: headerBytes}
	var frames []byte
	at := tip{seq: 1}
	if n := len(w.files); n > 0 {
		last := &w.files[n-1]
		if w.end.off == headerBytes {
			// It is empty: the new file takes its place, with the same header, for the watermark may name that.
			h = last.header
			n--
		} else {
			h.number, h.firstSeq, h.prevBytes, h.prevSum = last.number+1, w.carry.seq, w.carry.off, w.carry.sum
		}
		for i := range n {
			l.sealed = append(l.sealed, segmentMeta{w.files[i].number, w.files[i].size, w.files[i].header.firstSeq})
		}
		var err error
		if frames, at, err = w.carried(&h); err != nil {
			return err
		}
	} else {
		h.append(nil)
		at.sum = h.sum
	}
	at.pos = Position{h.number, h.bornBytes}
	return l.begin(w, h, frames, at)
}

// carried gives the frames of the last segment from carry to end, made to follow h, and fills in h.bornBytes.
func (w *walker) carried(h *header) (frames []byte, at tip, err error) {
	last := &w.files[len(w.files)-1]
	h.bornBytes = headerBytes + w.end.off - w.carry.off
	h.append(nil)
	at = tip{seq: h.firstSeq, sum: h.sum}
	if w.end.off == w.carry.off {
		return nil, at, nil
	}
	r, err := openReader(w.fs, w.fs.PathJoin(w.dir, last.name))
	if err != nil {
		return nil, at, fmt.Errorf("open %s: %w", last.name, err)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for off := w.carry.off; off < w.end.off; {
		f, reason := r.frameAt(off, w.end.off, w.salt)
		if reason != "" {
			return nil, at, &DamageError{File: last.name, Segment: last.number, Offset: off, LostFrames: -1,
				Reason: "read a second time: " + reason, Err: r.err}
		}
		off += f.sizeBytes()
		// All of the file is synced before it gets its name, so that each frame may be a group of its own.
		f.prev, f.back = uint32(at.sum), 0
		frames = appendFrame(frames, w.salt, &f)
		at.seq, at.sum = f.seq+1, f.sum
	}
	return frames, at, nil
}

// ensureMark makes the watermark file exist, and say that the log is open and was started once more.
func (l *Log) ensureMark(w *walker) error {
	if !w.markOK {
		w.mark = mark{salt: w.salt, nextSeq: w.cur.seq}
		if w.salt == 0 {
			var err error
			if w.mark.salt, err = newSalt(); err != nil {
				return err
			}
		}
		if err := createWatermark(l.fs, l.opts.Dir, w.mark); err != nil {
			return err
		}
	}
	w.salt = w.mark.salt
	m, err := openWatermark(l.fs, l.opts.Dir, w.mark)
	if err != nil {
		return err
	}
	l.mark = m
	begun := w.mark
	begun.clean = false
	begun.starts++
	return m.begin(begun)
}

func newSalt() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("draw the log's salt: %w", err)
	}
	return binary.LittleEndian.Uint64(b[:]) | 1, nil
}

// begin creates the segment of h with the given frames, makes it the log's end and removes what is obsolete.
func (l *Log) begin(w *walker, h header, frames []byte, at tip) error {
	f, err := writeNamed(l.fs, l.opts.Dir, segmentName(h.number), append(h.append(nil), frames...))
	if err != nil {
		return err
	}
	l.file = f
	// The segment may have taken the name of an obsolete one.
	gone := slices.DeleteFunc(w.obsolete, func(name string) bool { return name == segmentName(h.number) })
	var checkpoint segmentMeta
	if w.checkpoint > 0 {
		checkpoint = segmentMeta{number: w.checkpoint, bytes: w.ckpt.size}
	}
	return l.continueAt(w.salt, h.firstSeq, at, gone, checkpoint)
}

// continueAt makes a tip the log's end, in a segment that begins with firstSeq and is there already, and then removes the files
// that are gone by that.
func (l *Log) continueAt(salt, firstSeq uint64, at tip, gone []string, checkpoint segmentMeta) error {
	if err := l.mark.advance(mark{pos: at.pos, sum: at.sum, nextSeq: at.seq}); err != nil {
		return err
	}
	if err := l.remove(gone); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.salt = salt
	l.next, l.durable = at, at
	l.groupStart, l.firstSeq = at.pos.Offset, firstSeq
	l.checkpoint = checkpoint
	return nil
}
