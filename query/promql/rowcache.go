package promql

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/zeebo/xxh3"

	"halite/keyschema"
	"halite/rollup"
	"halite/storage/index"
)

// rowCache keeps decoded rows of the data table, rows that are not there among them, each with the epoch of its hour, so
// that a row written since is not found; and decoded states, see keptStates.
//
// The words of an entry are the values, as they lie in memory, and their offsets from the start of the first hour in
// milliseconds, two in a word, if they are not evenly spaced. Where they are, its shape is enough to know the times. Last come
// the places of values that are less than the one before, four in a word, if they are few: counters that began anew.
type rowCache struct {
	table    *rowTable
	watch    *RowWatch
	bytesMax int64

	// numbers are those of series that are not active, by a hash of their labels; guarded by the table's lock.
	numbers    map[xxh3.Uint128]uint32
	lastNumber uint32
	seed       uint64

	// fieldSets are the sets of fields of which states are kept; guarded by the table's lock.
	fieldSets []rollup.Fields

	hits, misses, stateHits, stateMisses prometheus.Counter
}

const (
	// rowCacheQueryShare is the part of the cache that the rows of one selector may take: those of larger ones would
	// only drive out each other.
	rowCacheQueryShare = 2
	// rowCacheMergeShare is the part of the cache that the rows of one selector may take if they are also kept together.
	rowCacheMergeShare = 8
	// rowCacheRowBytes is about what an entry takes.
	rowCacheRowBytes = 1 << 10
	// rowNumberBytes is about what the number of a series that is not active takes.
	rowNumberBytes = 64
	// rowNumberShare is the part of the cache that numbers may take.
	rowNumberShare = 16
)

func newRowCache(o *Options) (*rowCache, error) {
	if o.Watch == nil || o.RowCacheBytes < 0 {
		return nil, nil
	}
	c := &rowCache{
		table: newRowTable(o.RowCacheBytes - o.RowCacheBytes/rowNumberShare), watch: o.Watch, bytesMax: o.RowCacheBytes,
		numbers: map[xxh3.Uint128]uint32{}, seed: rand.Uint64(),
		hits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_query_row_cache_hits_total", Help: "Rows that queries found decoded.",
		}),
		misses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_query_row_cache_misses_total", Help: "Rows that queries looked for among the decoded ones in vain.",
		}),
		stateHits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_query_state_cache_hits_total", Help: "States of days and months that queries found decoded.",
		}),
		stateMisses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_query_state_cache_misses_total",
			Help: "States of days and months that queries looked for among the decoded ones in vain.",
		}),
	}
	if o.Registerer == nil {
		return c, nil
	}
	for _, m := range []prometheus.Collector{
		c.hits, c.misses, c.stateHits, c.stateMisses,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_query_row_cache_bytes", Help: "Memory of the cache of decoded rows in use.",
		}, func() float64 { return float64(c.sizeBytes()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_query_row_cache_bytes_max", Help: "Memory that the cache of decoded rows may use.",
		}, func() float64 { return float64(c.bytesMax) }),
	} {
		if err := o.Registerer.Register(m); err != nil {
			return nil, fmt.Errorf("register row cache metrics: %w", err)
		}
	}
	return c, nil
}

// admits reports whether a selector of so many rows is worth a look.
func (c *rowCache) admits(rows int) bool { return c.admitsBytes(int64(rows) * rowCacheRowBytes) }

// merges reports whether so many rows may be kept a second time.
func (c *rowCache) merges(rows int) bool {
	return int64(rows)*rowCacheRowBytes <= c.bytesMax/rowCacheMergeShare
}

// admitsBytes reports whether entries of so many bytes are worth a look.
func (c *rowCache) admitsBytes(n int64) bool { return c != nil && n <= c.bytesMax/rowCacheQueryShare }

func (c *rowCache) sizeBytes() int64 {
	c.table.mu.RLock()
	defer c.table.mu.RUnlock()
	return c.table.sizeBytes() + int64(len(c.numbers))*rowNumberBytes
}

// rowCacheUser is what one goroutine needs to use the cache.
type rowCacheUser struct {
	*rowCache
	epochs       hourEpochs
	buf          []byte
	found, tried int
}

// A key is the number of a series below what else it says: the first hour of the entry, how many there are, and
// whether the number is that of an active series. Those of states have a day or month and a kind for these.
const (
	keyHourShift  = 32
	keyHoursShift = keyHourShift + 24
	keyOfStates   = 1 << 61
	keyInactive   = 1 << 62
	keyOfRow      = 1 << 63 // no key is 0
)

// number is the beginning of the keys of a series; not ok if it has none. Numbers of active series are never used again.
// The caller holds the table's lock.
func (u *rowCacheUser) number(s *index.Series) (key uint64, ok bool) {
	if key, ok = u.activeNumber(s); ok {
		return key, true
	}
	n, ok := u.numbers[u.hash(s)]
	return keyOfRow | keyInactive | uint64(n), ok
}

// activeNumber is number without those that have to be looked for.
func (u *rowCacheUser) activeNumber(s *index.Series) (key uint64, ok bool) {
	return keyOfRow | uint64(s.Ref), s.Ref != 0
}

func (u *rowCacheUser) hash(s *index.Series) xxh3.Uint128 {
	u.buf = s.Labels.Bytes(u.buf)
	return xxh3.Hash128Seed(u.buf, u.seed)
}

// makeNumber is number for an entry to be made. When there are too many numbers all are forgotten, and so
// nobody finds their entries any more; none is given out twice.
func (u *rowCacheUser) makeNumber(s *index.Series) (key uint64, ok bool) {
	if key, ok = u.number(s); ok {
		return key, true
	}
	if u.lastNumber == math.MaxUint32 {
		return 0, false
	}
	if int64(len(u.numbers)+1)*rowNumberBytes > u.bytesMax/rowNumberShare {
		clear(u.numbers)
	}
	u.lastNumber++
	u.numbers[u.hash(s)] = u.lastNumber
	return u.number(s)
}

// blockKey completes the key of a series for some hours.
func blockKey(number uint64, firstHour, hours int64) uint64 {
	return number | uint64(firstHour)<<keyHourShift | uint64(hours)<<keyHoursShift
}

// put keeps the rows of some hours of a series; not ok if there are too many samples.
func (u *rowCacheUser) put(s *index.Series, firstHour, hours int64, epoch uint64, c columns, t traits) (ok bool) {
	shape := rowShapeOf(keyschema.HourStartMs(firstHour), c, t)
	words := shape.words()
	if words > u.table.entryWordsMax() {
		return false
	}
	u.table.mu.Lock()
	defer u.table.mu.Unlock()
	if number, ok := u.makeNumber(s); ok {
		u.table.put(blockKey(number, firstHour, hours), epoch, shape, words, func(words []uint64) {
			shape.write(words, keyschema.HourStartMs(firstHour), c)
		})
	}
	return true
}

// count adds what was looked for to the metrics.
func (u *rowCacheUser) count() {
	u.hits.Add(float64(u.found))
	u.misses.Add(float64(u.tried - u.found))
}
