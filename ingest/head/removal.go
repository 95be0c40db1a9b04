package head

import "slices"

// Removal takes the encodings of many series out of a registry, some at a time, so that nobody waits for long. Make one
// with Registry.Remove, call Scan until it is done, then Forget as often as there is something to forget, then Close.
// There may be one at a time.
type Removal struct {
	g       *Registry
	wanted  []uint64 // bitmap of refs
	next    uint32   // entry to be scanned next
	entries []uint64 // ref << 32 | number of an entry
	sorted  bool     // entries are; Scan is done
	late    map[uint32][]uint32
}

// Remove starts a removal of encodings of some of the refs, ascending. Remove, Scan and Close calls must be serialised
// with Insert.
func (g *Registry) Remove(refs []uint32) *Removal {
	r := &Removal{g: g, next: 1, late: map[uint32][]uint32{}}
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

// Scan looks for the refs' encodings among some thousand entries and reports whether there are more.
func (r *Removal) Scan() (more bool) {
	end := min(r.next+entryChunkSize, r.g.count.Load())
	for ; r.next < end; r.next++ {
		if ref := r.g.entry(r.next).ref.Load(); ref != 0 && r.wants(ref) {
			r.entries = append(r.entries, uint64(ref)<<32|uint64(r.next))
		}
	}
	return r.next < r.g.count.Load()
}

// inserted takes note of an encoding that came after Remove.
func (r *Removal) inserted(ref, number uint32) {
	if r.wants(ref) {
		r.late[ref] = append(r.late[ref], number)
	}
}

// Forget takes out all encodings of refs, which must be among those of Remove. It must be alone: neither Find nor
// Insert may run beside it.
func (r *Removal) Forget(refs []uint32) {
	if !r.sorted {
		slices.Sort(r.entries)
		r.sorted = true
	}
	for _, ref := range refs {
		at, _ := slices.BinarySearch(r.entries, uint64(ref)<<32)
		for ; at < len(r.entries) && uint32(r.entries[at]>>32) == ref; at++ {
			r.g.forget(uint32(r.entries[at]), ref)
		}
		for _, n := range r.late[ref] {
			r.g.forget(n, ref)
		}
	}
}

// Close ends the removal and gives memory back that the registry no longer needs.
func (r *Removal) Close() {
	g := r.g
	g.removal = nil
	slots := len(g.table.Load().slots)
	if want := slotsFor(int(g.live.Load())); want*4 <= slots {
		g.table.Store(g.rebuilt(want))
	}
}

// slotsFor is the size of a table that leaves room to grow.
func slotsFor(live int) int {
	slots := tableSlotsMin
	for live > slots/2 {
		slots *= 2
	}
	return slots
}

// forget takes out an entry if it is still one of the ref.
func (g *Registry) forget(n, ref uint32) {
	e := g.entry(n)
	if e.ref.Load() != ref {
		return
	}
	g.unslot(g.table.Load(), e.key(), n)
	e.clear()
	g.free = append(g.free, n)
	g.live.Add(-1)
}

// unslot frees an entry's slot and moves those behind it up, so that look-ups that passed it still find what they look
// for.
func (g *Registry) unslot(t *table, k Key, n uint32) {
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
