package index

import (
	"container/list"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"halite/storage/index/presence"
)

// cache keeps decoded parts of segments, least recently used first out, within a number of bytes.
// What it holds is immutable; values may be used after they fell out.
type cache struct {
	bytesMax int64
	hits     prometheus.Counter
	misses   prometheus.Counter
	evicted  prometheus.Counter

	mu    sync.Mutex
	items map[cacheKey]*list.Element
	order *list.List // front = most recent
	bytes int64
}

type cacheKey struct {
	of   presence.Partition
	gen  uint32
	kind byte
	name string // label name or matcher
	n    uint32 // block or chunk
}

type cacheItem struct {
	key   cacheKey
	value any
	bytes int64
}

const cacheItemBytes = 200 // what the map and the list take for an item

// kindMatch marks cached results of matchers; the other kinds are those of qualifiers.
const kindMatch = '~'

func newCache(bytesMax int64, hits, misses, evicted prometheus.Counter) *cache {
	return &cache{
		bytesMax: bytesMax, hits: hits, misses: misses, evicted: evicted,
		items: map[cacheKey]*list.Element{}, order: list.New(),
	}
}

// cached returns the item of a key, if it is held.
func cached[T any](c *cache, key cacheKey) (value T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.items[key]
	if e == nil {
		c.misses.Inc()
		return value, false
	}
	c.hits.Inc()
	c.order.MoveToFront(e)
	value, ok = e.Value.(*cacheItem).value.(T)
	return value, ok
}

// put stores an item unless it alone would take more than a quarter of the cache.
func (c *cache) put(key cacheKey, value any, bytes int64) {
	bytes += cacheItemBytes + int64(len(key.name))
	if bytes > c.bytesMax/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.items[key]; e != nil {
		c.remove(e)
	}
	c.items[key] = c.order.PushFront(&cacheItem{key: key, value: value, bytes: bytes})
	c.bytes += bytes
	for c.bytes > c.bytesMax {
		c.remove(c.order.Back())
		c.evicted.Inc()
	}
}

func (c *cache) remove(e *list.Element) {
	item := c.order.Remove(e).(*cacheItem)
	delete(c.items, item.key)
	c.bytes -= item.bytes
}

// drop lets go of everything of a period: a fold has replaced it, or it is beyond retention.
func (c *cache) drop(p presence.Partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.items {
		if key.of == p {
			c.remove(e)
		}
	}
}

func (c *cache) SizeBytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}
