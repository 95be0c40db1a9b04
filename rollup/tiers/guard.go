package tiers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"halite/keyschema"
	"halite/rollup/cell"
	"halite/storage"
)

// Guard returns the store through which the data table is to be written: before rows of closed days change, their states
// are marked as stale. Everything else goes straight to store.
func (t *Tiers) Guard(store storage.Store) storage.Store { return &guardedStore{store, t} }

type guardedStore struct {
	storage.Store
	tiers *Tiers
}

// EnsureTable is part of storage.Store.
func (s *guardedStore) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	table, err := s.Store.EnsureTable(ctx, schema)
	return s.guard(table, err)
}

// Table is part of storage.Store.
func (s *guardedStore) Table(ctx context.Context, name string) (storage.Table, error) {
	table, err := s.Store.Table(ctx, name)
	return s.guard(table, err)
}

func (s *guardedStore) guard(table storage.Table, err error) (storage.Table, error) {
	if err != nil || table.Schema().Name != storage.TableData {
		return table, err
	}
	return &guardedTable{table, s.tiers}, nil
}

// guardedTable is the data table; reads go straight through.
type guardedTable struct {
	storage.Table
	tiers *Tiers
}

// Apply is part of storage.Table.
func (g *guardedTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	reached := false
	err := g.tiers.announced(ctx, keysOf(muts), func(ctx context.Context) error {
		reached = true
		return g.Table.Apply(ctx, muts)
	})
	if err != nil && !reached {
		return noneApplied(len(muts), err)
	}
	return err
}

// noneApplied says that no row was written because marks of states were not. Those may have failed in part: their error names
// rows of another table, and must not be taken for one about these.
func noneApplied(rows int, err error) error {
	failed := &storage.ApplyError{Rows: make([]storage.RowError, rows)}
	for i := range failed.Rows {
		failed.Rows[i] = storage.RowError{Index: i, Err: err}
	}
	return failed
}

// Load is part of storage.Table.
func (g *guardedTable) Load(ctx context.Context, muts []storage.RowMutation) error {
	return g.tiers.announced(ctx, keysOf(muts), func(ctx context.Context) error { return g.Table.Load(ctx, muts) })
}

// CheckAndApply is part of storage.Table.
func (g *guardedTable) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (matched bool, err error) {
	changed := func(yield func([]byte, bool) bool) { yield(key, removes(&then) || removes(&otherwise)) }
	err = g.tiers.announced(ctx, changed, func(ctx context.Context) (err error) {
		matched, err = g.Table.CheckAndApply(ctx, key, cond, then, otherwise)
		return err
	})
	return matched, err
}

// DropRows is part of storage.Table.
func (g *guardedTable) DropRows(ctx context.Context, r storage.RowRange) error {
	return g.tiers.dropping(ctx, r, func() error { return g.Table.DropRows(ctx, r) })
}

// rowKeys are keys of rows that are about to change, and whether it may be that nothing is left of the row.
type rowKeys = iter.Seq2[[]byte, bool]

func keysOf(muts []storage.RowMutation) rowKeys {
	return func(yield func([]byte, bool) bool) {
		for i := range muts {
			if !yield(muts[i].Key, removes(&muts[i])) {
				return
			}
		}
	}
}

// removes tells whether nothing may be left of a row after a mutation: it does not end with what it sets.
func removes(m *storage.RowMutation) bool {
	n := len(m.Entries)
	return n > 0 && m.Entries[n-1].Kind != storage.SetCell
}

// staleHours are hours of one series and day, as a bitmap.
type staleHours struct {
	prefix []byte
	day    int64
	hours  uint32
	gone   uint32 // of these, those of which there may be no rows afterwards
}

// announced marks the states of closed days' rows as stale, then writes them.
func (t *Tiers) announced(ctx context.Context, keys rowKeys, write func(ctx context.Context) error) error {
	if t.opts.Shared != nil {
		return t.announcedShared(ctx, keys, write)
	}
	l := t.ledger
	l.gate.RLock()
	defer l.gate.RUnlock()
	// Closed only changes while nobody holds the gate.
	stale := staleOf(keys, l.record.Closed)
	if len(stale) > 0 {
		if err := t.mark(ctx, stale); err != nil {
			return fmt.Errorf("mark states as stale: %w", err)
		}
	}
	return write(ctx)
}

// staleOf are the hours of rows in days up to the last closed one.
func staleOf(keys rowKeys, closed int64) (stale []staleHours) {
	for key, gone := range keys {
		prefix, hour, ok := parseDataKey(key)
		if !ok || hour < 0 || hour/keyschema.DayHours > closed {
			continue // the table refuses what is no key
		}
		day, bit := hour/keyschema.DayHours, uint32(1)<<(hour%keyschema.DayHours)
		if n := len(stale); n == 0 || stale[n-1].day != day || !bytes.Equal(stale[n-1].prefix, prefix) {
			stale = append(stale, staleHours{prefix: prefix, day: day})
		}
		s := &stale[len(stale)-1]
		if s.hours |= bit; gone {
			s.gone |= bit
		}
	}
	return stale
}

