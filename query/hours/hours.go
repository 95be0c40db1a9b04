package hours

import (
	"slices"

	"halite/storage/index"
)

// Bounds returns the first and the last hour of spans within [from, to]. ok is false if there are none.
func Bounds(spans []index.HourSpan, from, to int64) (first, last int64, ok bool) {
	for at := Search(spans, from); at < len(spans) && spans[at].First <= to; at++ {
		if !ok {
			first, ok = max(spans[at].First, from), true
		}
		last = min(spans[at].Last, to)
	}
	return first, last, ok && from <= to
}

// Search returns the number of spans that end before an hour.
func Search(spans []index.HourSpan, hour int64) int {
	at, _ := slices.BinarySearchFunc(spans, hour, func(s index.HourSpan, hour int64) int {
		if s.Last < hour {
			return -1
		}
		return 1
	})
	return at
}

// Count returns the number of hours in the spans.
func Count(hours []index.HourSpan) int {
	n := 0
	for _, h := range hours {
		n += int(h.Last - h.First + 1)
	}
	return n
}

// Intersect returns the hours that are in both lists.
func Intersect(a, b []index.HourSpan) []index.HourSpan {
	var out []index.HourSpan
	for len(a) > 0 && len(b) > 0 {
		if first, last := max(a[0].First, b[0].First), min(a[0].Last, b[0].Last); first <= last {
			out = append(out, index.HourSpan{First: first, Last: last})
		}
		if a[0].Last < b[0].Last {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

// CountWithin returns the number of hours of spans within [first, last].
func CountWithin(spans []index.HourSpan, first, last int64) int64 {
	n := int64(0)
	for _, s := range spans {
		n += max(0, min(s.Last, last)-max(s.First, first)+1)
	}
	return n
}
