package index

import (
	"slices"
	"sync/atomic"
)

// Idle returns the active series that Retire would forget now if none is busy, ascending.
func (x *Index) Idle(idleBeforeHour int64) []Ref {
	var out []Ref
	idle := x.idle(idleBeforeHour)
	var v view
	for _, t := range x.cat.sorted() {
		v.look(t)
		for row := range v.rows {
			if ref := v.ref(row); idle(ref) {
				out = append(out, ref)
			}
		}
	}
	slices.Sort(out)
	return out
}

// idle tells of a ref whether it was neither added nor touched in the hour or later and its touched days are all folded.
func (x *Index) idle(beforeHour int64) func(ref Ref) bool {
	open := x.open.all()
	return func(ref Ref) bool {
		if ref == 0 || x.cat.refs.touched(ref) >= beforeHour {
			return false
		}
		for _, d := range open {
			if d.hours(ref) != 0 {
				return false
			}
		}
		return true
	}
}

// Retire forgets those of the active series refs that were neither added nor touched in idleBeforeHour or later, whose
// touched days are all folded, and for which busy reports false; it returns them. The caller drops its own state for
// them and must not use these refs any more: from the moment busy has said false it may not touch the ref. busy must
// not call the Index. Retired series stay in the catalogue of the days they were touched on; Maintain frees their memory.
// Retire takes some 100 ns a series and does not wait for folds; an Add beside it waits for a part of a millisecond at
// most.
func (x *Index) Retire(refs []Ref, idleBeforeHour int64, busy func(Ref) bool) []Ref {
	x.retireMu.Lock()
	defer x.retireMu.Unlock()
	idle := x.idle(idleBeforeHour)
	gone := make([]Ref, 0, len(refs))
	for _, ref := range refs {
		if x.cat.retire(ref, func() bool { return idle(ref) && (busy == nil || !busy(ref)) }) {
			gone = append(gone, ref)
		}
	}
	x.retired += int64(len(gone))
	x.metrics.retired.Add(float64(len(gone)))
	return gone
}

// Compact frees the memory of retired series, as Maintain does as well.
func (x *Index) Compact() {
	x.maint.Lock()
	defer x.maint.Unlock()
	x.compactActive()
}

// compactActive frees what retired series take. The caller holds maint: folds and persists rely on tables staying put.
func (x *Index) compactActive() {
	x.retireMu.Lock()
	defer x.retireMu.Unlock()
	x.cat.unpark()
	renew := x.retired*4 > x.cat.series.Load()+x.retired && x.retired > 1024
	if renew {
		x.cat.newDictionaries()
		x.retired = 0
	}
	for _, t := range x.cat.sorted() {
		x.cat.compact(t, renew)
	}
}

// unpark gives the slots freed by the last compaction free for reuse: no reader is that slow.
func (c *catalogue) unpark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = append(c.free, c.parked...)
	c.parked = nil
}

// sliceRows is the number of rows for which a table is locked at most while they are moved: what waits, waits for well
// below a millisecond.
const sliceRows = 2048

// retire retires a series if gone says so. It holds the table's lock, so that no Add can find the series between the
// question and its retirement. The caller holds retireMu: the table is not replaced.
func (c *catalogue) retire(ref Ref, gone func() bool) bool {
	slot, row, ok := c.refs.place(ref)
	if !ok {
		return false
	}
	t := c.slot(slot)
	t.mu.Lock()
	defer t.mu.Unlock()
	// Add places a ref before its row is there.
	if row >= t.rows.Load() || !gone() {
		return false
	}
	atomic.StoreUint32(&(*t.refs.Load())[row], 0)
	t.dead.Add(1)
	c.refs.retire(ref)
	c.series.Add(-1)
	return true
}

// newDictionaries makes all columns made from now on use dictionaries of their own, so that values of retired series
// can be let go of. Tables are moved over one by one; meanwhile both kinds are in use.
func (c *catalogue) newDictionaries() {
	c.dictMu.Lock()
	defer c.dictMu.Unlock()
	for _, d := range c.dicts {
		d.discount()
	}
	c.dicts = map[string]*dictionary{}
}

