package changes

import (
	"container/list"
	"sync"
)

// bucketsMax bounds the buckets that have their own version. They take about 10 MB. Above it the clock evicts the bucket
// that has not changed for the longest time.
const bucketsMax = 1 << 16

// Clock holds a version per bucket. The zero value is ready for use: every bucket has version 0.
type Clock struct {
	mu      sync.Mutex
	buckets map[int64]*list.Element // elements of order
	order   list.List               // of *bucket, the latest change first
	last    uint64                  // highest version so far
	floor   uint64                  // version of all other buckets
}

type bucket struct {
	number  int64
	version uint64
}

// Append appends the versions of the buckets first to last, both included, to dst.
func (c *Clock) Append(dst []uint64, first, last int64) []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for b := first; b <= last; b++ {
		version := c.floor
		if e := c.buckets[b]; e != nil {
			version = e.Value.(*bucket).version
		}
		dst = append(dst, version)
	}
	return dst
}

// Latest returns the highest version of any bucket.
func (c *Clock) Latest() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Since calls visit for each bucket with a version above the given one, without looking at other buckets. It returns false
// and visits nothing if it has evicted such a bucket.
func (c *Clock) Since(version uint64, visit func(bucket int64)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if version < c.floor {
		return false
	}
	for e := c.order.Front(); e != nil; e = e.Next() {
		b := e.Value.(*bucket)
		if b.version <= version {
			break
		}
		visit(b.number)
	}
	return true
}

// Change gives the buckets a new version; nil stands for all buckets.
func (c *Clock) Change(buckets []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	if buckets == nil {
		clear(c.buckets)
		c.order.Init()
		c.floor = c.last
		return
	}
	if c.buckets == nil {
		c.buckets = map[int64]*list.Element{}
	}
	for _, b := range buckets {
		c.change(b)
	}
}

func (c *Clock) change(number int64) {
	if e := c.buckets[number]; e != nil {
		e.Value.(*bucket).version = c.last
		c.order.MoveToFront(e)
		return
	}
	c.buckets[number] = c.order.PushFront(&bucket{number, c.last})
	if len(c.buckets) <= bucketsMax {
		return
	}
	oldest := c.order.Remove(c.order.Back()).(*bucket)
	delete(c.buckets, oldest.number)
	c.floor = max(c.floor, oldest.version)
}

// During runs change and raises the version of the buckets before and after it; nil stands for all buckets.
func (c *Clock) During(buckets []int64, change func() error) error {
	c.Change(buckets)
	defer c.Change(buckets)
	return change()
}
