package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/valueid"
)

// closedDays are the days and months that have segments.
type closedDays struct {
	mu     sync.RWMutex
	days   map[int64]*folded
	months map[presence.Partition]*folded
}

// folded is a period that has a segment.
type folded struct {
	of   presence.Partition
	gen  atomic.Uint32        // that the root names; 0 while it is unknown, for the root is damaged
	root atomic.Pointer[root] // nil until it is needed
	// removed says that the root has removals: the day's month holds more than the day.
	removed atomic.Bool
	// failed is why the root cannot be read, nil if it may be tried.
	failed atomic.Pointer[error]
	// broken is set when a month was found damaged: its days are read instead until it is folded anew.
	broken atomic.Bool
}

var (
	// errStale: a fold replaced the generation while it was being read; read the period again.
	errStale = errors.New("the period was folded meanwhile")
)

func (c *closedDays) get(day int64) *folded {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.days[day]
}

func (c *closedDays) month(p presence.Partition) *folded {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.months[p]
}

// period returns what is folded of a day or month, nil if nothing is.
func (c *closedDays) period(p presence.Partition) *folded {
	if p.IsMonth() {
		return c.month(p)
	}
	return c.get(int64(p))
}

// between returns the closed days in [from, to], ascending.
func (c *closedDays) between(from, to int64) []*folded {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var out []*folded
	for day, d := range c.days {
		if day >= from && day <= to {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *folded) int { return cmp.Compare(a.of, b.of) })
	return out
}

// monthDays are the closed days of a month that a query asks for, and the month's own segment if it has one.
type monthDays struct {
	month *folded
	of    presence.Partition
	days  []*folded
}

// byMonth returns the closed days in [from, to] by month, ascending.
func (c *closedDays) byMonth(from, to int64) []monthDays {
	var out []monthDays
	var next int64 // first day of the month behind out's last
	for _, d := range c.between(from, to) {
		if day := d.of.FirstDay(); len(out) == 0 || day >= next {
			m := presence.MonthOf(day)
			next = m.LastDay() + 1
			out = append(out, monthDays{month: c.month(m), of: m})
		}
		k := len(out) - 1
		out[k].days = append(out[k].days, d)
	}
	return out
}

// allMonths returns the months that have segments.
func (c *closedDays) allMonths() []*folded {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.months))
}

// install makes a period's new root visible to readers.
func (c *closedDays) install(p presence.Partition, r *root) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.found(p)
	f.root.Store(r)
	f.gen.Store(r.gen)
	f.removed.Store(r.removed != nil)
	f.broken.Store(false)
	f.failed.Store(nil)
}

// fail makes every use of the period fail until it has a new segment.
func (f *folded) fail(err error) { f.failed.Store(&err) }

// found returns a period's entry, making it if needed. The caller holds mu.
func (c *closedDays) found(p presence.Partition) *folded {
	f := &folded{of: p}
	if p.IsMonth() {
		if old := c.months[p]; old != nil {
			return old
		}
		c.months[p] = f
		return f
	}
	if old := c.days[int64(p)]; old != nil {
		return old
	}
	c.days[int64(p)] = f
	return f
}

func (c *closedDays) forget(p presence.Partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.IsMonth() {
		delete(c.months, p)
	} else {
		delete(c.days, int64(p))
	}
}

// root returns the period's directory, reading it if needed.
func (x *Index) root(ctx context.Context, f *folded) (*root, error) {
	if r := f.root.Load(); r != nil {
		return r, nil
	}
	if err := f.failed.Load(); err != nil {
		return nil, *err
	}
	r, err := x.readRoot(ctx, f.of)
	if err != nil {
		return nil, err
	}
	f.root.CompareAndSwap(nil, r) // a fold may have installed a newer one
	return f.root.Load(), nil
}

func (x *Index) readRoot(ctx context.Context, p presence.Partition) (*root, error) {
	key, qualifier := rootKey(p), []byte{qualRoot}
	value, err := readCell(ctx, x.series, p.CellMs(), key, qualifier)
	if err != nil {
		return nil, err
	}
	payload, format, err := envelope.OpenUpTo(envelope.FormatV3, value, key, qualifier)
	if err == nil {
		var r *root
		if r, err = parseRoot(payload, format, p.IsMonth()); err == nil {
			return r, nil
		}
	}
	return nil, envelope.Corrupt(storage.TableSeries, key, qualifier, err)
}

// rawCell is a copied cell.
type rawCell struct{ key, qualifier, value []byte }

// clonePadded copies a value with room behind it, so that columns of bits need not be copied once more.
func clonePadded(value []byte) []byte {
	return append(make([]byte, 0, len(value)+valueid.PadBytes), value...)
}

// readCells reads the cells of rows whose qualifiers lie in [start, end) and whose timestamp is atMs, copied. The
// timestamp lets an engine that places cells by time look in one place.
func readCells(ctx context.Context, t storage.Table, atMs int64, keys [][]byte, start, end []byte) ([]rawCell, error) {
	it := t.ReadRows(ctx, storage.RowSet{Keys: keys}, storage.ReadOptions{Filter: storage.Filter{
		QualifierStart: start, QualifierEnd: end, FromMs: atMs, ToMs: atMs + 1, VersionsMax: 1,
	}})
	defer func() { _ = it.Close() }() // Err has been asked
	var out []rawCell
	for it.Next() {
		row := it.Row()
		key := slices.Clone(row.Key)
		for _, c := range row.Cells {
			out = append(out, rawCell{key: key, qualifier: slices.Clone(c.Qualifier), value: clonePadded(c.Value)})
		}
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("index: read catalogue: %w", err)
	}
	return out, nil
}

// readCell reads one cell; nil if there is none.
func readCell(ctx context.Context, t storage.Table, atMs int64, key, qualifier []byte) ([]byte, error) {
	end := append(slices.Clone(qualifier), 0)
	cells, err := readCells(ctx, t, atMs, [][]byte{key}, qualifier, end)
	if err != nil || len(cells) == 0 {
		return nil, err
	}
	return cells[0].value, nil
}
