package lookup

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/zeebo/xxh3"

	"halite/storage/index/envelope"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
	"halite/storage/index/sorted"
)

// collector collects the rows that a query visits. If the window contains closed days, it identifies each series by a 128-bit
// hash of its labels. So it builds the label set of a series only once, even if the series occurs on many days.
//
// Rows come in the order of labels from the active index and from each segment. So the next series usually follows the last
// one. The collector makes the hash table only after that guess has failed.
type collector struct {
	q       *query
	builder labels.ScratchBuilder
	merging bool
	found   []*foundPage
	count   int
	next    int // number of the series that probably comes next
	fresh   bool
	index   keyIndex
	spans   []presence.Span // memory for the hours of series
	same    []presence.Span // hours of the last active series; most series have the same ones
	// sameDay and sameWord are the day and the bitmap of same, if same covers one day.
	sameDay  int64
	sameWord uint32
	key      []byte
	sort     memory.SortScratch
	// join holds the keys of a join. The collector omits series without a partner; a nil join keeps all. omitted counts the
	// omitted series.
	join    *JoinKeys
	omitted int
}

func newCollector(q *query) *collector {
	return &collector{q: q, builder: labels.NewScratchBuilder(16)}
}

// found is a series. If it has no labels, it is active, at row of v.
type found struct {
	key    xxh3.Uint128
	labels labels.Labels
	hours  []presence.Span
	v      *memory.View
	row    uint32
	ref    memory.Ref
}

// foundBytes and seriesBytes are the sizes of a found and a Series without their labels.
const (
	foundBytes  = int(unsafe.Sizeof(found{}))
	SeriesBytes = int(unsafe.Sizeof(Series{}))
)

const foundPageSize = 64

type foundPage [foundPageSize]found

var foundPool = sync.Pool{New: func() any { return new(foundPage) }}

func (c *collector) at(i int) *found { return &c.found[i/foundPageSize][i%foundPageSize] }

// add appends a series.
func (c *collector) add() *found {
	if c.count == len(c.found)*foundPageSize {
		c.found = append(c.found, foundPool.Get().(*foundPage))
	}
	c.count++
	return c.at(c.count - 1)
}

// close frees the memory. The returned series do not refer to it.
func (c *collector) close() {
	for _, p := range c.found {
		clear(p[:])
		foundPool.Put(p)
	}
	c.found, c.count = nil, 0
}

// entry returns the series of a key, and appends it if it is new.
func (c *collector) entry(key xxh3.Uint128) *found {
	if c.next < c.count {
		if f := c.at(c.next); f.key == key {
			c.next++
			return f
		}
	}
	if !c.fresh {
		for i := c.index.count; i < c.count; i++ {
			c.index.add(c, c.at(i).key)
		}
		if i, ok := c.index.find(c, key); ok {
			c.next = i + 1
			return c.at(i)
		}
	}
	f := c.add()
	f.key = key
	if c.fresh {
		c.next = c.count
	}
	return f
}

// keyIndex is a hash table of the first count series of a collector. The upper half of a slot is a part of the key. The lower
// half is the number of the series plus one, or 0 if the slot is free.
type keyIndex struct {
	slots []uint64
	count int
}

func keySlot(key xxh3.Uint128, i int) uint64 { return key.Lo&^0xffffffff | uint64(i+1) }

// add enters the key of the next series.
func (x *keyIndex) add(c *collector, key xxh3.Uint128) {
	if (x.count+1)*4 > len(x.slots)*3 {
		size := max(256, 2*len(x.slots))
		for c.count*4 > size*3 {
			size *= 2
		}
		x.slots = make([]uint64, size)
		for i := range x.count {
			x.place(c.at(i).key, i)
		}
	}
	x.place(key, x.count)
	x.count++
}

func (x *keyIndex) place(key xxh3.Uint128, i int) {
	mask := uint64(len(x.slots) - 1)
	at := key.Hi & mask
	for x.slots[at] != 0 {
		at = (at + 1) & mask
	}
	x.slots[at] = keySlot(key, i)
}

func (x *keyIndex) find(c *collector, key xxh3.Uint128) (i int, ok bool) {
	mask := uint64(len(x.slots) - 1)
	for at := key.Hi & mask; x.slots[at] != 0; at = (at + 1) & mask {
		if slot := x.slots[at]; (slot^key.Lo)>>32 == 0 {
			if i = int(uint32(slot)) - 1; c.at(i).key == key {
				return i, true
			}
		}
	}
	return 0, false
}

func (c *collector) addActive(v *memory.View, rows []uint32) error {
	if c.join != nil && !c.merging {
		rows = c.omitUnmatched(v, rows)
	}
	rows = v.SortRows(rows, &c.sort)
	var kept *memory.View
	for i, row := range rows {
		if i%4096 == 4095 && c.q.ctx.Err() != nil {
			return c.q.ctx.Err()
		}
		ref := v.Ref(row)
		if ref == 0 {
			continue // retired
		}
		hours := c.activeHours(ref)
		if !c.merging {
			if len(hours) > 0 {
				f := c.add()
				f.labels, f.ref, f.hours = v.Labels(row, &c.builder), ref, hours
				if err := c.q.charge(foundBytes + int(f.labels.ByteSize())); err != nil {
					return err
				}
			}
			continue
		}
		if err := c.q.charge(foundBytes); err != nil {
			return err
		}
		// All hours of a series may be on closed days. The head may still hold samples of the series, so it needs its ref.
		if kept == nil {
			kept = v.Clone()
		}
		f := c.add()
		f.key, f.ref, f.v, f.row, f.hours = c.activeKey(v, row), ref, kept, row, hours
	}
	return nil
}

