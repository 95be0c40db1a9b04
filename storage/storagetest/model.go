package storagetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"halite/storage"
)

// NewModel returns a store of plain maps under one lock, which the suite compares with engines. It is slow, keeps nothing
// after Close, and is simple enough to be obviously correct.
func NewModel(now func() time.Time) storage.Store {
	return &model{now: now, tables: map[string]*modelTable{}}
}

type model struct {
	mu     sync.Mutex
	now    func() time.Time
	tables map[string]*modelTable
	closed bool
}

type modelTable struct {
	m      *model
	schema storage.TableSchema
	rows   map[string]modelRow
	load   storage.Tablet
}

// modelRow maps a cell's address to its value.
type modelRow map[address][]byte

type address struct {
	family, qualifier string
	tsMs              int64
}

func (m *model) EnsureTable(_ context.Context, schema storage.TableSchema) (storage.Table, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := schema.Validate(); err != nil {
		return nil, err
	}
	if m.closed {
		return nil, storage.ErrUnavailable
	}
	schema.Families = slices.Clone(schema.Families)
	t, ok := m.tables[schema.Name]
	if !ok {
		if len(m.tables) == storage.TablesMax {
			return nil, fmt.Errorf("%w: too many tables", storage.ErrBadMutation)
		}
		t = &modelTable{m: m, schema: schema, rows: map[string]modelRow{}}
		m.tables[schema.Name] = t
		return t, nil
	}
	if t.schema.HourKeys != schema.HourKeys || len(t.schema.Families) != len(schema.Families) {
		return nil, storage.ErrSchemaMismatch
	}
	for _, f := range schema.Families {
		if old, ok := t.schema.Family(f.Name); !ok || old.Kind != f.Kind {
			return nil, storage.ErrSchemaMismatch
		}
	}
	t.schema = schema
	return t, nil
}

func (m *model) Table(_ context.Context, name string) (storage.Table, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, storage.ErrUnavailable
	}
	t, ok := m.tables[name]
	if !ok {
		return nil, storage.ErrNoTable
	}
	return t, nil
}

func (m *model) Tables(context.Context) ([]storage.TableSchema, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, storage.ErrUnavailable
	}
	var out []storage.TableSchema
	for _, name := range slices.Sorted(maps.Keys(m.tables)) {
		out = append(out, m.tables[name].schema)
	}
	return out, nil
}

func (m *model) Sync(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return storage.ErrUnavailable
	}
	return nil
}

// CollectGarbage removes exactly the cells that reads without a time range hide.
func (m *model) CollectGarbage(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.tables {
		for key, row := range t.rows {
			kept := modelRow{}
			for _, c := range t.visible(row, storage.Filter{}) {
				kept[address{c.Family, string(c.Qualifier), c.TsMs}] = c.Value
			}
			t.rows[key] = kept
		}
	}
	return nil
}

