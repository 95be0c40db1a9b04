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
	pass       runningPass
}

// runningPass is the pass over a day that runs now.
type runningPass struct {
	day     int64               // −1 if no pass runs
	touched map[string]struct{} // series that were marked during the pass
	repeat  bool                // the pass must be repeated for all series
}

func noPass() runningPass { return runningPass{day: -1} }

func passOver(day int64) runningPass { return runningPass{day: day, touched: map[string]struct{}{}} }

// lateWrites are the times of the first and the last write to a closed day.
type lateWrites struct{ first, last time.Time }

// openManifest reads the manifest. found is false if there is none yet, or with reset.
func openManifest(
	ctx context.Context, store storage.Store, reset bool, v *versions, shared *Shared,
) (m *Manifest, found bool, err error) {
	m = &Manifest{
		store: store, pass: noPass(), lateWrites: map[int64]lateWrites{}, postponed: map[int64]time.Time{},
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
	read := m.read
	if reset {
		read = m.readWithoutRecord
	}
	row, err := read(ctx)
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

// read reads the row.
func (m *Manifest) read(ctx context.Context) (row manifestContent, err error) {
	row, record, err := m.readRow(ctx)
	if err != nil || !row.found {
		return row, err
	}
	return row, row.record.parse(record)
}

// readWithoutRecord reads the row without its record, which may be damaged.
func (m *Manifest) readWithoutRecord(ctx context.Context) (manifestContent, error) {
	row, _, err := m.readRow(ctx)
	row.found = false
	return row, err
}

// readRow reads the row. It does not parse the record.
func (m *Manifest) readRow(ctx context.Context) (row manifestContent, record []byte, err error) {
	row = manifestContent{dirtyDays: dirtyDays{}, record: Record{
		Closed: -1, ClosedMonth: -1, Days: map[int64]Work{}, Months: map[int64]bool{},
	}}
	it := m.meta.ReadRows(ctx, storage.RowSet{Keys: [][]byte{[]byte(manifestRow)}},
		storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	defer it.Close()
	for it.Next() {
		for _, c := range it.Row().Cells {
			if string(c.Qualifier) == manifestQualifier {
				row.found, record = true, bytes.Clone(c.Value)
			} else {
				row.addCell(&c)
			}
		}
	}
	if err := it.Err(); err != nil {
		return row, nil, fmt.Errorf("read rollup manifest: %w", err)
	}
	return row, record, nil
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
