package rowcache

import (
	"math"

	"github.com/zeebo/xxh3"

	"halite/keyschema"
	"halite/query/column"
	"halite/storage/index"
)

// keyMaker makes the keys of entries, and puts entries. It belongs to one goroutine.
type keyMaker struct {
	cache *Cache
	buf   []byte
}

// The low 32 bits of a key are the number of a series. Above them are the first hour of the entry, the number of its hours,
// and whether the series is inactive. Keys of rollup states have a day or month, and a kind, in place of hours.
const (
	keyHourShift  = 32
	keyHoursShift = keyHourShift + 24
	keyOfStates   = 1 << 61
	keyInactive   = 1 << 62
	keyOfRow      = 1 << 63 // no key is 0
)

// number returns the beginning of the keys of a series. ok is false if the series has no number. Numbers of active series are
// never reused. The caller holds the table's lock.
func (k *keyMaker) number(s *index.Series) (key uint64, ok bool) {
	if key, ok = activeNumber(s); ok {
		return key, true
	}
	n, ok := k.cache.numbers[k.hash(s)]
	return keyOfRow | keyInactive | uint64(n), ok
}

// activeNumber is number for active series. It needs no lock.
func activeNumber(s *index.Series) (key uint64, ok bool) {
	return keyOfRow | uint64(s.Ref), s.Ref != 0
}

func (k *keyMaker) hash(s *index.Series) xxh3.Uint128 {
	if s.Alias != nil {
		k.buf = s.Alias.Stored.Bytes(k.buf)
		return xxh3.Hash128Seed(k.buf, k.cache.seed)
	}
	k.buf = s.Labels.Bytes(k.buf)
	if s.Tenant != nil {
		k.buf = append(k.buf, s.Tenant.Prefix...)
	}
	return xxh3.Hash128Seed(k.buf, k.cache.seed)
}

// makeNumber is number, but gives a number to a series without one. If there are too many numbers, it drops all of
// them. Then look-ups do not find the entries of these numbers any more. It never gives a number twice.
func (k *keyMaker) makeNumber(s *index.Series) (key uint64, ok bool) {
	if key, ok = k.number(s); ok {
		return key, true
	}
	c := k.cache
	if c.lastNumber == math.MaxUint32 {
		return 0, false
	}
	if int64(len(c.numbers)+1)*numberBytes > c.bytesMax/numberShare {
		clear(c.numbers)
	}
	c.lastNumber++
	c.numbers[k.hash(s)] = c.lastNumber
	return k.number(s)
}

// blockKey returns the key of a series for consecutive hours.
func blockKey(number uint64, firstHour, hours int64) uint64 {
	return number | uint64(firstHour)<<keyHourShift | uint64(hours)<<keyHoursShift
}

// put caches the samples of a block of hours of a series. It returns false if there are too many.
func (k *keyMaker) put(s *index.Series, b *block, c column.Points, p column.Properties) (ok bool) {
	startMs := keyschema.HourStartMs(b.firstHour)
	layout := layoutOf(startMs, c, p)
	words := layout.words()
	t := k.cache.table
	if words > t.entryWordsMax() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if number, ok := k.makeNumber(s); ok {
		t.put(blockKey(number, b.firstHour, b.hours), b.version, layout, words, func(words []uint64) {
			layout.write(words, startMs, c)
		})
	}
	return true
}
