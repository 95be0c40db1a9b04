package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"halite/storage"
	"halite/storage/jsoncell"
)

// Where the manifest is stored.
const (
	manifestRow       = "rollup"
	manifestQualifier = "manifest"
)

func manifestCell() jsoncell.Cell {
	return jsoncell.Cell{
		Row: manifestRow, Qualifier: manifestQualifier, Remedy: "stop the server and run tsdb rollup rebuild --reset",
	}
}

// Manifest records which days and months have valid states, and which pass is running.
//
// Locks: writers before mu. A writer of rows holds writers for reading from the marks until its rows are in the table. So an
// exclusive holder of writers sees all rows with earlier marks.
type Manifest struct {
	store storage.Store
	meta  storage.Table

	writers sync.RWMutex

	published atomic.Pointer[Record] // a copy of record for readers, which never wait for mu
	versions  *versions

	mu         sync.Mutex
	record     Record
	lateWrites map[int64]lateWrites // by day to compute
	postponed  map[int64]time.Time  // end of the time for which the job skips days with damaged rows
	dirtyDays  dirtyDays            // records of several processes
	shared     *sharedManifest      // nil if there is one process
	passDay    int64                // the day that the pass computes, −1 if there is no pass
	touched    map[string]struct{}  // series that were marked during the pass
	repeat     bool                 // the pass must be repeated for all series
}

// lateWrites are the times of the first and the last write to a closed day.
type lateWrites struct{ first, last time.Time }

// openManifest reads the manifest. found is false if there is none yet, or with reset.
func openManifest(
	ctx context.Context, store storage.Store, reset bool, v *versions, shared *Shared,
) (m *Manifest, found bool, err error) {
	m = &Manifest{
		store: store, passDay: -1, lateWrites: map[int64]lateWrites{}, postponed: map[int64]time.Time{},
		versions: v, record: Record{Closed: -1, ClosedMonth: -1},
	}
	if m.meta, err = store.EnsureTable(ctx, storage.MetaSchema()); err != nil {
		return nil, false, fmt.Errorf("open table %s: %w", storage.TableMeta, err)
	}
	if shared != nil {
		m.shared = newSharedManifest(m, shared)
		if reset {
			if err := m.shared.reset(ctx); err != nil {
				return nil, false, err
			}
		}
		return m, true, m.shared.refresher.Refresh(ctx)
	}
	row, err := m.read(ctx, reset)
	if err != nil {
		return nil, false, err
	}
	// Processes that shared the tables before may have recorded dirty days.
	m.record, m.dirtyDays = row.record.with(row.dirtyDays), row.dirtyDays
	m.publish()
	return m, row.found, nil
}

// manifestContent is the row of the manifest.
type manifestContent struct {
	record    Record
	found     bool // the row has a record
	dirtyDays dirtyDays
	token     []byte // fence token of the last change by one of several processes
}

// read reads the row. With reset it ignores the record.
func (m *Manifest) read(ctx context.Context, reset bool) (row manifestContent, err error) {
	row = manifestContent{record: Record{Closed: -1, ClosedMonth: -1}, dirtyDays: dirtyDays{}}
	it := m.meta.ReadRows(ctx, storage.RowSet{Keys: [][]byte{[]byte(manifestRow)}},
		storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	defer it.Close()
	for it.Next() {
		for _, c := range it.Row().Cells {
			if !bytes.Equal(c.Qualifier, []byte(manifestQualifier)) {
				row.addCell(&c)
				continue
			}
			if reset {
				continue
			}
			row.found = true
			if err := manifestCell().Decode(c.Value, &row.record); err != nil {
				return row, fmt.Errorf("rollup manifest: %w", err)
			}
			if err := row.record.check(); err != nil {
				return row, fmt.Errorf("rollup manifest: %w", manifestCell().Corrupt(err))
			}
		}
	}
	if row.record.Days == nil {
		row.record.Days = map[int64]Work{}
	}
	if row.record.Months == nil {
		row.record.Months = map[int64]bool{}
	}
	if err := it.Err(); err != nil {
		return row, fmt.Errorf("read rollup manifest: %w", err)
	}
	return row, nil
}

// save stores the manifest. The caller holds mu.
func (m *Manifest) save(ctx context.Context) error {
	m.publish()
	entry, err := manifestCell().Entry(m.record)
	if err != nil {
		return fmt.Errorf("rollup manifest: %w", err)
	}
	mut := storage.RowMutation{Key: []byte(manifestRow), Entries: []storage.Entry{entry}}
	if m.shared != nil {
		return m.shared.save(ctx, mut)
	}
	mut.Entries = append(mut.Entries, m.dirtyDays.removals(math.MaxInt64-1)...) // the record has them
	if err = m.meta.Apply(ctx, []storage.RowMutation{mut}); err != nil {
		return fmt.Errorf("write rollup manifest: %w", err)
	}
	m.dirtyDays = nil
	return nil
}

// saveSynced saves the manifest and syncs the store. The caller holds mu.
func (m *Manifest) saveSynced(ctx context.Context) error {
	if err := m.save(ctx); err != nil {
		return err
	}
	if err := m.store.Sync(ctx); err != nil {
		return fmt.Errorf("sync rollup manifest: %w", err)
	}
	return nil
}

// publish shows readers the current record. The caller holds mu.
func (m *Manifest) publish() {
	if m.shared != nil {
		return // refreshes publish what is stored
	}
	r := m.record
	r.Days, r.Months = maps.Clone(r.Days), maps.Clone(r.Months)
	before := m.published.Load()
	if before == nil {
		m.published.Store(&r) // no reader has cached anything
		return
	}
	m.replacePublished(before, &r)
}

// replacePublished publishes a record and counts the difference as a change.
func (m *Manifest) replacePublished(before, after *Record) {
	days, months := difference(before, after)
	m.versions.count(days, months)
	m.published.Store(after)
	m.versions.count(days, months)
}

// View returns the record as readers see it. The caller must not change it.
func (m *Manifest) View() *Record { return m.published.Load() }
