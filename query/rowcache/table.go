package rowcache

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

// table is a hash table of entries of words. Its memory is bounded, and it evicts the oldest entries first. The words are
// in regions, which it fills in sequence; slots hold their places. A look-up reads one slot and the words that it needs,
// because with many series the latency of memory dominates.
//
// Readers hold mu for reading while they use slots and words. A reader that has pinned a region may use its words until it
// releases the pin.
type table struct {
	mu        sync.RWMutex
	slots     []slot   // a power of two
	slotWords []uint64 // memory of slots; nil if they are on the heap
	used      int      // at most three quarters of slotsMax
	regions   []*region
	current   int // the region to fill
	at        int // its words in use

	slotsMax, regionsMax int
	regionBits           uint // of the number of words of a region
	off                  bool // the system refused memory
}

// slot holds the place of an entry. A key of 0 marks a free slot.
type slot struct {
	key     uint64
	version uint64
	place   uint32 // word, counted over all regions
	layout
}

// region is memory for entries, with the keys of the entries that were put there.
type region struct {
	words []uint64
	keys  []uint64
	// pinCount is the number of pins on the region. A pinned region is not overwritten. pinCount grows only under the
	// table's mu.
	pinCount atomic.Int32
}

const (
	slotBytes = 32
	keyBytes  = 8
	// slotShare: slots and keys may take 1/slotShare of the memory.
	slotShare = 8
	slotsMin  = 1 << 8
	// slotsMapped is the number of slots above which they lie outside the heap, in large pages.
	slotsMapped = 2 << 20 / slotBytes
	// regionsMin is the least number of regions unless the memory is small. The table evicts one region at once.
	regionsMin    = 16
	regionBitsMin = 10
	regionBitsMax = 18 // two megabytes, a large page
	// regionEntries is the number of the longest entries that fit into a region.
	regionEntries = 4
	wordsMax      = 1 << 32 // that a place can address
)

// newTable returns a table that uses approximately bytesMax bytes at most.
func newTable(bytesMax int64) *table {
	forSlots := bytesMax / slotShare
	words := (bytesMax - forSlots) / 8
	t := &table{slotsMax: slotsMin}
	for int64(2*t.slotsMax)*(slotBytes+keyBytes) <= forSlots {
		t.slotsMax *= 2
	}
	t.regionBits = uint(min(max(bits.Len64(uint64(words/regionsMin))-1, regionBitsMin), regionBitsMax))
	t.regionsMax = int(min(max(words>>t.regionBits, 2), wordsMax>>t.regionBits))
	t.slots = make([]slot, slotsMin)
	return t
}

// entryWordsMax returns the length of the longest entry.
func (t *table) entryWordsMax() int { return t.regionWords() / regionEntries }

func (t *table) regionWords() int { return 1 << t.regionBits }

func hashKey(key uint64) uint64 {
	key *= 0x9e3779b97f4a7c15
	key ^= key >> 32
	return key * 0xd6e8feb86659fd93 >> 20
}

// home returns the slot at which the search for a key begins: the first of the two slots of a cache line. So a search finds
// most keys in one line.
func (t *table) home(key uint64) uint64 { return hashKey(key) & uint64(len(t.slots)-1) &^ 1 }

// next returns the slot after another.
func (t *table) next(at uint64) uint64 { return (at + 1) & uint64(len(t.slots)-1) }

// find returns the slot of a key, or the free slot where the key would be.
func (t *table) find(key uint64) uint64 {
	at := t.home(key)
	for k := t.slots[at].key; k != key && k != 0; k = t.slots[at].key {
		at = t.next(at)
	}
	return at
}

// slotOf returns the first slot of the search for a key, by its key field. The caller holds mu, for reading at least.
func (t *table) slotOf(key uint64) *uint64 { return &t.slots[t.home(key)].key }

// get returns the slot of a key with the given version; nil if there is none. The caller holds mu, at least for reading.
func (t *table) get(key, version uint64) *slot {
	if s := &t.slots[t.find(key)]; s.key == key && s.version == version {
		return s
	}
	return nil
}

