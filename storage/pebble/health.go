package pebble

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

// health is what background work tells: it counts, logs at a bounded rate, and decides whether writes may enter. The
// tree's own listener would end the process on corruption.
type health struct {
	logger *slog.Logger
	now    func() time.Time

	flushFailures    atomic.Uint64
	flushFailing     atomic.Bool
	stalled          atomic.Bool
	stalls           atomic.Uint64
	backgroundErrors atomic.Uint64
	corruptions      atomic.Uint64
	slowWrites       atomic.Uint64
	flushed          atomic.Uint64 // completed flushes
	waits            atomic.Uint64 // times that retry began to wait

	onWait func(lack error) // Options.Waiting
	stop   chan struct{}    // closed when the store is closed: retry gives up

	mu         sync.Mutex
	waiting    int   // calls of retry that wait
	waitErr    error // of the last one
	flushErr   error
	fatalErr   error
	loggedAt   map[string]time.Time
	suppressed map[string]int
}

func newHealth(logger *slog.Logger, now func() time.Time) *health {
	return &health{logger: logger, now: now, stop: make(chan struct{}),
		loggedAt: map[string]time.Time{}, suppressed: map[string]int{}}
}

// writable fails while flushes fail, because the cells that are written then pile up in memory.
func (h *health) writable() error {
	if err := h.syncable(); err != nil {
		return err
	}
	if h.flushFailing.Load() {
		return fmt.Errorf("%w: flushes fail: %w", storage.ErrUnavailable, h.lastFlushError())
	}
	return nil
}

// syncable fails while no flush can complete: the tree has failed, or its manifest waits for disk space.
func (h *health) syncable() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fatalErr == nil && h.waiting > 0 {
		return fmt.Errorf("%w: the manifest cannot be written: %w", storage.ErrUnavailable, h.waitErr)
	}
	return h.fatalErr
}

func (h *health) beginWait(err error) {
	h.waits.Add(1)
	h.mu.Lock()
	h.waiting++
	h.waitErr = err
	h.mu.Unlock()
	if h.onWait != nil {
		h.onWait(err)
	}
	h.report("the manifest waits for disk space or descriptors; writes are refused, reads go on", slog.LevelError, "err", err)
}

func (h *health) endWait() {
	h.mu.Lock()
	h.waiting--
	h.mu.Unlock()
	if h.onWait != nil {
		h.onWait(nil)
	}
	h.report("the manifest can be written again", slog.LevelInfo)
}

// fatal returns the error after which the store must be opened again, or nil.
func (h *health) fatal() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fatalErr
}

func (h *health) lastFlushError() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.flushErr
}

// report logs one kind of event at most once an interval, with the number left out since.
func (h *health) report(kind string, level slog.Level, args ...any) {
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

func (h *health) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: h.backgroundFailed,
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			h.corruptions.Add(1)
			h.report("stored data is corrupt, reads that need it fail", slog.LevelError, "path", info.Path,
				"err", info.Details.Error()) // as text: the error prints its callers
		},
		FlushEnd: func(info pebble.FlushInfo) { h.flushEnded(info.Err) },
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			h.stalled.Store(true)
			h.stalls.Add(1)
			h.report("writes are held back", slog.LevelWarn, "reason", info.Reason)
		},
		WriteStallEnd: func() { h.stalled.Store(false) },
		DiskSlow:      h.diskSlow,
	}
}

func (h *health) diskSlow(info pebble.DiskSlowInfo) {
	h.slowWrites.Add(1)
	h.report("disk is slow", slog.LevelWarn, "path", info.Path, "duration", info.Duration)
}

// flushEnded notes how a flush ended. An error here is no failure yet: a flush that found nothing to write ends with
// one too. Only if the same error follows as a background error has the flush failed.
func (h *health) flushEnded(err error) {
	h.flushed.Add(1)
	h.flushFailing.Store(false)
	h.mu.Lock()
	h.flushErr = err
	h.mu.Unlock()
}

// backgroundFailed notes an error. That a flush gave way to a run of hours that takes the place of what it writes is none: it is
// repeated at once.
func (h *health) backgroundFailed(err error) {
	if errors.Is(err, pebble.ErrCancelledCompaction) {
		return
	}
	h.backgroundErrors.Add(1)
	if err == h.lastFlushError() { //nolint:errorlint // the very same value is meant
		h.flushFailing.Store(true)
		h.flushFailures.Add(1)
	}
	h.report("background work failed, it is retried", slog.LevelError, "err", err)
}

// treeLogger takes the tree's log lines. Informative ones are dropped; the listener reports what matters.
type treeLogger struct{ h *health }

func (l treeLogger) Infof(string, ...any) {}

func (l treeLogger) Errorf(format string, args ...any) {
	l.h.report("storage tree", slog.LevelError, "err", fmt.Sprintf(format, args...))
}

// Fatalf is called when the tree cannot go on, for example after a device error of its manifest. It must not end the process:
// the caller inside returns the error. From here on every write and sync fails until the store is opened again.
func (l treeLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf("%w: %w, start the server again: %s", storage.ErrUnavailable, storage.ErrFailed,
		fmt.Sprintf(format, args...))
	l.h.mu.Lock()
	if l.h.fatalErr == nil {
		l.h.fatalErr = err
	}
	l.h.mu.Unlock()
	l.h.report("storage failed", slog.LevelError, "err", err)
}
