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
)

// Log is an open write-ahead log.
type Log struct {
	opts    Options
	fs      vfs.FS
	logger  *slog.Logger
	metrics *metrics
	lock    io.Closer
	// dir is the open directory. A sync of it needs no further descriptor.
	dir vfs.File

	// kick wakes the committer, full tells it not to wait for CommitDelay. Both hold one token.
	kick, full chan struct{}
	stop       chan struct{}
	background sync.WaitGroup

	// truncating serialises Truncate; replaying guards Replay.
	truncating sync.Mutex
	replaying  sync.Mutex
	replayed   bool
	// replayedBytes of replayBytes were read by Replay.
	replayedBytes, replayBytes atomic.Int64

	// file is the newest segment. Only the committer uses it.
	file vfs.File
	mark *watermark

	// nextMu guards nextFile, the empty file of the segment to come; nil if there is none.
	nextMu   sync.Mutex
	nextFile vfs.File

	mu sync.Mutex
	// err is why the log takes nothing more; nil while it works.
	err error
	// salt seeds the checksums; next is where the next frame goes and what it follows.
	salt uint64
	next tip
	// durable is the end of what is synced.
	durable tip
	// groupStart is the offset in segment next.pos.Segment at which the gathering group begins.
	groupStart int64
	// gathering takes appends, writing is being committed (nil if none), spare is a buffer to use again.
	gathering, writing *group
	spare              []byte
	// sealed are the segments before the newest durable one, oldest first; firstSeq is that of the newest.
	sealed     []segmentMeta
	firstSeq   uint64
	checkpoint segmentMeta
	// stalled is closed while the committer waits for disk space or descriptors; stallErr says so, else it is nil.
	stalled  chan struct{}
	stallErr error
	// refused is the last refusal for a full buffer, nil once a commit has ended since.
	refused error
	// commitBegan is the time at which writing was handed to the disk; slowLogged that of the last warning about it.
	commitBegan, slowLogged time.Time
	// lastWaiters is the number of waiters of the last commit.
	lastWaiters    int
	framesAppended uint64
	commits        uint64
	bytesWritten   uint64
	closed         bool
}

// tip is an end of the log: its position, the sequence number that comes next and the sum to follow.
type tip struct {
	pos Position
	seq uint64
	sum uint64
}

type segmentMeta struct {
	number   uint64
	bytes    int64
	firstSeq uint64
}

// group is what one sync makes durable.
type group struct {
	data []byte
	cuts []cut
	end  tip
	// waiters counts the calls of Wait that share the sync.
	waiters int
	// done is closed when the group is durable or err says why it never will be.
	done chan struct{}
	err  error
}

// cut is the beginning of a segment within a group.
type cut struct {
	// at is the index in data of the new segment's first frame.
	at     int
	header header
}

// Open locks the directory. The log takes frames after Replay. Errors: ErrLocked; the file system's.
func Open(opts Options) (*Log, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
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

// Append puts a frame into the buffer and returns its position; Wait makes sure that it is durable. The order of
// Append is the order of replay. kind is 1 to KindMax. Errors: ErrOverload, ErrTooLarge, ErrFailed, ErrClosed,
// ErrNotReplayed.
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
		l.cutLocked()
	}
	g, pos := l.gathering, l.next.pos
	before := len(g.data)
	f := frame{kind: kind, seq: l.next.seq, prev: uint32(l.next.sum), back: uint32(pos.Offset - l.groupStart),
		payload: payload}
	g.data = appendFrame(g.data, l.salt, &f)
	l.next = tip{Position{pos.Segment, pos.Offset + int64(size)}, f.seq + 1, f.sum}
	l.framesAppended++
	if before < l.opts.CommitBytes && len(g.data) >= l.opts.CommitBytes {
		signal(l.full)
		signal(l.kick)
	}
	return pos, nil
}

// awaitRoom releases the lock until a commit has ended.
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

// cutLocked makes the next frame the first of a new segment.
func (l *Log) cutLocked() {
	h := header{typ: typeSegment, salt: l.salt, number: l.next.pos.Segment + 1, firstSeq: l.next.seq,
		prevBytes: l.next.pos.Offset, prevSum: l.next.sum, bornBytes: headerBytes}
	h.append(nil)
	l.gathering.cuts = append(l.gathering.cuts, cut{at: len(l.gathering.data), header: h})
	l.next = tip{Position{h.number, headerBytes}, h.firstSeq, h.sum}
	l.groupStart = headerBytes
}

// Cut ends the current segment, unless it is empty: all frames appended before lie in segments before the returned
// one, all appended later in it or after.
func (l *Log) Cut() (segment uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	if l.next.pos.Offset > headerBytes {
		l.cutLocked()
	}
	return l.next.pos.Segment, nil
}

// Wait returns nil once the frame at pos and all before it are synced. Errors: the context's; ErrFailed if the log
// failed, even if that was after the frame became durable; ErrOverload while the disk lacks space or descriptors: the frame
// may become durable all the same; ErrClosed.
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
		return l.whyStalled()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// whyStalled is the error of a caller that the log sends away. The stall may have ended since.
func (l *Log) whyStalled() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stallErr != nil {
		return l.stallErr
	}
	return fmt.Errorf("%w: the disk lacked space or descriptors", ErrOverload)
}

// Refusing returns the error with which the log refuses frames at present, nil if it takes them. ErrFailed lasts until the
// log is opened again, ErrOverload ends by itself.
func (l *Log) Refusing() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.err, l.stallErr, l.refused)
}

// Since returns the first segment from which on the log has at most that many bytes, checkpoint and unsynced frames left
// aside; the one after the newest if that is larger alone.
func (l *Log) Since(sizeBytes int64) (segment uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	segment = l.durable.pos.Segment + 1
	sizeBytes -= l.durable.pos.Offset
	for n := len(l.sealed) - 1; sizeBytes >= 0; n-- {
		segment--
		if n < 0 {
			break
		}
		sizeBytes -= l.sealed[n].bytes
	}
	return segment
}

// Stats gives a snapshot.
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

// Close commits what is buffered, marks the log as cleanly ended and unlocks the directory. Later calls return nil. A
// log that failed is closed too, and its failure returned.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	// Appends end here, so that the last commit takes all there is.
	err := l.err
	if err == nil {
		l.err = ErrClosed
	}
	l.mu.Unlock()
	close(l.stop)
	l.background.Wait()
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
	return errors.Join(err, l.dropNext(), l.dir.Close(), l.lock.Close())
}

// closeClean leaves the clean mark behind the last commit, unless that failed.
func (l *Log) closeClean() error {
	l.mu.Lock()
	durable, err := l.durable, l.err
	l.mu.Unlock()
	if errors.Is(err, ErrFailed) {
		return err
	}
	return l.mark.advance(mark{pos: durable.pos, sum: durable.sum, nextSeq: durable.seq, clean: true})
}

// fail ends the log's life. The first cause stays.
func (l *Log) fail(operation string, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.err, ErrFailed) {
		return
	}
	l.err = fmt.Errorf("%w: %s: %w", ErrFailed, operation, cause)
	l.metrics.failures.WithLabelValues(operation).Inc()
	l.logger.Error("write-ahead log failed; it takes nothing more until the server is started again",
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