func (m *model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func (t *modelTable) Schema() storage.TableSchema {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	return t.schema
}

func (t *modelTable) Apply(_ context.Context, muts []storage.RowMutation) error {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if t.m.closed {
		return storage.ErrUnavailable
	}
	if err := storage.CheckApply(muts); err != nil {
		return err
	}
	var failed []storage.RowError
	for i := range muts {
		if err := storage.CheckMutation(&t.schema, &muts[i]); err != nil {
			failed = append(failed, storage.RowError{Index: i, Err: err})
			continue
		}
		t.apply(&muts[i])
	}
	if len(failed) > 0 {
		return &storage.ApplyError{Rows: failed}
	}
	return nil
}

func (t *modelTable) apply(m *storage.RowMutation) {
	row := t.rows[string(m.Key)]
	if row == nil {
		row = modelRow{}
		t.rows[string(m.Key)] = row
	}
	for i := range m.Entries {
		e := &m.Entries[i]
		at := address{e.Family, string(e.Qualifier), e.TsMs}
		switch e.Kind {
		case storage.SetCell:
			row[at] = bytes.Clone(e.Value)
			t.load.BytesWritten += uint64(len(e.Value))
		case storage.AddToCell:
			family, _ := t.schema.Family(e.Family)
			row[at] = mergeNumber(family.Kind, row[at], e.Add)
		case storage.DeleteCells:
			maps.DeleteFunc(row, func(a address, _ []byte) bool {
				return a.family == e.Family && a.qualifier == string(e.Qualifier) && a.tsMs >= e.FromMs &&
					(e.ToMs == 0 || a.tsMs < e.ToMs)
			})
		case storage.DeleteFamily:
			maps.DeleteFunc(row, func(a address, _ []byte) bool { return a.family == e.Family })
		case storage.DeleteRow:
			clear(row)
		}
	}
	t.load.RowsWritten++
}

func mergeNumber(kind storage.FamilyKind, old []byte, add int64) []byte {
	if old != nil {
		was := int64(binary.BigEndian.Uint64(old))
		switch kind {
		case storage.SumInt64:
			add += was
		case storage.MinInt64:
			add = min(add, was)
		case storage.MaxInt64:
			add = max(add, was)
		}
	}
	return binary.BigEndian.AppendUint64(nil, uint64(add))
}

func (t *modelTable) Load(_ context.Context, muts []storage.RowMutation) error {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if t.m.closed {
		return storage.ErrUnavailable
	}
	if err := storage.CheckLoad(&t.schema, muts); err != nil {
		return err
	}
	for i := range muts {
		t.apply(&muts[i])
	}
	return nil
}

func (t *modelTable) CheckAndApply(
	_ context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (bool, error) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if t.m.closed {
		return false, storage.ErrUnavailable
	}
	if err := storage.CheckKey(&t.schema, key); err != nil {
		return false, err
	}
	for _, m := range []*storage.RowMutation{&then, &otherwise} {
		if len(m.Entries) == 0 {
			continue
		}
		if len(m.Key) > 0 && !bytes.Equal(m.Key, key) {
			return false, storage.ErrBadMutation
		}
		m.Key = key
		if err := storage.CheckMutation(&t.schema, m); err != nil {
			return false, err
		}
	}
	matched := len(t.visible(t.rows[string(key)], cond)) > 0
	chosen := &otherwise
	if matched {
		chosen = &then
	}
	if len(chosen.Entries) > 0 {
		t.apply(chosen)
	}
	return matched, nil
}

func (t *modelTable) DropRows(_ context.Context, r storage.RowRange) error {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if t.m.closed {
		return storage.ErrUnavailable
	}
	maps.DeleteFunc(t.rows, func(key string, _ modelRow) bool { return inRange(r, key) })
	return nil
}

// DropCells is part of storage.SpanTable.
func (t *modelTable) DropCells(_ context.Context, span storage.CellSpan) error {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if t.m.closed {
		return storage.ErrUnavailable
	}
	if err := storage.CheckSpan(&t.schema, &span); err != nil {
		return err
	}
	for key, row := range t.rows {
		if !inSet(storage.RowSet{Ranges: span.Rows}, key) {
			continue
		}
		maps.DeleteFunc(row, func(a address, _ []byte) bool {
			day := a.tsMs / storage.DayMs
			return a.family == span.Family && day >= span.FromDay && day < span.ToDay
		})
	}
	return nil
}

// Reclaim is part of storage.SpanTable.
func (t *modelTable) Reclaim(context.Context, storage.CellSpan) error { return nil }

// SpanBytes is part of storage.SpanTable.
func (t *modelTable) SpanBytes(context.Context, storage.CellSpan) (int64, error) {
	return 0, errors.ErrUnsupported
}

// Days is part of storage.SpanTable.
func (t *modelTable) Days(context.Context, string) ([]int64, error) {
	return nil, errors.ErrUnsupported
}

func (t *modelTable) Tablets(context.Context) ([]storage.Tablet, error) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if t.m.closed {
		return nil, storage.ErrUnavailable
	}
	whole := t.load
	for key, row := range t.rows {
		whole.SizeBytes += uint64(len(key))
		for _, v := range row {
			whole.SizeBytes += uint64(len(v))
		}
	}
	return []storage.Tablet{whole}, nil
}