// activeHours returns the hours of an active series. It may share them with other series, unless the caller will add hours
// of closed days.
func (c *collector) activeHours(ref memory.Ref) []presence.Span {
	if d := c.q.onlyDay(); d != nil && !c.merging {
		return c.hoursOf(d.Day, d.Hours(ref)&presence.HoursWithin(d.Day, c.q.first, c.q.to))
	}
	n := len(c.spans)
	hours := c.newSpans(func(s []presence.Span) []presence.Span { return c.q.activeHours(s, ref) })
	if c.merging {
		return hours
	}
	if slices.Equal(hours, c.same) {
		c.spans = c.spans[:min(n, len(c.spans))]
	} else {
		c.same = hours
	}
	return c.same
}

// hoursOf returns the spans of the given hours of one day. Other series may share them.
func (c *collector) hoursOf(day int64, word uint32) []presence.Span {
	switch {
	case word == 0:
		return nil
	case word != c.sameWord || day != c.sameDay:
		c.same = c.newSpans(func(s []presence.Span) []presence.Span { return presence.AppendSpans(s, day, word) })
		c.sameDay, c.sameWord = day, word
	}
	return c.same
}

// newSpans calls fill with spare memory of the collector. So most series need no allocation.
func (c *collector) newSpans(fill func([]presence.Span) []presence.Span) []presence.Span {
	const spansMax = 32 // number of spans that one series is likely to need
	if cap(c.spans)-len(c.spans) < spansMax {
		c.spans = make([]presence.Span, 0, min(max(2*spansMax, 2*cap(c.spans)), 4096))
	}
	n := len(c.spans)
	out := fill(c.spans[n:n])
	if n+len(out) <= cap(c.spans) {
		c.spans = c.spans[:n+len(out)]
	}
	return slices.Clip(out)
}

func (c *collector) activeKey(v *memory.View, row uint32) xxh3.Uint128 {
	key := envelope.AppendText(c.key[:0], v.Metric())
	for _, pos := range v.ByName {
		if id := v.Data[pos].At(row); id != 0 {
			d := v.Columns[pos].Dict
			key = envelope.AppendText(envelope.AppendText(key, d.Name), d.Value(id))
		}
	}
	c.key = key
	return xxh3.Hash128Seed(key, c.q.reader.seed)
}

// addSegment adds the rows of a segment. The series of one segment are distinct, so the first segment needs no comparisons.
func (c *collector) addSegment(s *segment.Segment) error {
	c.fresh, c.next = c.count == 0, 0
	return c.q.scanSegment(s, c.addBlock)
}

func (c *collector) addBlock(s *segment.Segment, b *segment.Block, rows []uint32) error {
	r, err := s.RowReader(c.q.ctx, b)
	if err != nil {
		return err
	}
	var hours []presence.Span // hours of the last pattern; most rows have the same ones
	last := uint32(1<<32 - 1)
	for i, row := range rows {
		if i%4096 == 4095 && c.q.ctx.Err() != nil {
			return c.q.ctx.Err()
		}
		n, err := b.PatternNumber(row)
		if err != nil {
			return s.CorruptHours(b, err)
		}
		if n != last {
			hours, last = b.Pattern(n).AppendSpans(hours[:0], s.Handle.Partition.FirstDay(), &s.Window), n
		}
		if len(hours) == 0 {
			continue
		}
		key, err := r.Key(c.key[:0], row)
		if err != nil {
			return err
		}
		c.key = key
		f := c.entry(xxh3.Hash128Seed(key, c.q.reader.seed))
		if f.v == nil && f.labels.IsEmpty() {
			f.labels = r.Labels(&c.builder)
			if err := c.q.charge(foundBytes + int(f.labels.ByteSize())); err != nil {
				return err
			}
		}
		switch k := len(f.hours) - 1; {
		case k < 0:
			f.hours = c.newSpans(func(sp []presence.Span) []presence.Span { return append(sp, hours...) })
		case f.hours[k].Last+1 == hours[0].First:
			f.hours[k].Last = hours[0].Last
			f.hours = append(f.hours, hours[1:]...)
		default:
			f.hours = append(f.hours, hours...)
		}
	}
	return nil
}

// finish builds the missing labels, sorts the series, and drops series without hours.
func (c *collector) finish() ([]Series, error) {
	count := 0
	for i := range c.count {
		if len(c.at(i).hours) > 0 {
			count++
		}
	}
	if err := c.q.charge(count * SeriesBytes); err != nil {
		return nil, err
	}
	out := make([]Series, 0, count)
	for i := range c.count {
		f := c.at(i)
		if len(f.hours) == 0 {
			continue
		}
		ls := f.labels
		if f.v != nil {
			ls = f.v.Labels(f.row, &c.builder)
			if err := c.q.charge(int(ls.ByteSize())); err != nil {
				return nil, err
			}
		}
		out = append(out, Series{Labels: ls, Ref: f.ref, Hours: presence.Normalize(f.hours)})
	}
	// Rows of each segment and of each table are sorted.
	out = sorted.MergeRuns(out, func(a, b Series) int { return labels.Compare(a.Labels, b.Labels) })
	return out, c.q.ctx.Err()
}
