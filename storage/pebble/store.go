package pebble

import (
	"context"
	"encoding/json"
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
	"halite/storage/pebble/catalog"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/cursor"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/health"
	"halite/storage/pebble/partition"
	"halite/storage/pebble/recovery"
	"halite/storage/pebble/treefs"
	"halite/storage/periodic"
)

// Store is an open store. It implements storage.Store.
type Store struct {
	opts   Options
	db     *pebble.DB
	health *health.Monitor
	lock   io.Closer
	// closers are closed last, in order: the lock, then the watch of a slow disk.
	closers closerList
	staging *stagingDir
	watch   *treefs.ManifestWatch
	onDisk  *recovery.Tree
	lost    []fault.Damage // see Lost
	// Writer options for files of Load into tables with HourKeys, for files of Load into other tables, and for day chunks.
	loadOptions, onceOptions, dayChunkOptions sstable.WriterOptions

	mu         sync.Mutex // held while tables change
	tables     map[string]*Table
	tableIDMax uint16
	byName     atomic.Pointer[[]*Table]

	swaps           partition.SwapGate
	cursors         cursor.Pool
	dayChunkMu      sync.Mutex // held while days are packed
	dayChunkFigures dayChunkFigures
	dayChunkWake    chan struct{}
	dayChunkAll     atomic.Bool // the next run packs all unpacked days, whether due or not
	dayChunkJobs    periodic.Jobs

	applied atomic.Uint64 // writes that need a flush to be durable
	synced  atomic.Uint64 // the part of applied that is durable
	flushMu sync.Mutex

	closed     atomic.Bool
	unregister func()
}

var _ storage.Store = (*Store)(nil)

// checkOpen fails after Close.
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

// addTable registers a table. The caller holds s.mu, or the store is not open yet.
func (s *Store) addTable(t *Table) {
	s.tables[t.record().Name] = t
	list := append(slices.Clone(s.tablesByName()), t)
	slices.SortFunc(list, func(a, b *Table) int { return strings.Compare(a.record().Name, b.record().Name) })
	s.byName.Store(&list)
	s.tableIDMax = max(s.tableIDMax, t.id)
}

// Sync is part of storage.Store. It flushes the memtables if they have unsynced writes, then records the durable length of
// the manifest.
func (s *Store) Sync(ctx context.Context) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	if err := s.watch.Store(s.opts.FS, s.opts.Dir); err != nil {
		return err
	}
	for _, t := range s.tablesByName() {
		if err := t.tablets.CheckIfBusy(ctx); err != nil {
			// The flush has succeeded, and durability is all that Sync promises. The next Sync checks again.
			s.health.Report("tablets could not be checked", slog.LevelWarn, "table", t.record().Name, "err", err)
		}
	}
	return nil
}

// flush makes every write durable that s.applied counts.
func (s *Store) flush(ctx context.Context) error {
	want := s.applied.Load()
	if s.synced.Load() >= want {
		return s.health.Fatal()
	}
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	if s.synced.Load() >= want {
		return s.health.Fatal()
	}
	want = s.applied.Load()
	failures := s.health.FlushFailures.Load()
	done, err := s.db.AsyncFlush()
	if err != nil {
		return fault.Wrap("flush", err)
	}
	if err := s.awaitFlush(ctx, done, failures); err != nil {
		return err
	}
	s.synced.Store(want)
	for _, t := range s.tablesByName() {
		t.tablets.Flushed()
	}
	return nil
}

// awaitFlush waits for a flush. The tree retries a failed flush forever, so awaitFlush fails at the first failure, or when
// the manifest waits for disk space. The caller may call it again.
func (s *Store) awaitFlush(ctx context.Context, done <-chan struct{}, failures uint64) error {
	poll := time.NewTicker(health.BackgroundBackoff / 10)
	defer poll.Stop()
	for {
		select {
		case <-done:
			return s.health.Fatal()
		case <-ctx.Done():
			return fmt.Errorf("wait for the flush: %w", context.Cause(ctx))
		case <-poll.C:
			if err := s.health.Syncable(); err != nil {
				return err
			}
			if s.health.FlushFailures.Load() > failures {
				return fmt.Errorf("flush: %w: %w", storage.ErrUnavailable, s.health.LastFlushError())
			}
		}
	}
}

