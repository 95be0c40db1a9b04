package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
)

const (
	// BackgroundBackoff is the wait between two attempts of work that failed for lack of resources.
	BackgroundBackoff = 100 * time.Millisecond
	logIntervalMin    = 10 * time.Second
)

// Monitor receives events of background work. It counts them, logs them at a bounded rate, and decides whether to admit
// writes. The tree's own listener would end the process at damage.
type Monitor struct {
	logger *slog.Logger
	now    func() time.Time

	FlushFailures    atomic.Uint64
	FlushFailing     atomic.Bool
	Stalled          atomic.Bool
	Stalls           atomic.Uint64
	BackgroundErrors atomic.Uint64
	Corruptions      atomic.Uint64
	SlowWrites       atomic.Uint64
	flushed          atomic.Uint64 // completed flushes
	Waits            atomic.Uint64 // times that Retry began to wait

	OnWait  func(lack error) // Options.Waiting
	closing chan struct{}    // closed when the store closes: Retry then gives up

	mu         sync.Mutex
	waiting    int   // calls of Retry that wait now
	waitErr    error // error of the last wait
	flushErr   error
	fatalErr   error
	loggedAt   map[string]time.Time
	suppressed map[string]int
}

func New(logger *slog.Logger, now func() time.Time) *Monitor {
	return &Monitor{logger: logger, now: now, closing: make(chan struct{}),
		loggedAt: map[string]time.Time{}, suppressed: map[string]int{}}
}

// Writable fails while flushes fail, because written cells then accumulate in memory.
func (h *Monitor) Writable() error {
	if err := h.Syncable(); err != nil {
		return err
	}
	if h.FlushFailing.Load() {
		return fmt.Errorf("%w: the last flush failed: %w", storage.ErrUnavailable, h.LastFlushError())
	}
	return nil
}

// Syncable fails while no flush can complete: the tree has failed, or its manifest waits for disk space.
func (h *Monitor) Syncable() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fatalErr == nil && h.waiting > 0 {
		return fmt.Errorf("%w: the manifest cannot be written: %w", storage.ErrUnavailable, h.waitErr)
	}
	return h.fatalErr
}

func (h *Monitor) beginWait(err error) {
	h.Waits.Add(1)
	h.mu.Lock()
	h.waiting++
	h.waitErr = err
	h.mu.Unlock()
	if h.OnWait != nil {
		h.OnWait(err)
	}
	h.Report("the manifest waits for disk space or descriptors; writes are refused, reads continue", slog.LevelError, "err", err)
}

func (h *Monitor) endWait() {
	h.mu.Lock()
	h.waiting--
	h.mu.Unlock()
	if h.OnWait != nil {
		h.OnWait(nil)
	}
	h.Report("the manifest can be written again", slog.LevelInfo)
}

// Fatal returns the error after which the store must be opened again, or nil.
func (h *Monitor) Fatal() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fatalErr
}

func (h *Monitor) LastFlushError() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.flushErr
}

// Report logs one kind of event at most once per interval. It adds the number of events that it dropped since the last line.
func (h *Monitor) Report(kind string, level slog.Level, args ...any) {
	h.mu.Lock()
	now := h.now()
	if last, ok := h.loggedAt[kind]; ok && now.Sub(last) < logIntervalMin {
		h.suppressed[kind]++
		h.mu.Unlock()
		return
	}
	args = append(args, "not_logged", h.suppressed[kind])
	h.loggedAt[kind], h.suppressed[kind] = now, 0
	h.mu.Unlock()
	h.logger.Log(context.Background(), level, kind, args...)
}

func (h *Monitor) Listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: h.backgroundFailed,
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			h.Corruptions.Add(1)
			h.Report("stored data is corrupt; reads that need it fail", slog.LevelError, "path", info.Path,
				"err", info.Details.Error()) // as text, because the error prints its callers
		},
		FlushEnd: func(info pebble.FlushInfo) { h.flushEnded(info.Err) },
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			h.Stalled.Store(true)
			h.Stalls.Add(1)
			h.Report("the tree stalls writes", slog.LevelWarn, "reason", info.Reason)
		},
		WriteStallEnd: func() { h.Stalled.Store(false) },
		DiskSlow:      h.DiskSlow,
	}
}

func (h *Monitor) DiskSlow(info pebble.DiskSlowInfo) {
	h.SlowWrites.Add(1)
	h.Report("disk is slow", slog.LevelWarn, "path", info.Path, "duration", info.Duration)
}

// flushEnded records the end of a flush. An error is not a failure yet: a flush with nothing to write ends with an error too.
// The flush has failed only if the same error follows as a background error.
func (h *Monitor) flushEnded(err error) {
	h.flushed.Add(1)
	h.FlushFailing.Store(false)
	h.mu.Lock()
	h.flushErr = err
	h.mu.Unlock()
}

// backgroundFailed records an error of background work. A cancelled compaction is not a failure: a swap cancels a compaction
// of the same cells, and the tree repeats it at once.
func (h *Monitor) backgroundFailed(err error) {
	if errors.Is(err, pebble.ErrCancelledCompaction) {
		return
	}
	h.BackgroundErrors.Add(1)
	if err == h.LastFlushError() { //nolint:errorlint // the very same value is meant
		h.FlushFailing.Store(true)
		h.FlushFailures.Add(1)
	}
	h.Report("background work failed; the engine retries it", slog.LevelError, "err", err)
}

// Logger returns the tree's logger.
func (h *Monitor) Logger() pebble.Logger { return treeLogger{h} }

// treeLogger receives the tree's log lines. It drops informative lines, because the listener reports what matters.
type treeLogger struct{ h *Monitor }

func (l treeLogger) Infof(string, ...any) {}

func (l treeLogger) Errorf(format string, args ...any) {
	l.h.Report("storage tree", slog.LevelError, "err", fmt.Sprintf(format, args...))
}

// Fatalf is called when the tree cannot continue, for example after a device error of its manifest. It must not end the
// process: the caller in the tree returns the error. Afterwards every write and sync fails until the store is opened again.
func (l treeLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf("%w: %w; restart the server: %s", storage.ErrUnavailable, storage.ErrFailed,
		fmt.Sprintf(format, args...))
	l.h.mu.Lock()
	if l.h.fatalErr == nil {
		l.h.fatalErr = err
	}
	l.h.mu.Unlock()
	l.h.Report("storage failed", slog.LevelError, "err", err)
}

// StopWaiting ends all calls of Retry, now and later.
func (h *Monitor) StopWaiting() { close(h.closing) }

// errStopped ends the wait for disk space when the store closes.
var errStopped = errors.New("the store is being closed")

// Retry repeats an operation while the machine lacks disk space, descriptors or memory.
func (h *Monitor) Retry(operation func() error) error {
	for waited := false; ; {
		err := operation()
		if err == nil || !storage.Exhausted(err) {
			if waited {
				h.endWait()
			}
			return err
		}
		if !waited {
			waited = true
			h.beginWait(err)
		}
		select {
		case <-h.closing:
			h.endWait()
			return errors.Join(err, errStopped)
		case <-time.After(BackgroundBackoff):
		}
	}
}
