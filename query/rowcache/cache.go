package rowcache

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/zeebo/xxh3"

	"halite/rollup"
)

// Cache holds decoded rows of the data table and decoded rollup states, both outside the Go heap. A missing row is cached as
// an empty one. Each entry has the version of its hours, so that no look-up finds an entry that is older than the last write.
//
// An entry begins with its values in their memory layout. If the samples are not evenly spaced, the entry continues with
// their offsets in milliseconds from the start of the first hour, two in a word. If the values have few counter resets, the
// entry ends with the positions of the resets, four in a word.
type Cache struct {
	table    *table
	watch    *Watch
	bytesMax int64

	// numbers are the numbers of inactive series by a hash of their labels. The table's lock guards them.
	numbers    map[xxh3.Uint128]uint32
	lastNumber uint32
	seed       uint64

	// fieldSets are the sets of fields of cached rollup states. The table's lock guards them.
	fieldSets []rollup.Fields

	lookups, pins, headRows sync.Pool
	metrics
}

// Options configures a Cache.
type Options struct {
	// Watch sees every write to the data table; without it nothing is cached.
	Watch *Watch
	// BytesMax bounds the memory in bytes; 256 MiB. A negative number turns the cache off.
	BytesMax   int64
	Registerer prometheus.Registerer // not registered
}

const (
	// queryShare: the rows of one selector may take 1/queryShare of the cache. More rows would evict each other.
	queryShare = 2
	// mergeShare: the rows of one selector may take 1/mergeShare of the cache if they are also cached as merged entries.
	mergeShare = 8
	// entryBytes is the approximate size of an entry.
	entryBytes = 1 << 10
	// numberBytes is the approximate memory of the number of an inactive series.
	numberBytes = 64
	// numberShare: numbers may take 1/numberShare of the cache.
	numberShare = 16
)

// New returns a cache, or nil if the options turn it off. A nil Cache is valid and caches nothing.
func New(o Options) (*Cache, error) {
	if o.Watch == nil || o.BytesMax < 0 {
		return nil, nil
	}
	o.BytesMax = cmp.Or(o.BytesMax, 256<<20)
	c := &Cache{
		table: newTable(o.BytesMax - o.BytesMax/numberShare), watch: o.Watch, bytesMax: o.BytesMax,
		numbers: map[xxh3.Uint128]uint32{}, seed: rand.Uint64(), metrics: newMetrics(),
	}
	return c, c.register(o.Registerer)
}

// Version returns the latest version of all rows; 0 if the cache is nil.
func (c *Cache) Version() uint64 {
	if c == nil {
		return 0
	}
	return c.watch.hours.Latest()
}

// Admits reports whether the rows of a selector are few enough to be cached.
func (c *Cache) Admits(rows int) bool { return c.AdmitsBytes(int64(rows) * entryBytes) }

// AdmitsBytes reports whether entries of n bytes are few enough to be cached.
func (c *Cache) AdmitsBytes(n int64) bool { return c != nil && n <= c.bytesMax/queryShare }

// AdmitsMerged reports whether the rows of a selector are few enough to be cached twice: as rows and as merged entries.
func (c *Cache) AdmitsMerged(rows int) bool { return int64(rows)*entryBytes <= c.bytesMax/mergeShare }

func (c *Cache) sizeBytes() int64 {
	c.table.mu.RLock()
	defer c.table.mu.RUnlock()
	return c.table.sizeBytes() + int64(len(c.numbers))*numberBytes
}

func (c *Cache) register(reg prometheus.Registerer) error {
	if reg == nil {
		return nil
	}
	for _, m := range []prometheus.Collector{
		c.hits, c.misses, c.stateHits, c.stateMisses,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_query_row_cache_bytes", Help: "Memory in use by the row cache.",
		}, func() float64 { return float64(c.sizeBytes()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_query_row_cache_bytes_max", Help: "Memory that the row cache may use.",
		}, func() float64 { return float64(c.bytesMax) }),
	} {
		if err := reg.Register(m); err != nil {
			return fmt.Errorf("register row cache metrics: %w", err)
		}
	}
	return nil
}
