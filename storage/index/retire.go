package index

import (
	"sync/atomic"
)

// Retire forgets active series that were neither added nor touched in idleBeforeHour or later, whose touched days are
// all folded, and for which busy reports false; it returns them. The caller drops its own state for them and must not
// use these refs any more: from the moment busy has said false it may not touch the ref. busy must not call the Index.
// Retired series stay in the catalogue of the days they were touched on; Maintain frees their memory. Retire does not
// wait for folds.
func (x *Index) Retire(idleBeforeHour int64, busy func(Ref) bool) []Ref {
	x.retireMu.Lock()
	defer x.retireMu.Unlock()
	open := x.open.all()
	idle := func(ref Ref) bool {
		if ref == 0 || x.cat.refs.touched(ref) >= idleBeforeHour {
			return false
		}
		for _, d := range open {
			if d.hours(ref) != 0 {
				return false
			}
		}
		return busy == nil || !busy(ref)
	}
	var gone []Ref
	for _, t := range x.cat.all() {
		gone = x.cat.retireFrom(t, gone, idle)
	}
	x.retired += int64(len(gone))
	x.metrics.retired.Add(float64(len(gone)))
	return gone
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
	for _, t := range x.cat.all() {
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

// retireFrom retires the rows of a table that gone accepts. It holds the table's lock, so that no Add can find a series
// between the question and its retirement.
func (c *catalogue) retireFrom(t *table, out []Ref, gone func(Ref) bool) []Ref {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.replaced {
		return out
	}
	refs := *t.refs.Load()
	for row := range t.rows.Load() {
		ref := Ref(atomic.LoadUint32(&refs[row]))
		if !gone(ref) {
			continue
		}
		atomic.StoreUint32(&refs[row], 0)
		t.dead++
		c.refs.retire(ref)
		c.series.Add(-1)
		out = append(out, ref)
	}
	return out
}

// newDictionaries makes all columns made from now on use dictionaries of their own, so that values of retired series
// can be let go of. Tables are moved over one by one; meanwhile both kinds are in use.
func (c *catalogue) newDictionaries() {
	c.dictMu.Lock()
	defer c.dictMu.Unlock()
	c.dicts = map[string]*dictionary{}
}

// compact replaces a table by a copy without its retired rows, if a quarter of them are or if its dictionaries have to
// go. An empty table disappears.
func (c *catalogue) compact(t *table, always bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.replaced || t.dead*4 < t.rows.Load() && !always {
		return
	}
	if t.dead == 0 && !always {
		return
	}
	c.mu.Lock()
	small := newTable(t.metric, c.takeSlot())
	c.mu.Unlock()
	small.mu.Lock()
	c.copyLive(small, t, always)
	small.mu.Unlock()

	c.mu.Lock()
	defer c.mu.Unlock()
	if small.rows.Load() > 0 {
		c.setSlot(small)
		c.tables[t.metric] = small
	} else {
		delete(c.tables, t.metric)
		c.free = append(c.free, small.slot)
	}
	refs := *small.refs.Load()
	for row := range small.rows.Load() {
		c.refs.move(Ref(refs[row]), small.slot, row)
	}
	t.replaced = true
	(*c.slots.Load())[t.slot].Store(nil)
	c.parked = append(c.parked, t.slot)
}

// copyLive appends the live rows of a table to an empty one.
func (c *catalogue) copyLive(to, from *table, translate bool) {
	columns, refs := *from.columns.Load(), *from.refs.Load()
	remap := make([][]uint32, len(columns))
	target := make([]int, len(columns)) // −1: no live row has had the label so far
	for i, col := range columns {
		target[i] = -1
		if translate {
			remap[i] = make([]uint32, col.dict.count.Load()+1)
		}
	}
	var ids []uint32
	for row := range from.rows.Load() {
		if refs[row] == 0 {
			continue
		}
		clear(ids)
		for i, col := range columns {
			id := col.data.Load().at(row)
			if id == 0 {
				continue
			}
			if target[i] < 0 {
				target[i] = to.adopt(c, col.dict, translate)
				ids = append(ids, 0)
			}
			if translate {
				if remap[i][id] == 0 {
					remap[i][id] = (*to.columns.Load())[target[i]].dict.intern(col.dict.value(id))
				}
				id = remap[i][id]
			}
			ids[target[i]] = id
		}
		to.appendRow(ids, rowHash(*to.columns.Load(), ids), Ref(refs[row]))
	}
}

// adopt makes a column for a dictionary, or for the current one of the same name.
func (t *table) adopt(c *catalogue, d *dictionary, translate bool) int {
	if translate {
		d = c.dict(d.name)
	}
	t.addColumn(newColumn(d))
	return len(*t.columns.Load()) - 1
}
