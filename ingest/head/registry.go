package head

import (
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"github.com/zeebo/xxh3"
)

// Key is the 128-bit hash of the labels of a series as a sender encodes them.
type Key = xxh3.Uint128

const (
	entryChunkShift = 12
	entryChunkSize  = 1 << entryChunkShift
	tableSlotsMin   = 1 << 10
)

// entry is one encoding of one series' labels. A Cursor may guess the number of an entry while Insert fills the entry. So
// fill stores the fields one by one, and ref last.
type entry struct {
	hi, lo atomic.Uint64
	ref    atomic.Uint32 // 0 if the entry is free
	// next is the entry that followed this one in the last look-up. Senders repeat their order.
	next atomic.Uint32
}

func (e *entry) key() Key { return Key{Hi: e.hi.Load(), Lo: e.lo.Load()} }

func (e *entry) fill(k Key, ref uint32) {
	e.hi.Store(k.Hi)
	e.lo.Store(k.Lo)
	e.ref.Store(ref)
}

func (e *entry) clear() {
	e.fill(Key{}, 0)
	e.next.Store(0)
}

// table is a hash table with open addressing. A slot holds the number of an entry in its numberBits lowest bits, and bits of
// the key in the other bits. 0 is a free slot.
type table struct {
	mask       uint64
	numberBits int
	slots      []uint32
}

// Registry finds the ref of a series by a hash of its encoded labels. Several encodings may have one ref. Neither entries
// nor table contain pointers.
//
// Find and Cursor.Find take no lock and may run concurrently with one call of Insert. The caller serializes calls of Insert.
// A Removal removes encodings.
type Registry struct {
	seed   uint64
	chunks atomic.Pointer[[]*[entryChunkSize]entry]
	count  atomic.Uint32 // number of allocated entries, including the unused entry 0
	table  atomic.Pointer[table]
	free   []uint32 // numbers of removed entries
	live   atomic.Int64
	// removal is the running Removal, nil if there is none.
	removal *Removal
	// tags has a tag for each entry; nil if the registry keeps no tags.
	tags atomic.Pointer[[]*[entryChunkSize]atomic.Uint32]
}

// NewRegistry returns an empty registry with a random hash seed, so that no sender can prepare collisions.
func NewRegistry() *Registry {
	g := &Registry{seed: rand.Uint64()}
	g.chunks.Store(&[]*[entryChunkSize]entry{new([entryChunkSize]entry)})
	g.count.Store(1)
	g.table.Store(newTable(tableSlotsMin, 1))
	return g
}

// NewTaggedRegistry returns an empty registry that keeps a tag with each encoding.
func NewTaggedRegistry() *Registry {
	g := NewRegistry()
	g.tags.Store(&[]*[entryChunkSize]atomic.Uint32{new([entryChunkSize]atomic.Uint32)})
	return g
}

// newTable returns a table. Its numbers cover all existing entries, which may be reused, and one entry for each slot. A new
// number is allocated only if all entries are in use, and then the table is not full.
func newTable(slots int, entries uint32) *table {
	numberBits := max(bits.Len(uint(slots)), bits.Len32(entries))
	return &table{mask: uint64(slots - 1), numberBits: numberBits, slots: make([]uint32, slots)}
}

// slotOf returns the content of an entry's slot.
func (t *table) slotOf(k Key, n uint32) uint32 {
	return uint32(k.Lo>>32)>>t.numberBits<<t.numberBits | n
}

// number returns the number of the entry in a slot.
func (t *table) number(slot uint32) uint32 { return slot & (1<<t.numberBits - 1) }

// mayMatch reports whether a slot may belong to the key.
func (t *table) mayMatch(slot uint32, k Key) bool { return (slot^uint32(k.Lo>>32))>>t.numberBits == 0 }

// Hash returns the key of encoded labels.
func (g *Registry) Hash(fields []byte) Key { return xxh3.Hash128Seed(fields, g.seed) }

