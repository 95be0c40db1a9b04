package histchunk

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
)

// negativeKey is added to the index of a negative bucket. So its key is above the keys of all positive buckets.
const negativeKey = 1 << 60

// A group may store absent buckets as zeros: up to wasteMax for each present bucket, plus wasteFree in all.
const (
	wasteMax  = 3
	wasteFree = 1024
)

// sides holds the spans of both sides of a histogram, and the numbers of their buckets.
type sides struct {
	positiveSpans, negativeSpans     []histogram.Span
	positiveBuckets, negativeBuckets int
}

func (s *sides) equal(o *sides) bool {
	return slices.Equal(s.positiveSpans, o.positiveSpans) && slices.Equal(s.negativeSpans, o.negativeSpans) &&
		s.positiveBuckets == o.positiveBuckets && s.negativeBuckets == o.negativeBuckets
}

// buckets is the number of buckets of both sides, and spans the number of their spans.
func (s *sides) buckets() int { return s.positiveBuckets + s.negativeBuckets }

func (s *sides) spans() int { return len(s.positiveSpans) + len(s.negativeSpans) }

// layout is the sides of a histogram and the keys of its buckets. The keys ascend, positive buckets first.
type layout struct {
	sides
	keys []int64
}

// setKeys fills the keys.
func (l *layout) setKeys() {
	l.keys = appendKeys(slices.Grow(l.keys[:0], l.buckets()), l.positiveSpans, 0)
	l.keys = appendKeys(l.keys, l.negativeSpans, negativeKey)
}

func appendKeys(keys []int64, spans []histogram.Span, key int64) []int64 {
	for _, s := range spans {
		key += int64(s.Offset)
		for range s.Length {
			keys = append(keys, key)
			key++
		}
	}
	return keys
}

// numbers is the size of the layout in the unit of NumbersMax.
func (l *layout) numbers() int { return l.buckets() + l.spans() }

// run is a run of consecutive samples of a group: all have one layout, or all are stale markers, which have none.
type run struct {
	layout
	length int
	stale  bool
	next   int // position in keys of the next column
}

// group is a run of consecutive samples of one shape.
type group struct {
	shape
	shaped  bool // a sample other than a stale marker has set shape
	samples int
	counted int     // samples without stale markers
	cells   int     // buckets of all samples
	layouts int     // spans and keys of all runs
	union   []int64 // keys of the buckets of all samples
	runs    []run
	hints   []hintRun
	merged  []int64 // scratch of merge
}

// hintRun is a run of consecutive samples with one reset hint.
type hintRun struct {
	length int
	hint   histogram.CounterResetHint
}

// numbers is the size of the decoded group in the unit of NumbersMax.
func (g *group) numbers() int {
	return g.samples*sampleNumbers + g.counted*len(g.union) + g.layouts + len(g.custom)
}

func (g *group) reset(v *view) {
	g.shape, g.shaped = shape{float: v.float}, false
	g.samples, g.counted, g.cells, g.layouts = 0, 0, 0, 0
	g.union, g.runs, g.hints = g.union[:0], g.runs[:0], g.hints[:0]
}

// plan fills g with samples until the group is full. An error describes the fault of the next sample.
func (g *group) plan(samples []Sample) error {
	for i := range samples {
		if (samples[i].H == nil) == (samples[i].FH == nil) {
			return fmt.Errorf("%w: sample %d must have exactly one histogram", ErrBadSamples, i)
		}
		v := viewOf(&samples[i])
		if i == 0 {
			g.reset(&v)
		}
		last := len(g.runs) - 1
		same := last >= 0 && g.runs[last].stale == v.stale && g.float == v.float && v.hint <= histogram.GaugeType
		if same && !v.stale {
			same = g.shape.equal(&v.shape) && g.runs[last].sides.equal(&v.sides)
		}
		if !same {
			if err := v.check(); err != nil {
				return fmt.Errorf("%w: sample at %d: %w", ErrBadSamples, samples[i].TsMs, err)
			}
			if !g.start(&v) {
				return nil
			}
		}
		g.add(&v)
	}
	return nil
}

// add counts a sample into the last run.
func (g *group) add(v *view) {
	last := &g.runs[len(g.runs)-1]
	last.length++
	g.samples++
	if !v.stale {
		g.counted++
		g.cells += len(last.keys)
	}
	if n := len(g.hints); n > 0 && g.hints[n-1].hint == v.hint {
		g.hints[n-1].length++
	} else {
		g.hints = append(g.hints, hintRun{1, v.hint})
	}
}

// start begins a run. It returns false if the sample belongs to another group.
func (g *group) start(v *view) bool {
	if g.float != v.float || !v.stale && g.shaped && !g.shape.equal(&v.shape) {
		return false
	}
	if v.stale {
		g.push().stale = true
		return true
	}
	r := g.push()
	r.stale = false
	r.sides = v.sides
	r.setKeys()
	g.merge(r.keys)
	zeros := (g.counted+1)*len(g.merged) - g.cells - len(r.keys)
	if g.shaped && zeros > wasteMax*(g.cells+len(r.keys))+wasteFree {
		g.runs = g.runs[:len(g.runs)-1]
		return false
	}
	g.union, g.merged = g.merged, g.union
	g.shape, g.shaped = v.shape, true
	g.layouts += r.numbers()
	return true
}

// push appends a run and reuses the memory of the keys in its place.
func (g *group) push() *run {
	n := len(g.runs)
	if n == cap(g.runs) {
		g.runs = slices.Grow(g.runs, n+1)
	}
	g.runs = g.runs[:n+1]
	r := &g.runs[n]
	*r = run{layout: layout{keys: r.keys[:0]}}
	return r
}

// merge sets g.merged to the union of g.union and keys.
func (g *group) merge(keys []int64) {
	a, out := g.union, g.merged[:0]
	for len(a) > 0 && len(keys) > 0 {
		switch {
		case a[0] < keys[0]:
			out, a = append(out, a[0]), a[1:]
		case a[0] > keys[0]:
			out, keys = append(out, keys[0]), keys[1:]
		default:
			out, a, keys = append(out, a[0]), a[1:], keys[1:]
		}
	}
	g.merged = append(append(out, a...), keys...)
}

// setUnion sets the union of the runs. It returns false if the columns would exceed NumbersMax.
func (g *group) setUnion() bool {
	g.union = g.union[:0]
	for i := range g.runs {
		if r := &g.runs[i]; !r.stale {
			g.merge(r.keys)
			if g.union, g.merged = g.merged, g.union; len(g.union) > NumbersMax/g.counted {
				return false
			}
		}
	}
	return true
}
