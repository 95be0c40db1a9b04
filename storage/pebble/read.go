package pebble

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/cursor"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/partition"
	"halite/storage/pebble/tablet"
)

const (
	// contextCheckRows is the number of rows between two checks of the context.
	contextCheckRows = 64
	// arenaBytesKept bounds the buffer of a row's bytes that is kept between rows.
	arenaBytesKept = 1 << 20
)

// rowIter is a running read. All its cursors see the same snapshot of the tree.
type rowIter struct {
	t       *Table
	ctx     context.Context
	opts    storage.ReadOptions
	rules   []familyRule // by family name, as in Table.families; a family outside the read has no rule
	cursors []cursor.Cursor
	heap    cursor.Heap

	row    storage.Row
	cells  []cell
	out    []storage.Cell
	arena  []byte
	place  []byte
	keyBuf []byte
	rows   int
	load   tablet.ReadMeter
	sweep  bool // return only cells that GC policies hide
	err    error
	done   bool
}

// familyRule says which cells of a family the read returns.
type familyRule struct {
	f           *partition.Family
	gc          storage.GCPolicy
	cutoffMs    int64
	hideOld     bool // age alone makes garbage
	countToHide bool // versions must be counted
}

// cell is a gathered cell. Its bytes are in the arena, which may move while the row grows.
type cell struct {
	rule           int
	tsMs           int64
	qual, val, end int
}

// ReadRows is part of storage.Table.
func (t *Table) ReadRows(ctx context.Context, set storage.RowSet, opts storage.ReadOptions) storage.RowIter {
	it := &rowIter{t: t, ctx: ctx, opts: opts}
	it.start(set)
	return it
}

// start begins the read. Err returns its errors.
func (it *rowIter) start(set storage.RowSet) {
	it.load.Set = it.t.tablets
	if it.err = cmp.Or(it.opts.Validate(), it.t.store.checkOpen(), it.ctx.Err()); it.err != nil {
		return
	}
	ranges := it.t.layout.SetRanges(&set)
	if len(ranges) == 0 {
		it.done = true
		return
	}
	it.err = fault.Wrap("open read", it.open(ranges))
}

// open takes a view of the tree and creates a cursor for each partition that can have cells of the read.
func (it *rowIter) open(ranges []cellkey.Range) error {
	base, err := it.t.store.swaps.NewView(it.t.store.db, it.mayNeed)
	if err != nil {
		return err
	}
	// Load the sets of days after taking the view, so that they include every day in the view.
	it.makeRules()
	it.makeCursors(ranges)
	if len(it.cursors) == 0 {
		it.done = true
		return base.Close()
	}
	it.cursors[0].Iter = base
	for i := 1; i < len(it.cursors); i++ {
		clone, err := base.Clone(pebble.CloneOptions{})
		if err != nil {
			return err
		}
		it.cursors[i].Iter = clone
	}
	it.heap = make(cursor.Heap, 0, len(it.cursors))
	for i := range it.cursors {
		c := &it.cursors[i]
		if err := c.Open(); err != nil {
			return err
		}
		if c.Valid {
			it.heap = append(it.heap, c)
		}
	}
	it.heap.Init()
	return nil
}

// makeCursors creates a cursor for each partition that can have cells of the read.
func (it *rowIter) makeCursors(ranges []cellkey.Range) {
	f := &it.opts.Filter
	var days []int32
	for i := range it.rules {
		rule := &it.rules[i]
		fromMs := f.FromMs
		if rule.hideOld {
			fromMs = max(fromMs, rule.cutoffMs)
		}
		list := rule.f.Days.Load()
		days = list.Within(days[:0], fromMs, f.ToMs)
		var picks [][]int32
		if it.t.layout.HourKeys && !rule.f.Mixed.Load() {
			picks = cellkey.PickByDay(ranges, days)
		}
		for d, day := range days {
			c := cursor.Cursor{Rule: i, Header: cellkey.NewHeader(it.t.id, rule.f.ID, day), Layout: it.t.layout,
				Reverse: it.opts.Reverse, Ranges: ranges}
			if picks != nil {
				if c.Picked = picks[d]; c.Picked == nil {
					continue
				}
			}
			if list.State(day).HasDayChunks.Load() {
				c.WithDayChunks(&it.t.store.cursors)
			}
			it.cursors = append(it.cursors, c)
		}
	}
}

// mayNeed reports whether the read may need cells of a partition.
func (it *rowIter) mayNeed(h cellkey.Header) bool {
	if binary.BigEndian.Uint16(h[:]) != it.t.id {
		return false
	}
	startMs := int64(h.Day()) * cellkey.DayMs
	if f := &it.opts.Filter; startMs+cellkey.DayMs <= f.FromMs || f.ToMs > 0 && startMs >= f.ToMs {
		return false
	}
	names := it.opts.Filter.Families
	return slices.ContainsFunc(it.t.families, func(f *partition.Family) bool {
		return f.ID == h[cellkey.TableIDBytes] && (len(names) == 0 || slices.Contains(names, f.Name))
	})
}

// makeRules selects the families of the filter and their current policies.
func (it *rowIter) makeRules() {
	now := it.t.store.opts.GCNow()
	gc := it.t.state.Load().gc
	for _, f := range it.t.families {
		names := it.opts.Filter.Families
		if len(names) > 0 && !slices.Contains(names, f.Name) {
			continue
		}
		p := gc[f.Name]
		rule := familyRule{f: f, gc: p, cutoffMs: p.CutoffMs(now), hideOld: ageAlone(p)}
		rule.countToHide = p.MaxVersions > 0 && f.Mixed.Load()
		if it.sweep {
			rule.hideOld, rule.countToHide = false, true
		}
		it.rules = append(it.rules, rule)
	}
}

