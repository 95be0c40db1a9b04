package epoch

import "sync"

// bucketsMax bounds the buckets that are told apart; beyond that all count as changed.
const bucketsMax = 1 << 17

// Clock gives out epochs. The zero value is ready and has seen no change.
type Clock struct {
	mu      sync.Mutex
	buckets map[int64]uint64 // epochs of buckets that were changed
	last    uint64           // that was given out
	floor   uint64           // the epoch of all other buckets
}

// Append appends the epochs of the buckets from first to last.
func (c *Clock) Append(dst []uint64, first, last int64) []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for b := first; b <= last; b++ {
		dst = append(dst, max(c.floor, c.buckets[b]))
	}
	return dst
}

// Latest is the largest epoch of any bucket.
func (c *Clock) Latest() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Change gives some buckets, nil meaning all, a new epoch.
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

// During is a change of some buckets, nil meaning all, made known on both sides of it.
func (c *Clock) During(buckets []int64, change func() error) error {
	c.Change(buckets)
	defer c.Change(buckets)
	return change()
}
