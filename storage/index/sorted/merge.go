package sorted

import (
	"cmp"
	"slices"
)

// MergeRuns sorts a slice that consists of a few sorted runs, stably, in n·log(runs).
func MergeRuns[T any](s []T, compare func(a, b T) int) []T {
	ends := []int{}
	for i := 1; i < len(s); i++ {
		if compare(s[i-1], s[i]) > 0 {
			ends = append(ends, i)
		}
	}
	if len(ends) == 0 {
		return s
	}
	ends = append(ends, len(s))
	spare := make([]T, len(s))
	for len(ends) > 1 {
		from, out := 0, ends[:0]
		for i := 0; i < len(ends); i += 2 {
			mid, to := ends[i], ends[i]
			if i+1 < len(ends) {
				to = ends[i+1]
			}
			Merge(spare[from:to], s[from:mid], s[mid:to], compare)
			out = append(out, to)
			from = to
		}
		s, spare, ends = spare, s, out
	}
	return s
}

func Merge[T any](dst, a, b []T, compare func(a, b T) int) {
	for n := range dst {
		if len(b) == 0 || len(a) > 0 && compare(a[0], b[0]) <= 0 {
			dst[n], a = a[0], a[1:]
		} else {
			dst[n], b = b[0], b[1:]
		}
	}
}

// Union merges two sorted lists and drops duplicates. It may return one of the lists.
func Union(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 || slices.Equal(a, b) {
		return a
	}
	out := make([]string, 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		switch c := cmp.Compare(a[0], b[0]); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}