// Space returns the value that separates the keys of a tenant's series from other keys. It is zero for the empty prefix.
func (g *Registry) Space(tenantPrefix string) Key {
	if tenantPrefix == "" {
		return Key{}
	}
	return xxh3.HashString128Seed(tenantPrefix, ^g.seed)
}

// InSpace returns the key in a space.
func InSpace(k, space Key) Key { return Key{Hi: k.Hi ^ space.Hi, Lo: k.Lo ^ space.Lo} }

// Len is the number of encodings.
func (g *Registry) Len() int { return int(g.live.Load()) }

// SizeBytes is the memory of entries and table in bytes. Entries of removed encodings stay for reuse.
func (g *Registry) SizeBytes() int64 {
	entries := int64(len(*g.chunks.Load())) * int64(unsafe.Sizeof([entryChunkSize]entry{}))
	unused := int64(g.count.Load()) - g.live.Load() // free has their numbers
	if tags := g.tags.Load(); tags != nil {
		entries += int64(len(*tags)) * int64(unsafe.Sizeof([entryChunkSize]atomic.Uint32{}))
	}
	return entries + 4*(int64(len(g.table.Load().slots))+max(0, unused))
}

func (g *Registry) entry(n uint32) *entry {
	return &(*g.chunks.Load())[n>>entryChunkShift][n&(entryChunkSize-1)]
}

// find returns the number of the key's entry, 0 if there is none.
func (g *Registry) find(k Key) uint32 {
	t := g.table.Load()
	for i := k.Hi & t.mask; ; i = (i + 1) & t.mask {
		slot := atomic.LoadUint32(&t.slots[i])
		if slot == 0 {
			return 0
		}
		if n := t.number(slot); t.mayMatch(slot, k) && g.entry(n).key() == k {
			return n
		}
	}
}

// Find returns the ref of a key.
func (g *Registry) Find(k Key) (ref uint32, ok bool) {
	n := g.find(k)
	if n == 0 {
		return 0, false
	}
	return g.entry(n).ref.Load(), true
}

// FindTagged is Find with the tag.
func (g *Registry) FindTagged(k Key) (ref, tag uint32, ok bool) {
	n := g.find(k)
	if n == 0 {
		return 0, 0, false
	}
	return g.entry(n).ref.Load(), g.tag(n), true
}

// Insert adds an encoding of a series. It does nothing if the key is known.
func (g *Registry) Insert(k Key, ref uint32) { g.InsertTagged(k, ref, 0) }

// InsertTagged is Insert with a tag. Only a tagged registry keeps it.
func (g *Registry) InsertTagged(k Key, ref, tag uint32) {
	if g.find(k) != 0 {
		return
	}
	var n uint32
	if last := len(g.free) - 1; last >= 0 {
		n, g.free = g.free[last], g.free[:last]
	} else {
		n = g.count.Load()
		if chunks := *g.chunks.Load(); int(n>>entryChunkShift) == len(chunks) {
			grown := append(chunks[:len(chunks):len(chunks)], new([entryChunkSize]entry))
			g.chunks.Store(&grown)
		}
	}
	g.setTag(n, tag)
	g.entry(n).fill(k, ref)
	if g.removal != nil {
		g.removal.inserted(ref, n)
	}
	if n == g.count.Load() {
		g.count.Store(n + 1)
	}
	t := g.table.Load()
	if live := int(g.live.Add(1)); live > len(t.slots)/4*3 {
		g.table.Store(g.rebuild(2 * len(t.slots)))
		return
	}
	t.put(k, n)
}

// setTag stores the tag of an entry before the entry is filled.
func (g *Registry) setTag(n, tag uint32) {
	tags := g.tags.Load()
	if tags == nil {
		return
	}
	if int(n>>entryChunkShift) == len(*tags) {
		grown := append((*tags)[:len(*tags):len(*tags)], new([entryChunkSize]atomic.Uint32))
		tags = &grown
		g.tags.Store(tags)
	}
	(*tags)[n>>entryChunkShift][n&(entryChunkSize-1)].Store(tag)
}

