package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"halite/keyschema"
	"halite/rollup/cell"
	"halite/storage"
)

// AllHours is the bitmap of a day with all its hours.
const AllHours = 1<<keyschema.DayHours - 1

// Invalidating returns the store through which all writes to the data table must go. Before rows of closed days change, it
// marks their states dirty. All other calls go directly to tables.
func (s *Store) Invalidating(tables storage.Store) storage.Store {
	return storage.WrapData(tables, func(t storage.Table) storage.Table { return &invalidatingTable{t, s} })
}

// invalidatingTable is the data table. Reads go directly to the table below.
type invalidatingTable struct {
	storage.Table
	states *Store
}

// Apply implements storage.Table.
func (t *invalidatingTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	reached := false
	err := t.states.invalidate(ctx, keysOf(muts), func(ctx context.Context) error {
		reached = true
		return t.Table.Apply(ctx, muts)
	})
	if err != nil && !reached {
		return nothingApplied(len(muts), err)
	}
	return err
}

// nothingApplied reports all rows as failed: the store writes no row if it cannot mark the states dirty. err may name rows of
// the table of states, so it becomes the error of each row.
func nothingApplied(rows int, err error) error {
	failed := &storage.ApplyError{Rows: make([]storage.RowError, rows)}
	for i := range failed.Rows {
		failed.Rows[i] = storage.RowError{Index: i, Err: err}
	}
	return failed
}

// Load implements storage.Table.
func (t *invalidatingTable) Load(ctx context.Context, muts []storage.RowMutation) error {
	return t.states.invalidate(ctx, keysOf(muts), func(ctx context.Context) error { return t.Table.Load(ctx, muts) })
}

// CheckAndApply implements storage.Table.
func (t *invalidatingTable) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (matched bool, err error) {
	changed := func(yield func([]byte, bool) bool) { yield(key, mayRemove(&then) || mayRemove(&otherwise)) }
	err = t.states.invalidate(ctx, changed, func(ctx context.Context) (err error) {
		matched, err = t.Table.CheckAndApply(ctx, key, cond, then, otherwise)
		return err
	})
	return matched, err
}

// DropRows implements storage.Table.
func (t *invalidatingTable) DropRows(ctx context.Context, r storage.RowRange) error {
	return t.states.invalidateRange(ctx, r, func() error { return t.Table.DropRows(ctx, r) })
}

// rowKeys yields the keys of rows that will change, and whether the row may lose all cells.
type rowKeys = iter.Seq2[[]byte, bool]

func keysOf(muts []storage.RowMutation) rowKeys {
	return func(yield func([]byte, bool) bool) {
		for i := range muts {
			if !yield(muts[i].Key, mayRemove(&muts[i])) {
				return
			}
		}
	}
}

// mayRemove reports whether a mutation may remove the whole row: its last entry sets no cell.
func mayRemove(m *storage.RowMutation) bool {
	n := len(m.Entries)
	return n > 0 && m.Entries[n-1].Kind != storage.SetCell
}

// dirtyHours are hours of one series and day, as a bitmap.
type dirtyHours struct {
	prefix []byte
	day    int64
	hours  uint32
	gone   uint32 // dirty hours that may have no rows after the write
}

// invalidate marks the states of closed days' rows dirty, then writes the rows.
func (s *Store) invalidate(ctx context.Context, keys rowKeys, write func(ctx context.Context) error) error {
	if s.opts.Shared != nil {
		return s.invalidateShared(ctx, keys, write)
	}
	m := s.Manifest
	m.writers.RLock()
	defer m.writers.RUnlock()
	// Closed changes only while no writer holds the lock.
	if dirty := dirtyHoursOf(keys, m.record.Closed); len(dirty) > 0 {
		if err := s.markDirty(ctx, dirty); err != nil {
			return fmt.Errorf("mark rollup states as dirty: %w", err)
		}
	}
	return write(ctx)
}

// dirtyHoursOf returns the hours of rows in days up to the last closed one.
func dirtyHoursOf(keys rowKeys, closed int64) (dirty []dirtyHours) {
	for key, gone := range keys {
		prefix, hour, ok := keyschema.CutHour(key)
		if !ok || hour < 0 || hour/keyschema.DayHours > closed {
			continue // the table rejects keys that are not ours
		}
		day, bit := hour/keyschema.DayHours, uint32(1)<<(hour%keyschema.DayHours)
		if n := len(dirty); n == 0 || dirty[n-1].day != day || !bytes.Equal(dirty[n-1].prefix, prefix) {
			dirty = append(dirty, dirtyHours{prefix: prefix, day: day})
		}
		d := &dirty[len(dirty)-1]
		if d.hours |= bit; gone {
			d.gone |= bit
		}
	}
	return dirty
}

