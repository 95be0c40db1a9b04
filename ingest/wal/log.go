package wal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage"
	"halite/storage/periodic"
)

// Log is an open write-ahead log.
type Log struct {
	opts    Options
	fs      vfs.FS
	logger  *slog.Logger
	metrics *metrics
	lock    io.Closer
	// dir is the open directory, so that a sync of it needs no new descriptor.
	dir vfs.File

	// kick wakes the committer. full makes it skip CommitDelay. Both hold one token.
	kick, full chan struct{}
	stop       chan struct{}
	background sync.WaitGroup // goroutines of the committer
	jobs       periodic.Jobs

	// truncating serializes calls of Truncate, and replaying serializes calls of Replay.
	truncating sync.Mutex
	replaying  sync.Mutex
	replayed   bool
	// replayedBytes counts how much of replayBytes Replay has read.
	replayedBytes, replayBytes atomic.Int64

	// file is the newest segment. Only the committer uses it.
	file vfs.File
	mark *watermark

	// nextMu guards nextFile, the empty file of the next segment; nil if there is none.
	nextMu   sync.Mutex
	nextFile vfs.File

	mu sync.Mutex
	// err is the reason why the log accepts no more frames; nil while it works.
	err error
	// salt seeds the checksums. next is the end of the appended frames.
	salt uint64
	next logEnd
	// durable is the end of the synced frames.
	durable logEnd
	// groupStart is the offset in segment next.pos.Segment at which the current group begins.
	groupStart int64
	// gathering receives appended frames. writing is the group of the running commit; nil if none is running. spare is a buffer
	// to reuse.
	gathering, writing *group
	spare              []byte
	// sealed holds the segments before the newest durable one, oldest first. firstSeq belongs to the newest durable one.
	sealed     []segmentMeta
	firstSeq   uint64
	checkpoint segmentMeta
	// While the committer waits for disk space or descriptors, stalled is closed and stallErr is set.
	stalled  chan struct{}
	stallErr error
	// refused is the last error for a full buffer. The end of a commit resets it.
	refused error
	// commitBegan is the start of the running commit. slowLogged is the time of the last warning about a slow commit.
	commitBegan, slowLogged time.Time
	// lastWaiters is the number of waiters of the last commit.
	lastWaiters    int
	framesAppended uint64
	commits        uint64
	bytesWritten   uint64
	closed         bool
}

// logEnd is an end of the log: its position, the next sequence number and the sum of the last frame.
type logEnd struct {
	pos Position
	seq uint64
	sum uint64
}

type segmentMeta struct {
	number   uint64
	bytes    int64
	firstSeq uint64
}

// group holds the frames that one sync makes durable.
type group struct {
	data      []byte
	rotations []rotation
	end       logEnd
	// waiters counts the calls of Wait that share the sync.
	waiters int
	// done is closed when the group is durable or can no longer become durable. In the second case err says why.
	done chan struct{}
	err  error
}

// rotation is the beginning of a segment within a group.
type rotation struct {
	// at is the index in data of the new segment's first frame.
	at     int
	header header
}

// Open locks the directory. The caller calls Replay before Append. Errors: ErrLocked; errors of the file system.
func Open(opts Options) (*Log, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	if err := makeDir(opts.FS, opts.Dir); err != nil {
		return nil, err
	}
	lock, err := opts.FS.Lock(opts.FS.PathJoin(opts.Dir, lockName))
	if err != nil {
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) || storage.Exhausted(err) {
			return nil, fmt.Errorf("create the log's lock file: %w", err)
		}
		return nil, fmt.Errorf("%w: %s: %w", ErrLocked, opts.Dir, err)
	}
	l := &Log{
		opts: opts, fs: opts.FS, logger: opts.Logger, lock: lock,
		kick: make(chan struct{}, 1), full: make(chan struct{}, 1), stop: make(chan struct{}),
		gathering: &group{done: make(chan struct{})}, stalled: make(chan struct{}),
		err: ErrNotReplayed,
	}
	if l.dir, err = opts.FS.OpenDir(opts.Dir); err != nil {
		return nil, errors.Join(fmt.Errorf("open the log's directory: %w", err), lock.Close())
	}
	if l.metrics, err = newMetrics(l, opts.Registerer); err != nil {
		return nil, errors.Join(err, l.dir.Close(), lock.Close())
	}
	return l, nil
}

