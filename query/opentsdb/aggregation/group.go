package aggregation

import (
	"math"
	"slices"
)

// Group holds the series that are aggregated into one Result.
type Group struct {
	Aggregator *Aggregator
	// Downsampled and Rate record how the series were transformed. After either transformation no value is an integer.
	Downsampled, Rate bool
	// Series are the results of Transforms, in a fixed order, because sums of doubles depend on the order.
	Series []Points
}

// Result holds the points of a group. Either Integers or Doubles has a value for each time.
type Result struct {
	TsMs     []int64
	Integers []int64
	Doubles  []float64
	// Interpolated means that at some time a series without a point contributed a value.
	Interpolated bool
}

// Len returns the number of points.
func (a *Result) Len() int { return len(a.TsMs) }

// Clip omits the points outside a range of times, both ends inclusive.
func (a *Result) Clip(fromMs, toMs int64) {
	first, _ := slices.BinarySearch(a.TsMs, fromMs)
	end := first + len(clip(a.TsMs, fromMs, toMs))
	a.TsMs = a.TsMs[first:end]
	if a.Integers != nil {
		a.Integers = a.Integers[first:end]
	} else {
		a.Doubles = a.Doubles[first:end]
	}
}

// blockValues bounds the values that are aggregated at once.
const blockValues = 1 << 15

// Aggregate returns the points within a range of times, both ends inclusive.
func (g *Group) Aggregate(fromMs, toMs int64) Result {
	shown := g.Series
	if g.Rate {
		// The first rate of a series is never shown.
		shown = make([]Points, 0, len(g.Series))
		for _, s := range g.Series {
			if s.Len() > 1 {
				shown = append(shown, Points{TsMs: s.TsMs[1:], Values: s.Values[1:]})
			}
		}
	}
	out := Result{TsMs: clip(Union(shown), fromMs, toMs)}
	if out.Len() == 0 {
		return out
	}
	if g.integers() {
		out.Integers = make([]int64, 0, out.Len())
		rows[int64]{g, &out, longKind{}}.run(func(row []int64) { out.Integers = append(out.Integers, g.Aggregator.longs(row)) })
		return out
	}
	out.Doubles = make([]float64, 0, out.Len())
	rows[float64]{g, &out, doubleKind{}}.run(func(row []float64) { out.Doubles = append(out.Doubles, g.Aggregator.doubles(row)) })
	return out
}

// integers reports whether the group has integers only.
func (g *Group) integers() bool {
	if g.Downsampled || g.Rate {
		return false
	}
	for i := range g.Series {
		if !g.Series[i].integers() {
			return false
		}
	}
	return true
}

// Union returns the times of all series, ascending and without duplicates.
func Union(series []Points) (all []int64) {
	for _, s := range series {
		if slices.Equal(all, s.TsMs) {
			continue
		}
		if len(all) == 0 {
			all = s.TsMs
			continue
		}
		all = merged(all, s.TsMs)
	}
	return all
}

func merged(a, b []int64) []int64 {
	out := make([]int64, 0, len(a)+len(b)/8)
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			out, a = append(out, a[0]), a[1:]
		case a[0] > b[0]:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

func clip(tsMs []int64, fromMs, toMs int64) []int64 {
	first, _ := slices.BinarySearch(tsMs, fromMs)
	end, found := slices.BinarySearch(tsMs, toMs)
	if found {
		end++
	}
	return tsMs[first:max(first, end)]
}

// kind is the arithmetic of integers or of doubles.
type kind[T int64 | float64] interface {
	convert(v float64) T
	// between interpolates at a time between two points.
	between(m Interpolation, tsMs, leftMs, rightMs int64, left, right float64) T
}

type longKind struct{}

func (longKind) convert(v float64) int64 { return int64(v) }

func (longKind) between(m Interpolation, tsMs, leftMs, rightMs int64, left, right float64) int64 {
	switch m {
	case Zero:
		return 0
	case Highest:
		return math.MaxInt64
	case Lowest:
		return math.MinInt64
	case Previous:
		return int64(left)
	}
	return int64(left) + (tsMs-leftMs)*(int64(right)-int64(left))/(rightMs-leftMs)
}

type doubleKind struct{}

func (doubleKind) convert(v float64) float64 { return v }

func (doubleKind) between(m Interpolation, tsMs, leftMs, rightMs int64, left, right float64) float64 {
	switch m {
	case Zero:
		return 0
	case Highest:
		return math.MaxFloat64
	case Lowest:
		return -math.MaxFloat64
	case Previous:
		return left
	}
	return left + float64(float64(tsMs-leftMs)*(right-left))/float64(rightMs-leftMs)
}

// rows collects the values that the series contribute at each time.
type rows[T int64 | float64] struct {
	group *Group
	out   *Result
	kind  kind[T]
}

// run calls add for each time, with the values of the time in the order of the series.
func (r rows[T]) run(add func(row []T)) {
	n := len(r.group.Series)
	length := min(max(1, blockValues/n), len(r.out.TsMs))
	block, filled, at := make([]T, length*n), make([]int, length), make([]int, n)
	for times := r.out.TsMs; len(times) > 0; times = times[length:] {
		length = min(length, len(times))
		clear(filled)
		for i := range r.group.Series {
			at[i] = r.fill(&r.group.Series[i], at[i], times[:length], func(j int, v T) {
				block[j*n+filled[j]] = v
				filled[j]++
			})
		}
		for j := range length {
			add(block[j*n : j*n+filled[j]])
		}
	}
}

// fill passes the values of a series at some times to put. at is a lower bound of the index of the first point at or after the
// first time. fill returns the index of the first point at or after the last time.
func (r rows[T]) fill(s *Points, at int, times []int64, put func(j int, v T)) int {
	if s.Len() == 0 || r.group.Rate && s.Len() == 1 {
		return at
	}
	if r.group.Rate && at == 0 {
		at = 1
	}
	end := s.Len()
	for j, tsMs := range times {
		for at < end && s.TsMs[at] < tsMs {
			at++
		}
		switch {
		case at == end:
			return at
		case s.TsMs[at] == tsMs:
			put(j, r.kind.convert(s.Values[at]))
		case r.group.Rate:
			put(j, r.kind.convert(s.Values[at-1]))
			r.out.Interpolated = true
		case at > 0:
			put(j, r.kind.between(r.group.Aggregator.method, tsMs, s.TsMs[at-1], s.TsMs[at], s.Values[at-1], s.Values[at]))
			r.out.Interpolated = true
		}
	}
	return at
}