// tag returns the tag of an entry, 0 if the registry keeps no tags.
func (g *Registry) tag(n uint32) uint32 {
	tags := g.tags.Load()
	if tags == nil {
		return 0
	}
	return (*tags)[n>>entryChunkShift][n&(entryChunkSize-1)].Load()
}

func (t *table) put(k Key, n uint32) {
	i := k.Hi & t.mask
	for t.slots[i] != 0 {
		i = (i + 1) & t.mask
	}
	atomic.StoreUint32(&t.slots[i], t.slotOf(k, n))
}

func (g *Registry) rebuild(slots int) *table {
	t := newTable(slots, g.count.Load())
	for n := uint32(1); n < g.count.Load(); n++ {
		if e := g.entry(n); e.ref.Load() != 0 {
			t.put(e.key(), n)
		}
	}
	return t
}

// Cursor looks up the series of one request in turn. Its first guess is the series that followed the previous one in the
// last request, or the series inserted after it. In a steady stream this guess is right, and no look-up reads the table.
type Cursor struct {
	g    *Registry
	last uint32
	// missed counts consecutive known series that the cursor guessed wrong.
	missed int
}

const (
	// cursorMissesMax is the number of consecutive wrong guesses after which a cursor is lost.
	cursorMissesMax = 8
	// FindBatch is the largest number of keys that FindAll takes.
	FindBatch = 64
)

// Cursor returns a cursor before the first series.
func (g *Registry) Cursor() Cursor { return Cursor{g: g} }

// Find is Registry.Find, but faster if the calls repeat an earlier order.
func (c *Cursor) Find(k Key) (ref uint32, ok bool) {
	g := c.g
	last := g.entry(c.last)
	guess := last.next.Load()
	if guess == 0 {
		guess = c.last + 1
	}
	if guess < g.count.Load() {
		if e := g.entry(guess); e.key() == k {
			if ref := e.ref.Load(); ref != 0 {
				c.last, c.missed = guess, 0
				return ref, true
			}
		}
	}
	n := g.find(k)
	if n == 0 {
		c.missed = 0
		return 0, false
	}
	c.missed++
	if c.last != 0 {
		last.next.Store(n)
	}
	c.last = n
	return g.entry(n).ref.Load(), true
}

// Tag returns the tag of the encoding that the last Find found.
func (c *Cursor) Tag() uint32 { return c.g.tag(c.last) }

// Lost reports whether the series come in a new order, in which FindAll is faster than Find.
func (c *Cursor) Lost() bool { return c.missed >= cursorMissesMax }

// FindAll is Find for at most FindBatch keys. It looks up all keys in parallel, so that their cache misses overlap. It stops
// at an unknown key and returns false. Then the cursor is no longer lost. It returns the tags as well if tags is not nil.
func (c *Cursor) FindAll(keys []Key, refs, tags []uint32) (all bool) {
	g := c.g
	t := g.table.Load()
	var numbers [FindBatch]uint32
	for i := range keys {
		if slot := atomic.LoadUint32(&t.slots[keys[i].Hi&t.mask]); t.mayMatch(slot, keys[i]) {
			numbers[i] = t.number(slot)
		}
	}
	for i := range keys {
		refs[i] = g.entry(numbers[i]).ref.Load() // entry 0 has no ref
	}
	for i := range keys {
		n := numbers[i]
		if n == 0 || g.entry(n).key() != keys[i] {
			if n = g.find(keys[i]); n == 0 {
				c.missed = 0
				return false
			}
			refs[i] = g.entry(n).ref.Load()
		}
		if last := g.entry(c.last); c.last != 0 && last.next.Load() != n {
			last.next.Store(n)
		}
		c.last = n
		if tags != nil {
			tags[i] = g.tag(n)
		}
	}
	return true
}
