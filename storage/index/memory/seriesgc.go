package memory

import (
	"slices"
	"sync/atomic"
)

// Idle returns the active series, ascending, that Retire would remove now if busy returned false for all.
func (c *Index) Idle(days *OpenDays, beforeHour int64) []Ref {
	var out []Ref
	idle := c.idle(days, beforeHour)
	var v View
	for _, t := range c.Tables() {
		v.Load(t)
		for row := range v.Rows {
			if ref := v.Ref(row); idle(ref) {
				out = append(out, ref)
			}
		}
	}
	slices.Sort(out)
	return out
}

// idle returns a function that reports whether a series is idle. An idle series was neither added nor active in the hour or
// later, and segments hold all its days.
func (c *Index) idle(days *OpenDays, beforeHour int64) func(ref Ref) bool {
	open := days.All()
	return func(ref Ref) bool {
		if ref == 0 || c.refs.touched(ref) >= beforeHour {
			return false
		}
		for _, d := range open {
			if d.Hours(ref) != 0 {
				return false
			}
		}
		return true
	}
}

// Retire removes the idle series among refs that are not busy, and returns them.
func (c *Index) Retire(days *OpenDays, refs []Ref, beforeHour int64, busy func(Ref) bool) []Ref {
	c.retireMu.Lock()
	defer c.retireMu.Unlock()
	idle := c.idle(days, beforeHour)
	gone := make([]Ref, 0, len(refs))
	for _, ref := range refs {
		if c.retireOne(ref, func() bool { return idle(ref) && (busy == nil || !busy(ref)) }) {
			gone = append(gone, ref)
		}
	}
	c.retired += int64(len(gone))
	return gone
}

// FreeRetired frees the memory of retired series. The caller holds the lock that serialises replacements of tables.
func (c *Index) FreeRetired() {
	c.retireMu.Lock()
	defer c.retireMu.Unlock()
	c.unpark()
	renew := c.retired*4 > c.series.Load()+c.retired && c.retired > 1024
	if renew {
		c.newDictionaries()
		c.retired = 0
	}
	for _, t := range c.Tables() {
		c.compactTable(t, renew)
	}
}

// unpark moves the parked slots to the free slots. No reader uses them any more.
func (c *Index) unpark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = append(c.free, c.parked...)
	c.parked = nil
}

// sliceRows bounds the rows that move while a table is locked. So an Add waits for well below a millisecond.
const sliceRows = 2048

// retireOne retires a series if gone returns true. It holds the table's lock, so no Add can find the series between gone and
// the retirement. The caller holds retireMu, so the table is not replaced.
func (c *Index) retireOne(ref Ref, gone func() bool) bool {
	slot, row, ok := c.refs.place(ref)
	if !ok {
		return false
	}
	t := c.slot(slot)
	t.mu.Lock()
	defer t.mu.Unlock()
	// Add sets the place of a ref before it appends the row.
	if row >= t.rows.Load() || !gone() {
		return false
	}
	atomic.StoreUint32(&(*t.refs.Load())[row], 0)
	t.dead.Add(1)
	c.refs.retire(ref)
	c.series.Add(-1)
	return true
}

// newDictionaries makes all later columns use new dictionaries, so that the values of retired series can be freed. The caller
// replaces tables one by one. Until the last replacement, old and new dictionaries are in use.
func (c *Index) newDictionaries() {
	c.dictMu.Lock()
	defer c.dictMu.Unlock()
	for _, d := range c.dicts {
		d.discount()
	}
	c.dicts = map[string]*Dictionary{}
}

// compactTable replaces a table by a copy without retired rows if a quarter of its rows are retired or its dictionaries are
// old. It removes an empty table. Series may be added to the table during the copy. An Add waits only for the copy of the
// last rows and the switch. The caller holds maint and retireMu, so no other goroutine moves or retires series.
func (c *Index) compactTable(t *Table, always bool) {
	t.mu.Lock()
	dead := t.dead.Load()
	due := !t.replaced && (always || dead > 0 && dead*4 >= t.rows.Load())
	t.mu.Unlock()
	if !due {
		return
	}
	c.mu.Lock()
	small := newTable(t.Metric, c.allocateSlot())
	c.mu.Unlock()
	k := tableCopy{c: c, to: small, translate: always}
	var v View
	for v.Load(t); v.Rows-k.done > sliceRows; v.Load(t) {
		k.rows(&v)
	}
	moved := c.replace(t, small, &k)

	// A ref that has not moved yet points to the old table, which does not change any more.
	refs := *small.refs.Load()
	for row := range moved {
		c.refs.move(Ref(atomic.LoadUint32(&refs[row])), small.slot, row)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	(*c.slots.Load())[t.slot].Store(nil)
	c.parked = append(c.parked, t.slot)
}

// replace copies the last rows and makes Add and readers use the copy. It returns the number of rows in the copy.
func (c *Index) replace(t, small *Table, k *tableCopy) (rows uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var v View
	v.Load(t)
	k.rows(&v)
	rows = small.rows.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	if rows > 0 {
		c.setTable(t.Metric, small)
		c.bytes.Add(small.account())
	} else {
		c.setTable(t.Metric, nil)
		c.free = append(c.free, small.slot)
	}
	t.replaced = true
	c.bytes.Add(-t.counted)
	return rows
}

// tableCopy appends the live rows of a table to an empty one, in steps.
type tableCopy struct {
	c         *Index
	to        *Table
	translate bool
	done      uint32     // rows of the source read so far
	target    []int      // for each column of the source, the column of the copy; −1 if no live row has had the label
	remap     [][]uint32 // ids in each column's new dictionary, with translate
	ids       []uint32
}

// rows copies the rows of the view that were not copied before.
func (k *tableCopy) rows(v *View) {
	for len(k.target) < len(v.Columns) {
		k.target, k.remap = append(k.target, -1), append(k.remap, nil)
	}
	for ; k.done < v.Rows; k.done++ {
		ref := v.Ref(k.done)
		if ref == 0 {
			continue
		}
		clear(k.ids)
		for i, col := range v.Columns {
			if id := v.Data[i].At(k.done); id != 0 {
				k.set(i, col.Dict, id)
			}
		}
		k.to.appendRow(k.ids, rowHash(*k.to.columns.Load(), k.ids), ref)
	}
}

// set puts the value of the source's i-th column into ids.
func (k *tableCopy) set(i int, d *Dictionary, id uint32) {
	if k.target[i] < 0 {
		k.target[i] = k.to.adopt(k.c, d, k.translate)
		k.ids = append(k.ids, 0)
	}
	if k.translate {
		if int(id) >= len(k.remap[i]) {
			grown := make([]uint32, max(int(id), int(d.Len()))+1)
			copy(grown, k.remap[i])
			k.remap[i] = grown
		}
		if k.remap[i][id] == 0 {
			k.remap[i][id] = (*k.to.columns.Load())[k.target[i]].Dict.Intern(d.Value(id))
		}
		id = k.remap[i][id]
	}
	k.ids[k.target[i]] = id
}

// adopt makes a column for a dictionary, or for the current one of the same name.
func (t *Table) adopt(c *Index, d *Dictionary, translate bool) int {
	if translate {
		d = c.Dict(d.Name)
	}
	t.addColumn(newColumn(d))
	return len(*t.columns.Load()) - 1
}