// mark makes sure that no reader takes these states for valid. The caller holds the gate shared.
func (t *Tiers) mark(ctx context.Context, stale []staleHours) error {
	l, now := t.ledger, t.opts.Now()
	counts := map[int64]int{}
	for i := range stale {
		counts[stale[i].day]++
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := false
	for day, n := range counts {
		if l.record.Days[day] == "" {
			// Nobody writes states of a day that is not in the ledger: what is there now stays all.
			has, err := t.hasStates(ctx, day)
			if err != nil {
				return err
			}
			if !has {
				n = math.MaxInt // marks would say nothing, in more bytes than samples take
			}
		}
		changed = l.note(day, n, t.opts.MarksMax, now) || changed
	}
	if changed {
		if err := l.save(ctx); err != nil {
			return err
		}
	}
	var muts []storage.RowMutation
	for i := range stale {
		s := &stale[i]
		passing := s.day == l.pass
		if l.record.Days[s.day] == workWhole && (!passing || l.again) && s.gone == 0 {
			continue // all of it will be computed
		}
		if passing {
			l.touched[string(s.prefix)] = struct{}{}
			if l.record.Days[s.day] == workWhole {
				// The pass will leave out the series, whose other hours may be stale without a mark.
				s.hours = allHours
			}
		}
		muts = append(muts, markMutation(s))
	}
	t.metrics.marks.Add(float64(len(muts)))
	return applyAll(ctx, t.table, muts)
}

// hasStates tells whether a day has cells of any kind.
func (t *Tiers) hasStates(ctx context.Context, day int64) (bool, error) {
	has, err := hasRow(ctx, t.table, storage.FamilyHours, day, day)
	if err != nil {
		return false, fmt.Errorf("look for states of day %d: %w", day, err)
	}
	return has, nil
}

// note takes up n announcements of a day and tells whether the ledger has changed. The caller holds mu.
func (l *ledger) note(day int64, n, most int, now time.Time) (changed bool) {
	c, ok := l.quiet[day]
	if !ok {
		c.first = now
	}
	c.last = now
	l.quiet[day] = c
	passing := day == l.pass
	if passing && n+len(l.touched) > most {
		l.again = true
	}
	former := l.record.Days[day]
	switch {
	case former == workWhole:
		return false
	case n > most || passing && l.again:
		l.record.Days[day] = workWhole
	default:
		l.record.Days[day] = workPart
	}
	return l.record.Days[day] != former
}

func markMutation(s *staleHours) storage.RowMutation {
	month := MonthOfDay(s.day)
	m := storage.RowMutation{Key: appendKey(nil, s.prefix, month)}
	for hour := range keyschema.DayHours {
		if s.hours>>hour&1 == 0 {
			continue
		}
		mark := byte(markLive)
		if s.gone>>hour&1 != 0 {
			mark = markGone
		}
		m.Entries = append(m.Entries, storage.Entry{
			Kind: storage.SetCell, Family: storage.FamilyHours, TsMs: dayCellMs(s.day),
			Qualifier: markQualifier(dayOfMonth(s.day), hour), Value: []byte{mark},
		})
	}
	return m
}

// applyAll applies mutations in requests of a permitted size.
func applyAll(ctx context.Context, table storage.Table, muts []storage.RowMutation) error {
	const rowsMax = storage.EntriesMax / (2*cell.BucketsMax + 2) // cells of a row that are changed at once
	for len(muts) > 0 {
		n := min(len(muts), rowsMax)
		if err := table.Apply(ctx, muts[:n]); err != nil {
			return fmt.Errorf("write table %s: %w", storage.TableRollup, err)
		}
		muts = muts[n:]
	}
	return nil
}

// dropping marks all states of the range's rows as stale, then drops the rows.
func (t *Tiers) dropping(ctx context.Context, r storage.RowRange, drop func() error) error {
	l := t.ledger
	l.gate.RLock()
	defer l.gate.RUnlock()
	var stale []staleHours
	// A series' rows lie at one place in both tables; of those at the edges some more are marked than need be.
	wide := storage.RowRange{Start: seriesOf(r.Start)}
	if len(r.End) > 0 {
		wide.End = append(seriesOf(r.End), ':') // behind all digits
	}
	it := t.table.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{wide}}, storage.ReadOptions{
		Filter: storage.Filter{Families: []string{storage.FamilyHours}, KeysOnly: true},
	})
	for it.Next() {
		prefix, month, ok := parseKey(it.Row().Key)
		if !ok {
			continue
		}
		for _, c := range it.Row().Cells {
			if len(c.Qualifier) == 2 && c.Qualifier[1] == kindStates {
				day := MonthStart(month) + int64(c.Qualifier[0]) - 1
				stale = append(stale, staleHours{bytes.Clone(prefix), day, allHours, allHours})
			}
		}
	}
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		return fmt.Errorf("find states of dropped rows: %w", err)
	}
	if len(stale) == 0 {
		return drop()
	}
	mark := t.mark
	if t.opts.Shared != nil {
		mark = t.announce
	}
	if err := mark(ctx, stale); err != nil {
		return fmt.Errorf("mark states as stale: %w", err)
	}
	return drop()
}

// seriesOf cuts a bound in the data table off behind the series' part, if it reaches that far.
func seriesOf(bound []byte) []byte {
	rest, n := bound, 0
	for range 3 {
		i := bytes.IndexByte(rest, '#')
		if i < 0 {
			return bytes.Clone(bound)
		}
		n += i + 1
		rest = rest[i+1:]
	}
	return bytes.Clone(bound[:n])
}
