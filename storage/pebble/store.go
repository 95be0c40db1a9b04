package pebble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"halite/storage"
	"halite/storage/pebble/cellkey"
)

// Store is an open store. It implements storage.Store.
type Store struct {
	opts   Options
	db     *pebble.DB
	health *health
	lock   io.Closer
	// closers are closed last, the lock first.
	closers closerList
	load    *loadDir
	watch   *manifestWatch
	lost    []Damage // see Lost
	// Of the files of Load into tables with HourKeys, whose days are packed later; into others, where they stay as they are;
	// and of packed days.
	loadOptions, onceOptions, dayChunkOptions sstable.WriterOptions

	mu         sync.Mutex // held while tables change
	tables     map[string]*Table
	tableIDMax uint16
	byName     atomic.Pointer[[]*Table]

	swaps           swapGate
	idle            sync.Pool  // of *dayChunkCursor
	dayChunkMu      sync.Mutex // held while days are packed
	dayChunkFigures dayChunkFigures
	dayChunkWake    chan struct{}
	stopDayChunks   func()
	dayChunkJob     sync.WaitGroup

	applied atomic.Uint64 // writes that only a flush makes durable
	synced  atomic.Uint64 // how many of them a flush has made durable
	flushMu sync.Mutex

	closed     atomic.Bool
	unregister func()
}

var _ storage.Store = (*Store)(nil)

// checkOpen fails once Close was called.
func (s *Store) checkOpen() error {
	if s.closed.Load() {
		return fmt.Errorf("%w: store is closed", storage.ErrUnavailable)
	}
	return nil
}

// Table is part of storage.Store.
func (s *Store) Table(_ context.Context, name string) (storage.Table, error) {
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tables[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q", storage.ErrNoTable, name)
	}
	return t, nil
}

// Tables is part of storage.Store.
func (s *Store) Tables(context.Context) ([]storage.TableSchema, error) {
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	var schemas []storage.TableSchema
	for _, t := range s.tablesByName() {
		schemas = append(schemas, t.Schema())
	}
	return schemas, nil
}

// tablesByName returns all tables in order. It takes no lock.
func (s *Store) tablesByName() []*Table {
	if p := s.byName.Load(); p != nil {
		return *p
	}
	return nil
}

// addTable makes a table known. s.mu is held, or the store not yet open.
func (s *Store) addTable(t *Table) {
	s.tables[t.record().Name] = t
	list := append(slices.Clone(s.tablesByName()), t)
	slices.SortFunc(list, func(a, b *Table) int { return strings.Compare(a.record().Name, b.record().Name) })
	s.byName.Store(&list)
	s.tableIDMax = max(s.tableIDMax, t.id)
}

// Sync is part of storage.Store: it flushes the memtables, if they hold something new, and notes how long the manifest is.
func (s *Store) Sync(ctx context.Context) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	if err := s.watch.note(s.opts.FS, s.opts.Dir); err != nil {
		return err
	}
	if err := s.maintainTablets(ctx); err != nil {
		// The flush has succeeded and is what was asked for; the next Sync tries again.
		s.health.report("tablets could not be checked", slog.LevelWarn, "err", err)
	}
	return nil
}

// flush makes every write that applied counts durable.
func (s *Store) flush(ctx context.Context) error {
	want := s.applied.Load()
	if s.synced.Load() >= want {
		return s.health.fatal()
	}
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	if s.synced.Load() >= want {
		return s.health.fatal()
	}
	want = s.applied.Load()
	failures := s.health.flushFailures.Load()
	done, err := s.db.AsyncFlush()
	if err != nil {
		return engineError("flush", err)
	}
	if err := s.awaitFlush(ctx, done, failures); err != nil {
		return err
	}
	s.synced.Store(want)
	for _, t := range s.tablesByName() {
		t.tablets.flushed()
	}
	return nil
}

// awaitFlush waits for a flush. The tree retries a failed flush for ever, so awaitFlush fails with the first failure or
// when the manifest waits for disk space. The caller may call again later.
func (s *Store) awaitFlush(ctx context.Context, done <-chan struct{}, failures uint64) error {
	poll := time.NewTicker(backgroundBackoff / 10)
	defer poll.Stop()
	for {
		select {
		case <-done:
			return s.health.fatal()
		case <-ctx.Done():
			return fmt.Errorf("flush not awaited: %w", context.Cause(ctx))
		case <-poll.C:
			if err := s.health.syncable(); err != nil {
				return err
			}
			if s.health.flushFailures.Load() > failures {
				return fmt.Errorf("flush: %w: %w", storage.ErrUnavailable, s.health.lastFlushError())
			}
		}
	}
}

// waitRoom returns when a write may enter, or an error that wraps storage.ErrUnavailable: when flushes fail, or when
// the tree has held writes back for too long.
func (s *Store) waitRoom(ctx context.Context) error {
	if s.opts.ReadOnly {
		return fmt.Errorf("%w: the store is open for reading only", storage.ErrUnavailable)
	}
	if err := s.checkOpen(); err != nil {
		return err
	}
	if !s.health.stalled.Load() {
		return s.health.writable()
	}
	deadline := time.NewTimer(s.opts.StallWait)
	defer deadline.Stop()
	poll := time.NewTicker(backgroundBackoff / 10)
	defer poll.Stop()
	for s.health.stalled.Load() {
		if err := s.health.writable(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for room: %w", context.Cause(ctx))
		case <-deadline.C:
			return fmt.Errorf("%w: writes stalled for %v, compactions cannot follow", storage.ErrUnavailable,
				s.opts.StallWait)
		case <-poll.C:
		}
	}
	return s.health.writable()
}

// Refusing returns the error with which the store refuses writes at present, nil if it takes them. Reads go on. ErrFailed
// lasts until the store is opened again.
func (s *Store) Refusing() error { return s.health.writable() }

// Close is part of storage.Store. If the flush fails the store is closed nevertheless, and the error says what was
// not made durable.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if s.unregister != nil {
		s.unregister()
	}
	if s.stopDayChunks != nil {
		s.stopDayChunks()
	}
	var errs []error
	err := s.flush(context.Background())
	close(s.health.stop) // else packing might wait for disk space for ever
	s.dayChunkJob.Wait()
	if err == nil {
		err = s.flush(context.Background())
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("last flush: %w", err))
	} else if err := s.watch.note(s.opts.FS, s.opts.Dir); err != nil {
		errs = append(errs, err)
	}
	if err := s.db.Close(); err != nil {
		errs = append(errs, engineError("close", err))
	}
	errs = append(errs, s.closers.Close())
	return errors.Join(errs...)
}

// Compact rewrites all files into the last level. It is for tests and offline care; the store does what is needed by
// itself.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	first := cellkey.AppendPartitionStart(nil, cellkey.NewHeader(catalogTable, 0, cellkey.DayMax))
	last := cellkey.AppendPartitionStart(nil, cellkey.NewHeader(cellkey.MaxTableID, 0, cellkey.DayMax))
	return engineError("compact", s.db.Compact(ctx, first, last, false))
}