// words returns the words of an entry, from its place on.
func (t *table) words(place uint32, n int) []uint64 {
	at := int(place) & (t.regionWords() - 1)
	return t.regions[place>>t.regionBits].words[at : at+n : at+n]
}

// put stores an entry of at most entryWordsMax words, which fill writes. It replaces the previous entry of the key. The caller
// holds mu.
func (t *table) put(key, version uint64, shape layout, words int, fill func([]uint64)) {
	if !t.reserve(words) {
		return
	}
	s := &t.slots[t.find(key)]
	if s.key == 0 {
		t.used++
	}
	place := uint32(t.current<<t.regionBits + t.at)
	*s = slot{key: key, version: version, place: place, layout: shape}
	fill(t.words(place, words))
	t.at += words
	r := t.regions[t.current]
	r.keys = append(r.keys, key)
}

// reserve makes room for an entry. It returns false if it cannot.
func (t *table) reserve(words int) bool {
	if t.off {
		return false
	}
	if t.full() && len(t.slots) < t.slotsMax {
		t.rehash(2 * len(t.slots))
	}
	for tries := 0; len(t.regions) == 0 || t.at+max(words, 1) > t.regionWords() || t.full(); tries++ {
		if tries > len(t.regions) || !t.advance() {
			return false
		}
	}
	return true
}

// full reports whether one more key would make look-ups slow.
func (t *table) full() bool { return t.used >= len(t.slots)/4*3 }

// advance begins the next region and evicts its entries.
func (t *table) advance() bool {
	next, ok := t.nextRegion()
	if !ok {
		return false
	}
	t.current, t.at = next, 0
	r := t.regions[next]
	for _, key := range r.keys {
		if at := t.find(key); t.slots[at].key == key && int(t.slots[at].place>>t.regionBits) == next {
			t.remove(at)
		}
	}
	r.keys = r.keys[:0]
	return true
}

// nextRegion returns a new region. At the maximum it returns the next region without pins.
func (t *table) nextRegion() (next int, ok bool) {
	if n := len(t.regions); n < t.regionsMax {
		words, err := newMemory(t.regionWords())
		switch {
		case err == nil:
			t.regions = append(t.regions, &region{words: words})
			return n, true
		case n == 0:
			t.off = true
			return 0, false
		}
		t.regionsMax = n
	}
	for i := 1; i <= len(t.regions); i++ {
		if next = (t.current + i) % len(t.regions); t.regions[next].pinCount.Load() == 0 {
			return next, true
		}
	}
	return 0, false
}

// remove frees a slot. It moves later slots up if a search would no longer find them.
func (t *table) remove(hole uint64) {
	mask := uint64(len(t.slots) - 1)
	for at := t.next(hole); t.slots[at].key != 0; at = t.next(at) {
		if home := t.home(t.slots[at].key); (at-home)&mask >= (at-hole)&mask {
			t.slots[hole] = t.slots[at]
			hole = at
		}
	}
	t.slots[hole] = slot{}
	t.used--
}

func (t *table) rehash(slots int) {
	old, oldWords := t.slots, t.slotWords
	t.slots, t.slotWords = newSlots(slots)
	for i := range old {
		if old[i].key != 0 {
			t.slots[t.find(old[i].key)] = old[i]
		}
	}
	if oldWords != nil {
		freeMemory(oldWords)
	}
}

// newSlots makes free slots, in the memory of words if there are many.
func newSlots(n int) (slots []slot, words []uint64) {
	if n >= slotsMapped {
		if words, err := newMemory(n * slotBytes / 8); err == nil {
			return unsafe.Slice((*slot)(unsafe.Pointer(unsafe.SliceData(words))), n), words
		}
	}
	return make([]slot, n), nil
}

// sizeBytes returns the memory in use. The caller holds mu.
func (t *table) sizeBytes() int64 {
	n := int64(len(t.slots)) * slotBytes
	for i := range t.regions {
		n += int64(len(t.regions[i].words))*8 + int64(cap(t.regions[i].keys))*keyBytes
	}
	return n
}
