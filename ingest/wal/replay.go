package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Replay passes every frame of the log to fn, the newest checkpoint first. Then it calls done, which may be nil, and makes
// the log ready for Append. It runs once.
//
// The payload is valid during the call of fn. fn may start work in other goroutines; done waits for them. Frames of the
// checkpoint have its number as segment and offset 0. For a damaged log Replay returns a *DamageError and changes nothing on
// disk, unless Options.AcceptLoss is set. It stops at an error of fn or done and returns it.
func (l *Log) Replay(fn func(kind byte, payload []byte, pos Position) error, done func() error) (ReplayStats, error) {
	l.replaying.Lock()
	defer l.replaying.Unlock()
	l.mu.Lock()
	err := l.err
	l.mu.Unlock()
	if l.replayed {
		return ReplayStats{}, errors.New("wal: Replay was called twice")
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
	l.prepareNext()
	l.background.Go(l.commitLoop)
	l.jobs.Add(l.opts.WatermarkInterval, nil, l.maintain)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = nil
	return stats, nil
}

// ReplayProgress returns the number of bytes that Replay has read, and the number of all bytes. Both are 0 before it reads the
// first frame.
func (l *Log) ReplayProgress() (bytes, totalBytes int64) {
	return l.replayedBytes.Load(), l.replayBytes.Load()
}

func (l *Log) report(stats *ReplayStats) {
	l.metrics.tornBytes.Set(float64(stats.TornBytes))
	l.metrics.lost.Set(float64(len(stats.Losses)))
	if stats.TornBytes > 0 {
		l.logger.Warn("discarded the torn tail of the log; no frame in it was acknowledged",
			"at", stats.TornAt.String(), "bytes", stats.TornBytes, "frames", stats.TornFrames)
	}
	for i := range stats.Losses {
		l.logger.Error("the log is damaged; continuing because the loss is accepted", "loss", stats.Losses[i].Damage.Error(),
			"to_byte", stats.Losses[i].ToOffset)
	}
}

// resume begins a new segment after an undamaged log. It rewrites those frames that may not be on disk. The page cache can
// show frames whose sync failed, and no later frame may depend on such a frame.
func (l *Log) resume(w *walker) error {
	if err := l.beginWatermark(w); err != nil {
		return err
	}
	h := header{typ: typeSegment, salt: w.salt, number: 1, firstSeq: 1, syncedBytes: headerBytes}
	var frames []byte
	at := logEnd{seq: 1}
	if n := len(w.files); n > 0 {
		last := &w.files[n-1]
		if w.end.off == headerBytes {
			// The last segment is empty. The new file replaces it with the same header, because the watermark may name this
			// header.
			h = last.header
			n--
		} else {
			h.number, h.firstSeq, h.prevBytes, h.prevSum = last.number+1, w.synced.seq, w.synced.off, w.synced.sum
		}
		for i := range n {
			l.sealed = append(l.sealed, segmentMeta{w.files[i].number, w.files[i].size, w.files[i].header.firstSeq})
		}
		var err error
		if frames, at, err = w.unsyncedFrames(&h); err != nil {
			return err
		}
	} else {
		h.append(nil)
		at.sum = h.sum
	}
	at.pos = Position{h.number, h.syncedBytes}
	return l.begin(w, h, frames, at)
}

// unsyncedFrames returns the frames of the last segment from w.synced to w.end, encoded as successors of h. It sets
// h.syncedBytes.
func (w *walker) unsyncedFrames(h *header) (frames []byte, at logEnd, err error) {
	last := &w.files[len(w.files)-1]
	h.syncedBytes = headerBytes + w.end.off - w.synced.off
	h.append(nil)
	at = logEnd{seq: h.firstSeq, sum: h.sum}
	if w.end.off == w.synced.off {
		return nil, at, nil
	}
	r, err := openReader(w.fs, w.fs.PathJoin(w.dir, last.name))
	if err != nil {
		return nil, at, fmt.Errorf("open %s: %w", last.name, err)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for off := w.synced.off; off < w.end.off; {
		f, reason := r.frameAt(off, w.end.off, w.salt)
		if reason != "" {
			return nil, at, &DamageError{File: last.name, Segment: last.number, Offset: off, LostFrames: -1,
				Reason: "on the second read: " + reason, Err: r.err}
		}
		off += f.sizeBytes()
		// Each frame may be a group of its own, because the file is synced before it gets its name.
		f.prev, f.groupOffset = uint32(at.sum), 0
		frames = appendFrame(frames, w.salt, &f)
		at.seq, at.sum = f.seq+1, f.sum
	}
	return frames, at, nil
}

// beginWatermark opens the watermark file or creates it. It records that the log is open and counts the start.
func (l *Log) beginWatermark(w *walker) error {
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
	opened := w.mark
	opened.clean = false
	opened.starts++
	return m.begin(opened)
}

func newSalt() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("generate the log's salt: %w", err)
	}
	return binary.LittleEndian.Uint64(b[:]) | 1, nil
}

// begin creates the segment of h with the given frames, makes it the end of the log and removes obsolete files.
func (l *Log) begin(w *walker, h header, frames []byte, at logEnd) error {
	f, err := writeNamed(l.fs, l.opts.Dir, segmentName(h.number), append(h.append(nil), frames...))
	if err != nil {
		return err
	}
	l.file = f
	// The segment may have the name of an obsolete file.
	obsolete := slices.DeleteFunc(w.obsolete, func(name string) bool { return name == segmentName(h.number) })
	var checkpoint segmentMeta
	if w.checkpoint > 0 {
		checkpoint = segmentMeta{number: w.checkpoint, bytes: w.ckpt.size}
	}
	return l.continueAt(w.salt, h.firstSeq, at, obsolete, checkpoint)
}

// continueAt makes at the end of the log. at lies in an existing segment that begins with firstSeq. Then continueAt removes
// obsolete files.
func (l *Log) continueAt(salt, firstSeq uint64, at logEnd, obsolete []string, checkpoint segmentMeta) error {
	if err := l.mark.advance(mark{pos: at.pos, sum: at.sum, nextSeq: at.seq}); err != nil {
		return err
	}
	if err := l.remove(obsolete); err != nil {
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

// ReplayStats describes what Replay found.
type ReplayStats struct {
	// Checkpoint is the number of the checkpoint, 0 if there was none. Segments is the number of segments.
	Checkpoint uint64
	Segments   int
	// Frames and PayloadBytes count what the callback received.
	Frames, PayloadBytes int64
	// Clean reports whether the log was closed cleanly.
	Clean bool
	// TornAt is the start of the torn tail after a crash, and TornBytes is its size. TornFrames counts the whole frames in
	// it. No such frame was acknowledged, except perhaps within the last Options.WatermarkInterval.
	TornAt     Position
	TornBytes  int64
	TornFrames int64
	// Losses lists the accepted damage; it is empty unless Options.AcceptLoss is set.
	Losses []Loss
	// Duration is the time of the replay, including the callbacks.
	Duration time.Duration
}

// Loss is a part of the log that cannot be read.
type Loss struct {
	// Damage holds file, offset, reason and lost frames.
	Damage DamageError
	// ToOffset is the first readable byte after the loss, or the size of the file; 0 if the file is missing.
	ToOffset int64
	// LastSeq is the sequence number of the last lost frame, 0 if unknown.
	LastSeq uint64
	// Kept is the new path of the damaged file, relative to the log's directory; empty if there is no file.
	Kept string
}
