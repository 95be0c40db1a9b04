package rowcache

import (
	"slices"

	"halite/rollup"
	"halite/storage/index"
)

// StateKinds and FieldSetsMax bound the fields Kind and FieldSet of StateKey.
const (
	StateKinds   = 3
	FieldSetsMax = 32 / StateKinds
)

// EntryBytes returns the memory in bytes of an entry of words words.
func EntryBytes(words int) int64 { return int64(words*8 + slotBytes + keyBytes) }

// FieldSet returns the number of a set of fields for StateKey. It fails if there are too many sets.
func (c *Cache) FieldSet(fields rollup.Fields) (set uint64, ok bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	at := slices.Index(c.fieldSets, fields)
	if at < 0 {
		if len(c.fieldSets) == FieldSetsMax {
			return 0, false
		}
		at = len(c.fieldSets)
		c.fieldSets = append(c.fieldSets, fields)
	}
	return uint64(at), true
}

// StateKey names the states of a bucket, a day or month, with a set of fields.
type StateKey struct {
	Kind     uint64 // below StateKinds
	Bucket   int64
	FieldSet uint64
}

func (k StateKey) encode(number uint64) uint64 {
	return number | keyOfStates | uint64(k.Bucket)<<keyHourShift | (k.Kind*uint64(FieldSetsMax)+k.FieldSet)<<keyHoursShift
}

// PutStates caches an entry with states of a series. fill writes its words. PutStates drops entries that are too long.
func (c *Cache) PutStates(s *index.Series, k StateKey, version uint64, words int, fill func(words []uint64)) {
	if words > c.table.entryWordsMax() {
		return
	}
	keys := keyMaker{cache: c}
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if number, ok := keys.makeNumber(s); ok {
		c.table.put(k.encode(number), version, layout{}, words, fill)
	}
}

// StateLookup finds states of one series after another. It holds a lock of the cache until End.
type StateLookup struct {
	keys         keyMaker
	number       uint64
	known        bool // the series has a number
	hits, misses int
}

// LookupStates begins a look-up of states.
func (c *Cache) LookupStates() *StateLookup {
	c.table.mu.RLock()
	return &StateLookup{keys: keyMaker{cache: c}}
}

// Series sets the series of the next look-ups.
func (l *StateLookup) Series(s *index.Series) { l.number, l.known = l.keys.number(s) }

// Find returns the words of an entry of the series, or nil. They are valid until End.
func (l *StateLookup) Find(k StateKey, version uint64, words int) []uint64 {
	if l.known {
		if e := l.keys.cache.table.get(k.encode(l.number), version); e != nil {
			l.hits++
			return l.keys.cache.table.words(e.place, words)
		}
	}
	l.misses++
	return nil
}

// End ends the look-up.
func (l *StateLookup) End() {
	l.keys.cache.stateHits.Add(float64(l.hits))
	l.keys.cache.stateMisses.Add(float64(l.misses))
	l.keys.cache.table.mu.RUnlock()
}