// waitWritable waits until a write may enter. It fails with storage.ErrUnavailable if flushes fail, or if the tree has
// stalled writes for too long.
func (s *Store) waitWritable(ctx context.Context) error {
	if s.opts.ReadOnly {
		return fmt.Errorf("%w: the store is open for reading only", storage.ErrUnavailable)
	}
	if err := s.checkOpen(); err != nil {
		return err
	}
	if !s.health.Stalled.Load() {
		return s.health.Writable()
	}
	deadline := time.NewTimer(s.opts.StallWait)
	defer deadline.Stop()
	poll := time.NewTicker(health.BackgroundBackoff / 10)
	defer poll.Stop()
	for s.health.Stalled.Load() {
		if err := s.health.Writable(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of a write stall: %w", context.Cause(ctx))
		case <-deadline.C:
			return fmt.Errorf("%w: writes stalled for %v, because compactions cannot keep up", storage.ErrUnavailable,
				s.opts.StallWait)
		case <-poll.C:
		}
	}
	return s.health.Writable()
}

// Refusing returns the error with which the store refuses writes, or nil if it accepts them. Reads continue.
// storage.ErrFailed lasts until the store is opened again.
func (s *Store) Refusing() error { return s.health.Writable() }

// Close is part of storage.Store. It closes the store even if the last flush fails. Then the error names what is not
// durable.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if s.unregister != nil {
		s.unregister()
	}
	flushErr := s.lastFlush()
	closeErr := fault.Wrap("close", s.db.Close())
	return errors.Join(flushErr, closeErr, s.closers.Close())
}

// lastFlush stops the day chunk jobs and makes all writes durable.
func (s *Store) lastFlush() error {
	s.dayChunkJobs.Stop()
	err := s.flush(context.Background())
	s.health.StopWaiting() // otherwise packing could wait forever for disk space
	s.dayChunkJobs.Wait()
	if err != nil {
		return fmt.Errorf("last flush: %w", err)
	}
	if err := s.flush(context.Background()); err != nil {
		return fmt.Errorf("last flush: %w", err)
	}
	return s.watch.Store(s.opts.FS, s.opts.Dir)
}

// Compact rewrites all files into the last level. Tests and offline tools use it; a running store needs no such call.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	first := cellkey.AppendPartitionStart(nil, cellkey.NewHeader(catalog.TableID, 0, cellkey.DayMax))
	last := cellkey.AppendPartitionStart(nil, cellkey.NewHeader(cellkey.MaxTableID, 0, cellkey.DayMax))
	return fault.Wrap("compact", s.db.Compact(ctx, first, last, false))
}

// putRecord writes a record of the catalogue. It writes table records to their copy first.
func (s *Store) putRecord(ctx context.Context, family uint8, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode catalogue record of %s: %w", name, err)
	}
	if err := s.waitWritable(ctx); err != nil {
		return err
	}
	if rec, ok := value.(catalog.Table); ok {
		recs := []catalog.Table{rec}
		for _, t := range s.tablesByName() {
			if t.id != rec.ID {
				recs = append(recs, *t.record())
			}
		}
		if err := catalog.StoreCopy(s.opts.FS, s.opts.Dir, recs); err != nil {
			return err
		}
	}
	if err := s.db.Set(catalog.Key(family, name), data, pebble.NoSync); err != nil {
		return fault.Wrap("write catalogue record of "+name, err)
	}
	s.applied.Add(1)
	return nil
}

// closerList closes its members in order.
type closerList []io.Closer

// Close closes all members and joins their errors.
func (l closerList) Close() error {
	var errs []error
	for _, c := range l {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// dayChunkFigures count the work of day chunk jobs.
type dayChunkFigures struct {
	days, cells, bytesBefore, bytesAfter, nanos, failures atomic.Uint64
}