func inRange(r storage.RowRange, key string) bool {
	return key >= string(r.Start) && (len(r.End) == 0 || key < string(r.End))
}

func inSet(set storage.RowSet, key string) bool {
	return slices.ContainsFunc(set.Keys, func(k []byte) bool { return string(k) == key }) ||
		slices.ContainsFunc(set.Ranges, func(r storage.RowRange) bool { return inRange(r, key) })
}

func (t *modelTable) ReadRows(ctx context.Context, set storage.RowSet, opts storage.ReadOptions) storage.RowIter {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	it := &modelIter{ctx: ctx, at: -1}
	if it.err = cmp.Or(opts.Validate(), ctx.Err()); it.err != nil {
		return it
	}
	if t.m.closed {
		it.err = storage.ErrUnavailable
		return it
	}
	keys := slices.Sorted(maps.Keys(t.rows))
	if opts.Reverse {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		if opts.RowsMax > 0 && len(it.rows) == opts.RowsMax {
			break
		}
		if !inSet(set, key) {
			continue
		}
		if cells := t.visible(t.rows[key], opts.Filter); len(cells) > 0 {
			it.rows = append(it.rows, storage.Row{Key: []byte(key), Cells: cells})
			t.load.RowsRead++
		}
	}
	return it
}

// visible returns the cells of a row that pass the filter and that no rule collects, in order.
func (t *modelTable) visible(row modelRow, f storage.Filter) []storage.Cell {
	now := t.m.now()
	var cells []storage.Cell
	for a, v := range row {
		if a.tsMs >= f.FromMs && (f.ToMs == 0 || a.tsMs < f.ToMs) {
			cells = append(cells, storage.Cell{Family: a.family, Qualifier: []byte(a.qualifier), TsMs: a.tsMs,
				Value: bytes.Clone(v)})
		}
	}
	slices.SortFunc(cells, func(a, b storage.Cell) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), bytes.Compare(a.Qualifier, b.Qualifier), cmp.Compare(b.TsMs, a.TsMs))
	})
	var out []storage.Cell
	newer, passed := 0, 0
	for i, c := range cells {
		if i > 0 && c.Family == cells[i-1].Family && bytes.Equal(c.Qualifier, cells[i-1].Qualifier) {
			newer++
		} else {
			newer, passed = 0, 0
		}
		family, _ := t.schema.Family(c.Family)
		if family.GC.Garbage(c.TsMs, family.GC.CutoffMs(now), newer) || !passes(f, c) {
			continue
		}
		passed++
		if f.VersionsMax > 0 && passed > f.VersionsMax {
			continue
		}
		if f.KeysOnly {
			c.Value = nil
		}
		out = append(out, c)
	}
	return out
}

func passes(f storage.Filter, c storage.Cell) bool {
	return (len(f.Families) == 0 || slices.Contains(f.Families, c.Family)) &&
		bytes.Compare(c.Qualifier, f.QualifierStart) >= 0 &&
		(len(f.QualifierEnd) == 0 || bytes.Compare(c.Qualifier, f.QualifierEnd) < 0)
}

// modelIter returns copies of the rows at its creation.
type modelIter struct {
	ctx  context.Context
	rows []storage.Row
	at   int
	err  error
}

func (it *modelIter) Next() bool {
	if it.err == nil {
		it.err = it.ctx.Err()
	}
	if it.err != nil || it.at+1 >= len(it.rows) {
		it.at = len(it.rows)
		return false
	}
	it.at++
	return true
}

func (it *modelIter) Row() storage.Row {
	if it.at < 0 || it.at >= len(it.rows) {
		return storage.Row{}
	}
	return it.rows[it.at]
}

func (it *modelIter) Err() error   { return it.err }
func (it *modelIter) Close() error { return nil }
