package rowcache

import (
	"halite/query/budget"
	"halite/query/column"
)

// Pins keep memory of the cache unchanged while columns of a batch lie in it. They reserve pinned samples in the budget as
// if the samples were copied. So the limit of a query does not depend on the cache. A nil Pins pins nothing.
type Pins struct {
	cache    *Cache
	regions  []*region
	pinned   []uint64 // a bit for each region
	count    int      // pinned samples
	reserved int      // samples in the budget
	// segments is the memory of Column.Segments.
	segments []column.Samples
	// unfinished are the series, ascending, whose columns lack their last samples.
	unfinished []int
}

// NewPins returns an empty Pins. The caller releases it.
func (c *Cache) NewPins() *Pins {
	p, ok := c.pins.Get().(*Pins)
	if !ok {
		p = new(Pins)
	}
	p.cache = c
	return p
}

// newSegments returns memory for n segments of a column.
func (p *Pins) newSegments(n int) []column.Samples {
	if len(p.segments)+n > cap(p.segments) {
		p.segments = make([]column.Samples, 0, max(n, 2*cap(p.segments))) // columns still use the previous segments
	}
	at := len(p.segments)
	p.segments = p.segments[:at+n]
	return p.segments[at : at : at+n]
}

func (p *Pins) unfinishedSeries() []int {
	if p == nil {
		return nil
	}
	return p.unfinished
}

// add pins the samples of the entry at a place. The caller holds the table's mu, at least for reading.
func (p *Pins) add(place uint32, samples int) {
	p.count += samples
	t := p.cache.table
	n := int(place >> t.regionBits)
	if len(p.pinned) == 0 {
		p.pinned = column.Cleared(p.pinned, len(t.regions)/64+1)
	}
	if bit := uint64(1) << (n % 64); p.pinned[n/64]&bit == 0 {
		p.pinned[n/64] |= bit
		r := t.regions[n]
		r.pinCount.Add(1)
		p.regions = append(p.regions, r)
	}
}

// Samples returns the number of pinned samples.
func (p *Pins) Samples() int {
	if p == nil {
		return 0
	}
	return p.count
}

// Any reports whether samples are pinned.
func (p *Pins) Any() bool { return p.Samples() > 0 }

// Reserve adds the samples pinned since the last call to the budget.
func (p *Pins) Reserve(b *budget.Budget) error {
	if p.Samples() == 0 || p.count == p.reserved {
		return nil
	}
	if err := b.Reserve(int64(p.count-p.reserved) * column.SampleBytes); err != nil {
		return err
	}
	p.reserved = p.count
	return nil
}

// Release unpins everything. The caller must not use the samples afterwards.
func (p *Pins) Release(b *budget.Budget) {
	if p == nil {
		return
	}
	for _, r := range p.regions {
		r.pinCount.Add(-1)
	}
	if p.reserved > 0 {
		b.Release(int64(p.reserved) * column.SampleBytes)
	}
	clear(p.regions)
	clear(p.segments)
	cache := p.cache
	*p = Pins{regions: p.regions[:0], pinned: p.pinned[:0], segments: p.segments[:0], unfinished: p.unfinished[:0]}
	if cap(p.segments) <= pooledMax {
		cache.pins.Put(p)
	}
}