// markDirty prevents readers from using these states. The caller holds the manifest's writers lock.
func (s *Store) markDirty(ctx context.Context, dirty []dirtyHours) error {
	m, now := s.Manifest, s.opts.Now()
	counts := map[int64]int{}
	for i := range dirty {
		counts[dirty[i].day]++
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := false
	for day, n := range counts {
		if m.record.Days[day] == "" {
			// The job writes no states of a day without work, so the day gets no more states.
			has, err := s.hasStates(ctx, day)
			if err != nil {
				return err
			}
			if !has {
				n = math.MaxInt // marks of missing states would take more space than the samples
			}
		}
		changed = m.recordLateWrite(day, n, s.opts.MarksMax, now) || changed
	}
	if changed {
		if err := m.save(ctx); err != nil {
			return err
		}
	}
	var muts []storage.RowMutation
	for i := range dirty {
		d := &dirty[i]
		inPass := d.day == m.pass.day
		if m.record.Days[d.day] == WorkWhole && (!inPass || m.pass.repeat) && d.gone == 0 {
			continue // the job will compute all of the day
		}
		if inPass {
			m.pass.touched[string(d.prefix)] = struct{}{}
			if m.record.Days[d.day] == WorkWhole {
				// The pass omits the series, so its other hours may be outdated without a mark.
				d.hours = AllHours
			}
		}
		muts = append(muts, markMutation(d))
	}
	s.metrics.marks.Add(float64(len(muts)))
	return ApplyAll(ctx, s.Table, muts)
}

// hasStates reports whether a day has cells of any kind.
func (s *Store) hasStates(ctx context.Context, day int64) (bool, error) {
	has, err := hasCell(ctx, s.Table, storage.FamilyHours, day, day)
	if err != nil {
		return false, fmt.Errorf("look for states of %s: %w", DayText(day), err)
	}
	return has, nil
}

func markMutation(d *dirtyHours) storage.RowMutation {
	month := MonthOfDay(d.day)
	m := storage.RowMutation{Key: keyschema.AppendMonthKey(nil, d.prefix, month)}
	for hour := range keyschema.DayHours {
		if d.hours>>hour&1 == 0 {
			continue
		}
		mark := byte(MarkDirty)
		if d.gone>>hour&1 != 0 {
			mark = MarkGone
		}
		m.Entries = append(m.Entries, storage.Entry{
			Kind: storage.SetCell, Family: storage.FamilyHours, TsMs: DayCellMs(d.day),
			Qualifier: MarkQualifier(DayOfMonth(d.day), hour), Value: []byte{mark},
		})
	}
	return m
}

// ApplyAll applies mutations in requests of a permitted size.
func ApplyAll(ctx context.Context, table storage.Table, muts []storage.RowMutation) error {
	const rowsMax = storage.EntriesMax / (2*cell.BucketsMax + 2) // a row has at most that many changed cells
	for len(muts) > 0 {
		n := min(len(muts), rowsMax)
		if err := table.Apply(ctx, muts[:n]); err != nil {
			return fmt.Errorf("write table %s: %w", storage.TableRollup, err)
		}
		muts = muts[n:]
	}
	return nil
}

// invalidateRange marks all states of the range's rows dirty, then drops the rows.
func (s *Store) invalidateRange(ctx context.Context, r storage.RowRange, drop func() error) error {
	m := s.Manifest
	m.writers.RLock()
	defer m.writers.RUnlock()
	dirty, err := s.statesIn(ctx, r)
	if err != nil {
		return fmt.Errorf("find states of dropped rows: %w", err)
	}
	if len(dirty) == 0 {
		return drop()
	}
	mark := s.markDirty
	if s.opts.Shared != nil {
		mark = s.markDirtyShared
	}
	if err := mark(ctx, dirty); err != nil {
		return fmt.Errorf("mark rollup states as dirty: %w", err)
	}
	return drop()
}

// statesIn lists all states of the series in a range of the data table. A series has the same prefix in both tables. At
// the edges of the range it lists more states than necessary.
func (s *Store) statesIn(ctx context.Context, r storage.RowRange) (dirty []dirtyHours, err error) {
	wide := storage.RowRange{Start: seriesPart(r.Start)}
	if len(r.End) > 0 {
		wide.End = append(seriesPart(r.End), ':') // sorts after all digits
	}
	it := s.Table.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{wide}}, storage.ReadOptions{
		Filter: storage.Filter{Families: []string{storage.FamilyHours}, KeysOnly: true},
	})
	for it.Next() {
		prefix, month, ok := keyschema.CutMonth(it.Row().Key)
		if !ok {
			continue
		}
		for _, c := range it.Row().Cells {
			if IsStates(c.Qualifier) {
				day := MonthStart(month) + int64(c.Qualifier[0]) - 1
				dirty = append(dirty, dirtyHours{bytes.Clone(prefix), day, AllHours, AllHours})
			}
		}
	}
	return dirty, errors.Join(it.Err(), it.Close())
}

// seriesPart returns the series' part of a bound in the data table, or the bound if it is shorter.
func seriesPart(bound []byte) []byte {
	part, _ := keyschema.CutFields(bound, 3)
	return bytes.Clone(part)
}