// compact replaces a table by a copy without its retired rows, if a quarter of them are or if its dictionaries have to
// go. An empty table disappears. The copy is made beside the table while series are added to it; only for the last few
// of these, and the switch, adding waits. The caller holds maint and retireMu: nothing else moves or retires series.
func (c *catalogue) compact(t *table, always bool) {
	t.mu.Lock()
	dead := t.dead.Load()
	due := !t.replaced && (always || dead > 0 && dead*4 >= t.rows.Load())
	t.mu.Unlock()
	if !due {
		return
	}
	c.mu.Lock()
	small := newTable(t.metric, c.takeSlot())
	c.mu.Unlock()
	k := tableCopy{c: c, to: small, translate: always}
	var v view
	for v.look(t); v.rows-k.done > sliceRows; v.look(t) {
		k.rows(&v)
	}
	moved := c.replace(t, small, &k)

	// Until all refs are moved, those that are not lead to the old table, which stays as it was.
	refs := *small.refs.Load()
	for row := range moved {
		c.refs.move(Ref(atomic.LoadUint32(&refs[row])), small.slot, row)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	(*c.slots.Load())[t.slot].Store(nil)
	c.parked = append(c.parked, t.slot)
}

// replace copies the rows that came last and makes Add and readers use the copy; it returns the number of its rows.
func (c *catalogue) replace(t, small *table, k *tableCopy) (rows uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var v view
	v.look(t)
	k.rows(&v)
	rows = small.rows.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	if rows > 0 {
		c.setTable(t.metric, small)
		c.sizeBytes.Add(small.account())
	} else {
		c.setTable(t.metric, nil)
		c.free = append(c.free, small.slot)
	}
	t.replaced = true
	c.sizeBytes.Add(-t.counted)
	return rows
}

// tableCopy appends the live rows of a table to an empty one, bit by bit.
type tableCopy struct {
	c         *catalogue
	to        *table
	translate bool
	done      uint32     // rows of the source that were looked at
	target    []int      // column of each of the source's, −1: no live row has had the label so far
	remap     [][]uint32 // ids of each column's new dictionary, with translate
	ids       []uint32
}

// rows copies the rows of the look that were not copied before.
func (k *tableCopy) rows(v *view) {
	for len(k.target) < len(v.columns) {
		k.target, k.remap = append(k.target, -1), append(k.remap, nil)
	}
	for ; k.done < v.rows; k.done++ {
		ref := v.ref(k.done)
		if ref == 0 {
			continue
		}
		clear(k.ids)
		for i, col := range v.columns {
			if id := v.data[i].at(k.done); id != 0 {
				k.set(i, col.dict, id)
			}
		}
		k.to.appendRow(k.ids, rowHash(*k.to.columns.Load(), k.ids), ref)
	}
}

// set puts the value of the source's i-th column into ids.
func (k *tableCopy) set(i int, d *dictionary, id uint32) {
	if k.target[i] < 0 {
		k.target[i] = k.to.adopt(k.c, d, k.translate)
		k.ids = append(k.ids, 0)
	}
	if k.translate {
		if int(id) >= len(k.remap[i]) {
			grown := make([]uint32, max(int(id), int(d.count.Load()))+1)
			copy(grown, k.remap[i])
			k.remap[i] = grown
		}
		if k.remap[i][id] == 0 {
			k.remap[i][id] = (*k.to.columns.Load())[k.target[i]].dict.intern(d.value(id))
		}
		id = k.remap[i][id]
	}
	k.ids[k.target[i]] = id
}

// adopt makes a column for a dictionary, or for the current one of the same name.
func (t *table) adopt(c *catalogue, d *dictionary, translate bool) int {
	if translate {
		d = c.dict(d.name)
	}
	t.addColumn(newColumn(d))
	return len(*t.columns.Load()) - 1
}
