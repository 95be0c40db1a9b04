package ranges

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"halite/storage/keyviz/heat"
)

const (
	// RangesMaxDefault is the default of Options.RangesMax.
	RangesMaxDefault = 512
	// StripesDefault is the default of Options.Stripes.
	StripesDefault = 8
	// keysMax is the number of sampled keys of a range.
	keysMax = 32
	// idsMax bounds the ids of one numbering.
	idsMax = 1 << 16
	// decay and peakDecay are the factors by which a division reduces the earlier heat and peak of a range.
	decay     = 0.5
	peakDecay = 0.98
)

// Options of a Set. Zero values mean the defaults.
type Options struct {
	// RangesMax bounds the ranges, 2 to 16384.
	RangesMax int
	// Stripes is the number of stripes of the counters.
	Stripes int
	// Levels are the resolutions of counts, the finest one first. The default is one level of minutes.
	Levels []Level
	// Key returns a row key of a series, or "" if the series is unknown.
	Key func(ref uint32) string
}

// Set divides the keys into ranges, which change with the load.
type Set struct {
	opts       Options
	current    atomic.Pointer[Snapshot]
	nextStripe atomic.Uint32 // for the next writer

	mu      sync.Mutex
	leaves  []*leaf
	retired []*Snapshot // writers may still add to their counters
	nextID  uint32
	base    uint32
	random  uint64
	// dropped are spans of keys for which writers to retired snapshots may still count.
	dropped []span
}

// span is the keys from start to before end.
type span struct{ start, end string }

func (s span) has(key string) bool { return key >= s.start && key < s.end }

// leaf is a range with its heat. It ends where the next one starts.
type leaf struct {
	start string
	id    uint32   // of the range
	ids   []uint32 // ids of merged ranges
	heat  float64  // recent heat
	peak  float64  // falls slowly, so that a range stays for a while after its load has gone
	keys  []string
	// border is the field that changes from the previous leaf. Only merge sets it.
	border heat.Border
}

// New returns a Set that begins with the given starts, or with one range.
func New(o Options, starts []string) (*Set, error) {
	if o.RangesMax == 0 {
		o.RangesMax = RangesMaxDefault
	}
	if o.Stripes == 0 {
		o.Stripes = StripesDefault
	}
	if len(o.Levels) == 0 {
		o.Levels = []Level{{SpanMs: MinuteMs, Keep: math.MaxInt32}}
	}
	if o.RangesMax < 2 || o.RangesMax > heat.RangesMax || o.Stripes < 1 || o.Key == nil {
		return nil, fmt.Errorf("keyviz: Key is required, RangesMax %d must be within 2…%d, and Stripes %d must be at least 1",
			o.RangesMax, heat.RangesMax, o.Stripes)
	}
	s := &Set{opts: o, leaves: []*leaf{{}}, base: 1, nextID: 1}
	for _, start := range starts {
		if start > s.leaves[len(s.leaves)-1].start && len(s.leaves) < o.RangesMax {
			s.leaves = append(s.leaves, &leaf{start: start})
		}
	}
	s.number()
	s.publish()
	return s, nil
}

// Current returns the current division.
func (s *Set) Current() *Snapshot { return s.current.Load() }

// enter returns the current division and keeps its counters until leave.
func (s *Set) enter() *Snapshot {
	for {
		current := s.current.Load()
		current.users.Add(1)
		if s.current.Load() == current {
			return current
		}
		current.users.Add(-1) // it may have been drained for the last time
	}
}

func (s *Snapshot) leave() { s.users.Add(-1) }

// number gives new ids to leaves without one. The caller holds mu.
func (s *Set) number() {
	if s.nextID-s.base > idsMax {
		s.renumber()
	}
	for _, l := range s.leaves {
		if l.id == 0 {
			l.id = s.nextID
			s.nextID++
		}
	}
}

// renumber invalidates all ids, so the Set looks up every series again.
func (s *Set) renumber() {
	s.base = s.nextID
	for _, l := range s.leaves {
		l.id, l.ids = 0, nil
	}
}

// publish makes the leaves the current division. The caller holds mu.
func (s *Set) publish() {
	next := &Snapshot{
		starts: make([]string, len(s.leaves)), heads: make([]head, len(s.leaves)), ids: make([]uint32, len(s.leaves)), base: s.base,
		places: make([]uint16, s.nextID-s.base), stripes: make([]stripe, s.opts.Stripes),
	}
	for at, l := range s.leaves {
		next.starts[at], next.heads[at], next.ids[at] = l.start, headOf(l.start), l.id
		next.places[l.id-s.base] = uint16(at + 1)
		for _, id := range l.ids {
			next.places[id-s.base] = uint16(at + 1)
		}
	}
	if old := s.current.Swap(next); old != nil {
		s.retired = append(s.retired, old)
	}
}

