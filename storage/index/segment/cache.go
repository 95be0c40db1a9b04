package segment

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"halite/storage/index/presence"
)

// cache keeps decoded parts of segments within a number of bytes. It evicts the least recently used part first. Values are
// immutable, and may be used after their eviction.
type cache struct {
	bytesMax int64
	hits     prometheus.Counter
	misses   prometheus.Counter
	evicted  prometheus.Counter

	mu    sync.Mutex
	Items *simplelru.LRU[Key, cacheItem]
	bytes int64
}

// Key identifies a cached item.
type Key struct {
	partition presence.Partition
	gen       uint32
	kind      byte
	name      string // label name or matcher
	n         uint32 // block or chunk
}

type cacheItem struct {
	value any
	bytes int64
}

// cacheItemBytes is the overhead of an item in the map and the list.
const cacheItemBytes = 200

// KindMatch marks cached results of matchers; the other kinds are first bytes of qualifiers.
const KindMatch = '~'

func NewCache(bytesMax int64, hits, misses, evicted prometheus.Counter) *cache {
	c := &cache{bytesMax: bytesMax, hits: hits, misses: misses, evicted: evicted}
	// bytesMax bounds the cache, so the number of items needs no bound. NewLRU fails only for sizes below 1.
	c.Items, _ = simplelru.NewLRU(math.MaxInt, func(_ Key, item cacheItem) { c.bytes -= item.bytes })
	return c
}

// Cached returns the item of a key, if the cache holds it.
func Cached[T any](c *cache, key Key) (value T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	item, ok := c.Items.Get(key)
	if !ok {
		c.misses.Inc()
		return value, false
	}
	c.hits.Inc()
	value, ok = item.value.(T)
	return value, ok
}

// Put stores an item unless its size exceeds a quarter of the cache.
func (c *cache) Put(key Key, value any, bytes int64) {
	bytes += cacheItemBytes + int64(len(key.name))
	if bytes > c.bytesMax/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Items.Remove(key)
	c.Items.Add(key, cacheItem{value: value, bytes: bytes})
	c.bytes += bytes
	for c.bytes > c.bytesMax {
		c.Items.RemoveOldest()
		c.evicted.Inc()
	}
}

// Drop removes all items of a partition, after a compaction has replaced its segment or after its retention.
func (c *cache) Drop(p presence.Partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.Items.Keys() {
		if key.partition == p {
			c.Items.Remove(key)
		}
	}
}

func (c *cache) SizeBytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}
