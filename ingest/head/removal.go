package head

import "slices"

// Removal removes the encodings of many series from a registry in small steps, so that writers wait only briefly.
// Registry.StartRemoval starts it. The caller calls Scan until it is done, then Remove any number of times, then Close. Only
// one Removal may run at a time.
type Removal struct {
	g             *Registry
	wanted        []uint64            // bitmap of refs
	next          uint32              // the next entry to scan
	found         []uint64            // entries found by Scan: ref << 32 | number
	sorted        bool                // found is sorted
	insertedLater map[uint32][]uint32 // numbers of entries inserted after StartRemoval, by ref
}

// StartRemoval starts the removal of encodings of refs, which ascend. The caller serializes StartRemoval, Scan and Close with
// Insert.
func (g *Registry) StartRemoval(refs []uint32) *Removal {
	r := &Removal{g: g, next: 1, insertedLater: map[uint32][]uint32{}}
	if len(refs) > 0 {
		r.wanted = make([]uint64, refs[len(refs)-1]/64+1)
	}
	for _, ref := range refs {
		r.wanted[ref/64] |= 1 << (ref % 64)
	}
	g.removal = r
	return r
}

func (r *Removal) wants(ref uint32) bool {
	return int(ref/64) < len(r.wanted) && r.wanted[ref/64]>>(ref%64)&1 != 0
}

// Scan searches a few thousand entries for encodings of the refs. It reports whether there are more entries.
func (r *Removal) Scan() (more bool) {
	end := min(r.next+entryChunkSize, r.g.count.Load())
	for ; r.next < end; r.next++ {
		if ref := r.g.entry(r.next).ref.Load(); ref != 0 && r.wants(ref) {
			r.found = append(r.found, uint64(ref)<<32|uint64(r.next))
		}
	}
	return r.next < r.g.count.Load()
}

// inserted records an encoding that was inserted after StartRemoval.
func (r *Removal) inserted(ref, number uint32) {
	if r.wants(ref) {
		r.insertedLater[ref] = append(r.insertedLater[ref], number)
	}
}

// Remove removes all encodings of refs. StartRemoval must have got these refs. Neither Find nor Insert may run meanwhile.
func (r *Removal) Remove(refs []uint32) {
	if !r.sorted {
		slices.Sort(r.found)
		r.sorted = true
	}
	for _, ref := range refs {
		at, _ := slices.BinarySearch(r.found, uint64(ref)<<32)
		for ; at < len(r.found) && uint32(r.found[at]>>32) == ref; at++ {
			r.g.removeEntry(uint32(r.found[at]), ref)
		}
		for _, n := range r.insertedLater[ref] {
			r.g.removeEntry(n, ref)
		}
	}
}

// Close ends the removal and shrinks the table if most of it is free.
func (r *Removal) Close() {
	g := r.g
	g.removal = nil
	slots := len(g.table.Load().slots)
	if want := slotsFor(int(g.live.Load())); want*4 <= slots {
		g.table.Store(g.rebuild(want))
	}
}

// slotsFor returns the size of a table with room for growth.
func slotsFor(live int) int {
	slots := tableSlotsMin
	for live > slots/2 {
		slots *= 2
	}
	return slots
}

// removeEntry removes an entry if it still belongs to the ref.
func (g *Registry) removeEntry(n, ref uint32) {
	e := g.entry(n)
	if e.ref.Load() != ref {
		return
	}
	g.removeSlot(g.table.Load(), e.key(), n)
	e.clear()
	g.free = append(g.free, n)
	g.live.Add(-1)
}

// removeSlot frees an entry's slot and moves later entries into it, so that look-ups through the slot still find
// them.
func (g *Registry) removeSlot(t *table, k Key, n uint32) {
	hole := k.Hi & t.mask
	for t.number(t.slots[hole]) != n {
		if t.slots[hole] == 0 {
			return
		}
		hole = (hole + 1) & t.mask
	}
	for i := (hole + 1) & t.mask; t.slots[i] != 0; i = (i + 1) & t.mask {
		home := g.entry(t.number(t.slots[i])).key().Hi & t.mask
		if (i-home)&t.mask >= (i-hole)&t.mask {
			t.slots[hole] = t.slots[i]
			hole = i
		}
	}
	t.slots[hole] = 0
}
