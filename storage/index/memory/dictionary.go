package memory

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/zeebo/xxh3"

	"halite/storage/index/sorted"
)

// Dictionary maps the distinct values of one label name to dense ids, from 1, in order of appearance. It only grows.
//
// Readers read values by id without a lock: a writer stores count after the value, and a reader loads the array after count.
// Only look-ups by value take a lock, once per matcher and never per series.
type Dictionary struct {
	ID   uint32 // distinguishes dictionaries in row hashes
	Name string

	count  atomic.Uint32
	values atomic.Pointer[[]string] // values[id-1]

	mu    sync.RWMutex
	slots []uint32 // open addressing: value ids, 0 is free
	arena []byte   // tail of the block from which values are cut
	bytes int64
	// memory is the sum over all dictionaries, and counted is the share of this one. mu guards counted.
	memory  *atomic.Int64
	counted int64

	orderMu sync.Mutex
	order   atomic.Pointer[dictOrder]
}

// dictOrder sorts the first values of a dictionary.
type dictOrder struct {
	IDs   []uint32 // by value
	ranks []uint32 // by id, from 1; ranks[0] is 0
}

const (
	arenaBytes     = 16 << 10
	arenaValueMax  = 1 << 10 // larger values get their own memory
	dictSlotsFirst = 8
)

// newDictionary returns an empty dictionary, which adds its memory to a sum.
func newDictionary(id uint32, name string, memory *atomic.Int64) *Dictionary {
	d := &Dictionary{ID: id, Name: name, slots: make([]uint32, dictSlotsFirst), memory: memory}
	empty := make([]string, 0, 4)
	d.values.Store(&empty)
	return d
}

// Value returns the value of an id that a published row holds. The array that it loads has this value, because a writer stores
// the array before it publishes the row.
func (d *Dictionary) Value(id uint32) string { return (*d.values.Load())[:id][id-1] }

// Len is the number of values.
func (d *Dictionary) Len() uint32 { return d.count.Load() }

// Snapshot returns all values so far; values[i] has id i+1.
func (d *Dictionary) Snapshot() []string {
	n := d.count.Load()
	return (*d.values.Load())[:n]
}

// Lookup returns the id of a value, 0 if it has none.
func (d *Dictionary) Lookup(value string) uint32 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	id, _ := d.find(value)
	return id
}

// find returns the id, or 0 and the free slot where it belongs.
func (d *Dictionary) find(value string) (id uint32, slot int) {
	values, mask := *d.values.Load(), len(d.slots)-1
	values = values[:cap(values)]
	for slot = int(xxh3.HashString(value)) & mask; ; slot = (slot + 1) & mask {
		id = d.slots[slot]
		if id == 0 || values[id-1] == value {
			return id, slot
		}
	}
}

// Intern returns the id of a value, and adds a new value. The caller may reuse the memory of value.
func (d *Dictionary) Intern(value string) uint32 {
	if id := d.Lookup(value); id != 0 {
		return id
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	id, slot := d.find(value)
	if id != 0 {
		return id
	}
	n := d.count.Load()
	values := *d.values.Load()
	if int(n) == cap(values) {
		grown := make([]string, n, growCap(int(n)))
		copy(grown, values[:n])
		d.values.Store(&grown)
		values = grown
	}
	values[: n+1 : cap(values)][n] = d.clone(value)
	d.count.Store(n + 1)
	d.slots[slot] = n + 1
	if int(n+1)*4 > len(d.slots)*3 {
		d.rehash()
	}
	d.account()
	return n + 1
}

// account updates the sum after a change. The caller holds mu.
func (d *Dictionary) account() {
	size := d.SizeBytes()
	d.memory.Add(size - d.counted)
	d.counted = size
}

// discount subtracts the dictionary from the sum before it is dropped.
func (d *Dictionary) discount() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory.Add(-d.counted)
	d.memory, d.counted = new(atomic.Int64), 0
}

// SizeBytes estimates the memory of the dictionary. The caller holds mu.
func (d *Dictionary) SizeBytes() int64 {
	size := dictionaryBytes + int64(len(d.Name)) + d.bytes + int64(4*len(d.slots)+stringBytes*cap(*d.values.Load()))
	if o := d.order.Load(); o != nil {
		size += int64(4 * (len(o.IDs) + len(o.ranks)))
	}
	return size
}

func (d *Dictionary) rehash() {
	d.slots = make([]uint32, 2*len(d.slots))
	mask := len(d.slots) - 1
	for i, v := range d.Snapshot() {
		slot := int(xxh3.HashString(v)) & mask
		for d.slots[slot] != 0 {
			slot = (slot + 1) & mask
		}
		d.slots[slot] = uint32(i + 1)
	}
}

// Sorted returns the order of at least all current values. It caches the order, and later merges new values
// into it.
func (d *Dictionary) Sorted() *dictOrder {
	values := d.Snapshot()
	if o := d.order.Load(); o != nil && len(o.IDs) >= len(values) {
		return o
	}
	d.orderMu.Lock()
	defer d.orderMu.Unlock()
	values = d.Snapshot()
	var old []uint32
	if o := d.order.Load(); o != nil {
		old = o.IDs
	}
	added := make([]uint32, 0, len(values)-len(old))
	for id := len(old) + 1; id <= len(values); id++ {
		added = append(added, uint32(id))
	}
	compare := func(a, b uint32) int { return strings.Compare(values[a-1], values[b-1]) }
	slices.SortFunc(added, compare)
	o := &dictOrder{IDs: make([]uint32, len(values)), ranks: make([]uint32, len(values)+1)}
	sorted.Merge(o.IDs, old, added, compare)
	for i, id := range o.IDs {
		o.ranks[id] = uint32(i) + 1
	}
	d.order.Store(o)
	return o
}

// clone copies a value into the arena. One allocation serves many values, and the dictionary keeps no buffer
// of the caller.
func (d *Dictionary) clone(value string) string {
	d.bytes += int64(len(value))
	if len(value) > arenaValueMax {
		return strings.Clone(value)
	}
	if len(value) == 0 {
		return ""
	}
	if len(d.arena) < len(value) {
		// The first blocks are small: most dictionaries hold a handful of values.
		d.arena = make([]byte, max(min(arenaBytes, 64+int(d.bytes)), len(value)))
	}
	n := copy(d.arena, value)
	s := unsafe.String(unsafe.SliceData(d.arena), n)
	d.arena = d.arena[n:]
	return s
}

// growCap is the next capacity of an append-only array: doubling while small, by a quarter when large.
func growCap(n int) int {
	if n < 4096 {
		return max(4, 2*n)
	}
	return n + n/4
}