// Append puts a frame into the buffer and returns its position. The frame is durable only after Wait. Replay yields frames
// in the order of Append. kind is 1 to KindMax. Errors: ErrOverload, ErrTooLarge, ErrFailed, ErrClosed, ErrNotReplayed.
func (l *Log) Append(kind byte, payload []byte) (Position, error) {
	if kind == 0 || kind > KindMax {
		return Position{}, fmt.Errorf("wal: kind %d is outside 1…%d", kind, KindMax)
	}
	if len(payload) > PayloadBytesMax {
		return Position{}, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(payload), PayloadBytesMax)
	}
	size := frameHeaderBytes + len(payload)
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.err != nil {
			return Position{}, l.err
		}
		waiting := len(l.gathering.data)
		if l.writing != nil {
			waiting += len(l.writing.data)
		}
		if l.stallErr != nil && !l.opts.BlockWhenFull {
			l.metrics.overloads.Inc()
			return Position{}, l.stallErr
		}
		if waiting == 0 || waiting+size <= l.opts.BufferBytesMax {
			break
		}
		if !l.opts.BlockWhenFull {
			l.metrics.overloads.Inc()
			l.refused = fmt.Errorf("%w: %d bytes wait for the disk", ErrOverload, waiting)
			return Position{}, l.refused
		}
		l.awaitRoom()
	}
	if l.next.pos.Offset > headerBytes && l.next.pos.Offset+int64(size) > l.opts.SegmentBytesMax {
		l.rotateLocked()
	}
	g, pos := l.gathering, l.next.pos
	before := len(g.data)
	f := frame{kind: kind, seq: l.next.seq, prev: uint32(l.next.sum), groupOffset: uint32(pos.Offset - l.groupStart),
		payload: payload}
	g.data = appendFrame(g.data, l.salt, &f)
	l.next = logEnd{Position{pos.Segment, pos.Offset + int64(size)}, f.seq + 1, f.sum}
	l.framesAppended++
	if before < l.opts.CommitBytes && len(g.data) >= l.opts.CommitBytes {
		signal(l.full)
		signal(l.kick)
	}
	return pos, nil
}

// awaitRoom releases the lock until a commit ends.
func (l *Log) awaitRoom() {
	g := l.writing
	if g == nil {
		g = l.gathering
	}
	signal(l.full)
	signal(l.kick)
	l.mu.Unlock()
	<-g.done
	l.mu.Lock()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Wait returns nil once the frame at pos and all frames before it are synced. It returns the context's error, or ErrClosed.
// It returns ErrFailed if the log failed, even after it synced the frame. It returns ErrOverload while the disk lacks space
// or descriptors, although the frame may still become durable.
func (l *Log) Wait(ctx context.Context, pos Position) error {
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return l.err
	}
	if pos.Before(l.durable.pos) {
		l.mu.Unlock()
		return nil
	}
	if !pos.Before(l.next.pos) {
		defer l.mu.Unlock()
		return fmt.Errorf("wal: wait for %v, but the log ends at %v", pos, l.next.pos)
	}
	g := l.writing
	if g == nil || !pos.Before(g.end.pos) {
		g = l.gathering
		g.waiters++
		signal(l.kick)
	}
	stalled := l.stalled
	l.mu.Unlock()
	select {
	case <-g.done:
		return g.err
	case <-stalled:
		return l.stallError()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stallError is the error for a caller whose wait a stall interrupted. The stall may have ended since.
func (l *Log) stallError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stallErr != nil {
		return l.stallErr
	}
	return fmt.Errorf("%w: the disk lacked space or descriptors", ErrOverload)
}

// Refusing returns the error with which the log refuses frames now, nil if it accepts them. ErrFailed lasts until the log is
// opened again. ErrOverload ends without intervention.
func (l *Log) Refusing() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.err, l.stallErr, l.refused)
}

