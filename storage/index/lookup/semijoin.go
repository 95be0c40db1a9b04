package lookup

import (
	"context"
	"math/bits"
	"slices"
	"sync"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/storage/index/memory"
)

// JoinKeys are the series on the other side of a join. If On is set, two series are partners if they have equal values of
// the labels Names. Otherwise all labels except Names and the metric must be equal.
type JoinKeys struct {
	Labels []labels.Labels
	On     bool
	Names  []string
	// Alike also keeps a series without a partner if another found series has equal values of these labels.
	Alike bool
}

// SelectJoin is Select without series that have no partner. It omits only series that it can find cheaply, before it makes and
// sorts labels. It also returns the number of omitted series.
func (x *Reader) SelectJoin(
	ctx context.Context, budget Budget, p *JoinKeys, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) (found []Series, left int, err error) {
	q, ok := x.newQuery(ctx, budget, mintMs, maxtMs, matchers)
	if !ok {
		return nil, 0, ctx.Err()
	}
	c := newCollector(q)
	defer c.close()
	if _, one := metricNamed(q.matchers); one { // a series of another metric could have equal labels
		c.join = p
	}
	found, err = c.run()
	return found, c.omitted, err
}

// omitUnmatched removes the rows without a partner from the rows of a table.
func (c *collector) omitUnmatched(v *memory.View, rows []uint32) []uint32 {
	p := c.join
	if len(p.Labels) >= len(rows) {
		return rows // the filter would omit hardly any rows
	}
	columns := make([]uint16, 0, len(v.ByName))
	for _, pos := range v.ByName {
		if p.compares(v.Columns[pos].Dict.Name) {
			columns = append(columns, pos)
		}
	}
	scratch := joinPool.Get().(*joinScratch)
	defer scratch.release()
	marks := scratch.newMarks(len(rows) + len(p.Labels))
	for _, ls := range p.Labels {
		if hash, ok := p.hash(v, ls); ok {
			marks.find(hash).state = partnered
		}
	}
	marked := slices.Grow(scratch.markOf[:0], len(rows))[:len(rows)]
	scratch.markOf = marked
	for i, row := range rows {
		hash := uint64(0)
		for _, pos := range columns {
			if id := v.Data[pos].At(row); id != 0 {
				hash += memory.HashValue(v.Columns[pos].Dict.ID, id)
			}
		}
		marked[i] = marks.find(hash)
		switch marked[i].state {
		case unseen:
			marked[i].state = seen
		case seen:
			marked[i].state = alike
		}
	}
	kept := make([]uint32, 0, len(p.Labels)+1)
	for i, row := range rows {
		if s := marked[i].state; s == partnered || p.Alike && s == alike {
			kept = append(kept, row)
		}
	}
	c.omitted += len(rows) - len(kept)
	return kept
}

// compares reports whether partners must have equal values of a label.
func (p *JoinKeys) compares(name string) bool {
	if name == model.MetricNameLabel && !p.On {
		return false
	}
	return slices.Contains(p.Names, name) == p.On
}

// hash returns the hash of the rows of a table that match a series; ok is false if no row does.
func (p *JoinKeys) hash(v *memory.View, ls labels.Labels) (hash uint64, ok bool) {
	if p.compares(model.MetricNameLabel) && ls.Get(model.MetricNameLabel) != v.Metric() {
		return 0, false
	}
	ok = true
	ls.Range(func(l labels.Label) {
		if !ok || l.Name == model.MetricNameLabel || !p.compares(l.Name) {
			return
		}
		id, pos := uint32(0), v.Find(l.Name)
		if pos >= 0 {
			id = v.Columns[pos].Dict.Lookup(l.Value)
		}
		if ok = id != 0; ok {
			hash += memory.HashValue(v.Columns[pos].Dict.ID, id)
		}
	})
	return hash, ok
}

// marks is a hash table of the states of rows by their hash. Rows with equal hashes count as equal. So the result may
// keep a few rows without a partner.
type marks []mark

type mark struct {
	hash  uint64
	state uint8
}

const (
	unseen    uint8 = iota
	seen            // one row has the hash
	alike           // several rows have it
	partnered       // a partner has it
)

// joinScratch is memory that omitUnmatched reuses.
type joinScratch struct {
	marks  marks
	markOf []*mark
}

var joinPool = sync.Pool{New: func() any { return new(joinScratch) }}

// marksKept bounds the size of a table that is reused. Larger tables are rare, and keeping them would waste memory.
const marksKept = 1 << 16

func (s *joinScratch) release() {
	if cap(s.marks) <= marksKept {
		joinPool.Put(s)
	}
}

// newMarks makes a table for up to n hashes.
func (s *joinScratch) newMarks(n int) marks {
	size := 1 << bits.Len(uint(2*n))
	if cap(s.marks) < size {
		s.marks = make(marks, size)
	}
	s.marks = s.marks[:size]
	clear(s.marks)
	return s.marks
}

// find returns the mark of a hash. The mark belongs to the hash once it has a state.
func (m marks) find(hash uint64) *mark {
	mask := uint64(len(m) - 1)
	at := hash & mask
	for m[at].state != unseen && m[at].hash != hash {
		at = (at + 1) & mask
	}
	m[at].hash = hash
	return &m[at]
}