// Next is part of storage.RowIter.
func (it *rowIter) Next() bool {
	for it.err == nil && !it.done {
		if len(it.heap) == 0 || it.opts.RowsMax > 0 && it.rows == it.opts.RowsMax {
			it.done = true
			break
		}
		if err := it.gather(); err != nil {
			it.err = fault.Wrap("read row", err)
			break
		}
		if it.finishRow() {
			it.rows++
			if it.rows%contextCheckRows == 0 && it.ctx.Err() != nil {
				it.err = fmt.Errorf("read rows: %w", context.Cause(it.ctx))
				break
			}
			return true
		}
		if it.ctx.Err() != nil {
			it.err = fmt.Errorf("read rows: %w", context.Cause(it.ctx))
		}
	}
	it.row = storage.Row{}
	return false
}

// gather collects the next row: the cells that pass the filter, from every cursor at that row. It moves these cursors to
// their next row.
func (it *rowIter) gather() error {
	if cap(it.arena) > arenaBytesKept && len(it.arena) <= arenaBytesKept {
		it.arena = nil
	}
	it.cells, it.arena = it.cells[:0], it.arena[:0]
	top := it.heap[0]
	it.place = append(it.place[:0], top.Row...)
	for len(it.heap) > 0 {
		c := it.heap[0]
		if !bytes.Equal(c.Row, it.place) {
			break
		}
		first := len(it.cells)
		for c.Valid && bytes.Equal(c.Row, it.place) {
			if err := it.addCell(c); err != nil {
				return err
			}
			if err := c.Next(); err != nil {
				return err
			}
		}
		if it.opts.Reverse {
			slices.Reverse(it.cells[first:])
		}
		it.heap.Fix()
	}
	return nil
}

// addCell adds the cell under the cursor if it passes all filters other than the number of versions.
func (it *rowIter) addCell(c *cursor.Cursor) error {
	qualifier, tsMs, ok := c.Address()
	if !ok {
		return cellkey.Damaged(c.Key)
	}
	f := &it.opts.Filter
	r := &it.rules[c.Rule]
	if tsMs < f.FromMs || f.ToMs > 0 && tsMs >= f.ToMs || r.hideOld && tsMs < r.cutoffMs ||
		bytes.Compare(qualifier, f.QualifierStart) < 0 ||
		len(f.QualifierEnd) > 0 && bytes.Compare(qualifier, f.QualifierEnd) >= 0 {
		return nil
	}
	got := cell{rule: c.Rule, tsMs: tsMs, qual: len(it.arena)}
	it.arena = append(it.arena, qualifier...)
	got.val = len(it.arena)
	if !f.KeysOnly {
		var err error
		if it.arena, err = c.AppendValue(it.arena, r.f.Kind); err != nil {
			return err
		}
	}
	got.end = len(it.arena)
	it.cells = append(it.cells, got)
	return nil
}

// finishRow sorts the gathered cells, hides versions and builds the row. It returns false if no cell remains.
func (it *rowIter) finishRow() bool {
	if len(it.cells) == 0 {
		return false
	}
	if len(it.cells) > 1 && len(it.cursors) > 1 {
		it.sortCells()
	}
	it.out = it.out[:0]
	newer := 0
	for i := range it.cells {
		c := &it.cells[i]
		qualifier := it.arena[c.qual:c.val:c.val]
		if i > 0 && c.rule == it.cells[i-1].rule && bytes.Equal(qualifier, it.qualifier(i-1)) {
			newer++
		} else {
			newer = 0
		}
		r := &it.rules[c.rule]
		if r.countToHide && r.gc.Garbage(c.tsMs, r.cutoffMs, newer) != it.sweep {
			continue
		}
		if most := it.opts.Filter.VersionsMax; most > 0 && newer >= most {
			continue
		}
		it.out = append(it.out, storage.Cell{Family: r.f.Name, Qualifier: qualifier, TsMs: c.tsMs,
			Value: it.arena[c.val:c.end:c.end]})
	}
	if len(it.out) == 0 {
		return false
	}
	it.keyBuf = it.t.layout.AppendEncodedRow(it.keyBuf[:0], it.place)
	it.row = storage.Row{Key: it.keyBuf, Cells: it.out}
	if !it.sweep {
		it.load.Read(it.keyBuf, len(it.arena))
	}
	return true
}

func (it *rowIter) qualifier(i int) []byte { return it.arena[it.cells[i].qual:it.cells[i].val] }

func (it *rowIter) sortCells() {
	slices.SortFunc(it.cells, func(a, b cell) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule),
			bytes.Compare(it.arena[a.qual:a.val], it.arena[b.qual:b.val]), cmp.Compare(b.tsMs, a.tsMs))
	})
}

// Row is part of storage.RowIter.
func (it *rowIter) Row() storage.Row { return it.row }

// Err is part of storage.RowIter.
func (it *rowIter) Err() error { return it.err }

// Close is part of storage.RowIter.
func (it *rowIter) Close() error {
	var err error
	for i := range it.cursors {
		err = cmp.Or(err, it.cursors[i].Close())
	}
	it.load.Flush()
	it.cursors, it.heap, it.done = nil, nil, true
	if it.err != nil {
		return nil // Err has returned it.err
	}
	return fault.Wrap("close read", err)
}