// Stats is a snapshot of a Log.
type Stats struct {
	// Segments is the number of segment files, Segment the number of the newest.
	Segments int
	Segment  uint64
	// Checkpoint is the number of the checkpoint that replay starts with, 0 if there is none.
	Checkpoint uint64
	// SizeBytes is the size of all segments and the checkpoint.
	SizeBytes int64
	// BufferBytes is the size of the frames that are not yet durable.
	BufferBytes int
	// Appended is the end of the appended frames, Durable the end of the synced ones. Watermark is the end that the
	// watermark file names.
	Appended, Durable, Watermark Position
	// FramesAppended, Commits and BytesWritten count since Open.
	FramesAppended, Commits, BytesWritten uint64
	// CommitAge is the time since the running commit began; 0 if none is running.
	CommitAge time.Duration
	// Err is the reason why the log accepts no frames; nil while it works.
	Err error
}

// Stats returns a snapshot.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{
		Segment: l.durable.pos.Segment, Checkpoint: l.checkpoint.number, SizeBytes: l.checkpoint.bytes,
		BufferBytes: len(l.gathering.data), Appended: l.next.pos, Durable: l.durable.pos,
		FramesAppended: l.framesAppended, Commits: l.commits, BytesWritten: l.bytesWritten, Err: l.err,
	}
	if l.writing != nil {
		s.BufferBytes += len(l.writing.data)
		s.CommitAge = l.now().Sub(l.commitBegan)
	}
	for _, seg := range l.sealed {
		s.SizeBytes += seg.bytes
	}
	if l.durable.pos.Segment > 0 {
		s.Segments = len(l.sealed) + 1
		s.SizeBytes += l.durable.pos.Offset
	}
	if l.mark != nil {
		s.Watermark = l.mark.position()
	}
	return s
}

// Close commits the buffered frames, marks the log as closed cleanly and unlocks the directory. It also closes a failed
// log, and returns the failure. Later calls return nil.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	// No frame is appended after this point, so the last commit writes all of them.
	err := l.err
	if err == nil {
		l.err = ErrClosed
	}
	l.mu.Unlock()
	close(l.stop)
	l.jobs.Stop()
	l.background.Wait()
	l.jobs.Wait()
	l.truncating.Lock()
	defer l.truncating.Unlock()
	if err == nil {
		err = l.closeClean()
	} else if errors.Is(err, ErrNotReplayed) {
		err = nil
	}
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
	}
	if l.mark != nil {
		err = errors.Join(err, l.mark.close())
	}
	l.metrics.unregister()
	return errors.Join(err, l.removeNext(), l.dir.Close(), l.lock.Close())
}

// closeClean marks the log as closed cleanly, unless the last commit failed.
func (l *Log) closeClean() error {
	l.mu.Lock()
	durable, err := l.durable, l.err
	l.mu.Unlock()
	if errors.Is(err, ErrFailed) {
		return err
	}
	return l.mark.advance(mark{pos: durable.pos, sum: durable.sum, nextSeq: durable.seq, clean: true})
}

// fail makes the log refuse all frames. It keeps the first cause.
func (l *Log) fail(operation string, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.err, ErrFailed) {
		return
	}
	l.err = fmt.Errorf("%w: %s: %w", ErrFailed, operation, cause)
	l.metrics.failures.WithLabelValues(operation).Inc()
	l.logger.Error("write-ahead log failed; it refuses all writes until the server is restarted",
		"dir", l.opts.Dir, "operation", operation, "err", cause, "durable", l.durable.pos.String())
	for _, g := range []*group{l.writing, l.gathering} {
		if g != nil {
			g.err = l.err
			close(g.done)
		}
	}
	l.writing = nil
	l.gathering = &group{done: make(chan struct{})}
}

func (l *Log) now() time.Time { return l.opts.Now() }
