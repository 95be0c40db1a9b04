package ranges

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"halite/storage/keyviz/heat"
)

// Snapshot is one division of the keys. It does not change, but its counters do.
type Snapshot struct {
	starts  []string
	heads   []head   // heads of the starts
	ids     []uint32 // ids of the ranges
	base    uint32   // ids below it belong to an earlier numbering
	places  []uint16 // range+1 of each id from base on; 0 if the range was split
	stripes []stripe
	users   atomic.Int64 // batches and works that may still add counts
}

// head is the first 16 bytes of a key, padded with zero bytes. Heads are contiguous in memory, so a search seldom reads
// whole keys.
type head struct{ high, low uint64 }

func headOf[K string | []byte](key K) head {
	var b [16]byte
	copy(b[:], key)
	return head{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// stripe is a part of the counters with a lock of its own.
type stripe struct {
	mu      sync.Mutex
	blocks  map[int64]*block // by the start of their time
	samples []sample
	offered uint64
	_       [64]byte // so that the locks of two stripes never share a cache line
}

// block has the counts of a time, by range. Slices of unused metrics are nil.
type block [heat.Metrics][]uint64

// sample is a key, or a series whose key is looked up later.
type sample struct {
	at  uint16
	ref uint32
	key string
}

// samplesMax bounds the samples of a stripe.
const samplesMax = 2048

// Len is the number of ranges.
func (s *Snapshot) Len() int { return len(s.starts) }

// Starts are the starts of the ranges. The caller must not change them.
func (s *Snapshot) Starts() []string { return s.starts }

// Find returns the range of a key.
func (s *Snapshot) Find(key []byte) int {
	h := headOf(key)
	low, high := 1, len(s.heads) // the first start above key lies in low..high
	for low < high {
		mid := int(uint(low+high) >> 1)
		at := s.heads[mid]
		above := at.high > h.high
		if at.high == h.high {
			above = at.low > h.low || at.low == h.low && s.starts[mid] > string(key)
		}
		if above {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low - 1
}

// Contains reports whether the range at holds a key.
func (s *Snapshot) Contains(at int, key []byte) bool {
	return string(key) >= s.starts[at] && (at+1 == len(s.starts) || string(key) < s.starts[at+1])
}

// list returns the counts of a time and metric, by range. The caller has locked the stripe.
func (s *Snapshot) list(t *stripe, startMs int64, m heat.Metric) []uint64 {
	b := t.blocks[startMs]
	if b == nil {
		if t.blocks == nil {
			t.blocks = make(map[int64]*block)
		}
		b = new(block)
		t.blocks[startMs] = b
	}
	if b[m] == nil {
		b[m] = make([]uint64, len(s.starts))
	}
	return b[m]
}

// add adds counts of one metric. The caller has locked the stripe.
func (s *Snapshot) add(t *stripe, startMs int64, m heat.Metric, at int, n uint64) {
	list := s.list(t, startMs, m)
	if m.IsMax() {
		list[at] = max(list[at], n)
	} else {
		list[at] += n
	}
}

// offer keeps a sample, or replaces another one at a random place. So all samples are equally likely to stay.
func (t *stripe) offer(x sample) {
	t.offered++
	if len(t.samples) < samplesMax {
		t.samples = append(t.samples, x)
		return
	}
	if n := mix(t.offered) % t.offered; n < samplesMax {
		t.samples[n] = x
	}
}

// mix spreads consecutive numbers over all 64 bits.
func mix(x uint64) uint64 {
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

// drain takes the counts and the samples of the stripes. blocks are the counts by the start of their time.
func (s *Snapshot) drain() (blocks map[int64][]*block, samples []sample) {
	blocks = make(map[int64][]*block)
	for i := range s.stripes {
		t := &s.stripes[i]
		t.mu.Lock()
		taken := t.blocks
		samples = append(samples, t.samples...)
		t.blocks, t.samples, t.offered = nil, nil, 0
		t.mu.Unlock()
		for startMs, b := range taken {
			blocks[startMs] = append(blocks[startMs], b)
		}
	}
	return blocks, samples
}

func (b *block) addTo(c *heat.Column) {
	for m, list := range b {
		for at, n := range list {
			switch {
			case n == 0:
			case heat.Metric(m).IsMax():
				c.Counts[at][m] = max(c.Counts[at][m], float64(n))
			default:
				c.Counts[at][m] += float64(n)
			}
		}
	}
}
