package changes

import "sync"

// bucketsMax bounds the buckets with a version of their own. Beyond it a change counts for every bucket.
const bucketsMax = 1 << 17

// Clock holds a version per bucket. The zero value is ready for use: every bucket has version 0.
type Clock struct {
	mu      sync.Mutex
	buckets map[int64]uint64 // bucket → version, for buckets changed since floor
	last    uint64           // highest version so far
	floor   uint64           // version of all other buckets
}

// Append appends the versions of the buckets first to last, both included, to dst.
func (c *Clock) Append(dst []uint64, first, last int64) []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for b := first; b <= last; b++ {
		dst = append(dst, max(c.floor, c.buckets[b]))
	}
	return dst
}

// Latest returns the highest version of any bucket.
func (c *Clock) Latest() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Change gives the buckets a new version; nil stands for all buckets.
func (c *Clock) Change(buckets []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	if buckets == nil || len(c.buckets)+len(buckets) > bucketsMax {
		clear(c.buckets)
		c.floor = c.last
		return
	}
	if c.buckets == nil {
		c.buckets = map[int64]uint64{}
	}
	for _, b := range buckets {
		c.buckets[b] = c.last
	}
}

// During runs change and raises the version of the buckets before and after it; nil stands for all buckets.
func (c *Clock) During(buckets []int64, change func() error) error {
	c.Change(buckets)
	defer c.Change(buckets)
	return change()
}