// Drain takes all counts since the last call. It calls visit with a column for each time and division, by time. The column is
// valid until visit returns.
func (s *Set) Drain(visit func(*heat.Column)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain(visit)
}

func (s *Set) drain(visit func(*heat.Column)) {
	var counts []heat.Counts
	current := s.current.Load()
	retired := s.retired
	s.retired = nil
	for _, old := range append(retired, current) {
		if old != current && old.users.Load() > 0 {
			s.retired = append(s.retired, old)
		}
		blocks, samples := old.drain()
		s.add(samples)
		for _, startMs := range slices.Sorted(maps.Keys(blocks)) {
			counts = slices.Grow(counts[:0], len(old.starts))[:len(old.starts)]
			clear(counts)
			c := &heat.Column{StartMs: startMs, SpanMs: MinuteMs, Starts: old.starts, Counts: counts}
			for _, b := range blocks[startMs] {
				b.addTo(c)
			}
			if old != current {
				s.dropFrom(c)
			}
			s.warm(c)
			visit(c)
		}
	}
	if len(s.retired) == 0 {
		s.dropped = nil
	}
}

// dropFrom removes the dropped spans from a column.
func (s *Set) dropFrom(c *heat.Column) {
	for _, d := range s.dropped {
		c.Drop(d.start, d.end)
	}
}

// Drop removes all ranges that start in [start, end), their counts, and their sampled keys. start is not "". It drains the
// remaining counts as Drain does.
func (s *Set) Drop(start, end string, visit func(*heat.Column)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := span{start, end}
	s.drain(func(c *heat.Column) {
		c.Drop(start, end)
		visit(c)
	})
	for i := len(s.leaves) - 1; i >= 0; i-- {
		l := s.leaves[i]
		l.keys = slices.DeleteFunc(l.keys, gone.has)
		if gone.has(l.start) {
			l.heat, l.peak = 0, 0
			s.join(i, "its keys are dropped")
		}
	}
	s.number()
	s.publish() // needed even without a change, because later drains may still have keys of the span
	s.dropped = append(s.dropped, gone)
}

// warm adds the counts of a column to the heat of the leaves.
func (s *Set) warm(c *heat.Column) {
	if len(c.Starts) == len(s.leaves) && &c.Starts[0] == &s.current.Load().starts[0] {
		for i := range c.Counts {
			s.leaves[i].heat += c.Counts[i].Heat()
		}
		return
	}
	heat.Spread(c.Starts, s.current.Load().starts, func(i, at int, share float64) {
		s.leaves[at].heat += c.Counts[i].Heat() * share
	})
}

// add gives samples to the leaves.
func (s *Set) add(samples []sample) {
	current := s.current.Load()
	for _, x := range samples {
		key := x.key
		if key == "" {
			key = s.opts.Key(x.ref)
		}
		if key == "" || slices.ContainsFunc(s.dropped, func(d span) bool { return d.has(key) }) {
			continue
		}
		l := s.leaves[current.Find([]byte(key))]
		if len(l.keys) < keysMax {
			l.keys = append(l.keys, key)
			continue
		}
		s.random++
		l.keys[mix(s.random)%keysMax] = key
	}
}

// Change is a split or a merge.
type Change struct {
	// Start is the start of the new range after a split, or of the removed range after a merge.
	Start string
	Split bool
	// Reason says in words why.
	Reason string
}

// Divide splits hot ranges and merges cold ones. It drains the counts as Drain does, and returns the changes.
func (s *Set) Divide(visit func(*heat.Column)) []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain(visit)
	for _, l := range s.leaves {
		l.peak = max(l.heat, l.peak)
	}
	changes := s.split()
	changes = append(changes, s.merge()...)
	for _, l := range s.leaves {
		l.heat *= decay
		l.peak *= peakDecay
	}
	if len(changes) > 0 {
		s.number()
		s.publish()
	}
	return changes
}

// Renumber makes the set look up every series again. It follows a change of the rules for keys.
func (s *Set) Renumber() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renumber()
	s.number()
	s.publish()
}

// Keys returns sampled keys of the range that holds a key, in order.
func (s *Set) Keys(key string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leaves[s.current.Load().Find([]byte(key))]
	keys := slices.Clone(l.keys)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// EachKey calls fn with each sampled key and its share of the heat.
func (s *Set) EachKey(fn func(key string, heat float64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.leaves {
		for _, key := range l.keys {
			fn(key, l.heat/float64(len(l.keys)))
		}
	}
}
