package cellkey

import (
	"bytes"
	"cmp"
	"slices"

	"halite/storage"
)

// Range is a range of encoded rows: Start ≤ row < End. An unbounded side has no Row.
type Range struct {
	Start, End Bound
}

// hours returns the hour values of a range within one series. ok is false for a range that may touch several series.
func (r *Range) hours() (first, last uint32, ok bool) {
	start, end := r.Start.Row, r.End.Row
	split := len(start) - HourBytes
	if !r.Start.EndsInHour || !r.End.EndsInHour || len(end) != len(start) || !bytes.Equal(start[:split], end[:split]) {
		return 0, 0, false
	}
	return HourOf(start[split:]), HourOf(end[split:]) - 1, true
}

// PickByDay returns, for each day, newest first, the indexes of the ranges that can have rows there. The timestamp of every
// cell must be the end of its row's hour. Without this function, a read of one hour a day over a year would seek each hour
// in each day.
func PickByDay(ranges []Range, days []int32) [][]int32 {
	picks := make([][]int32, len(days))
	for i := range ranges {
		first, last, ok := ranges[i].hours()
		if !ok {
			for d := range picks {
				picks[d] = append(picks[d], int32(i))
			}
			continue
		}
		if first > HourValueMax {
			continue
		}
		newest, oldest := dayOfHour(first), dayOfHour(min(last, HourValueMax))
		d, _ := slices.BinarySearchFunc(days, newest, NewestFirst)
		for ; d < len(days) && days[d] >= oldest; d++ {
			picks[d] = append(picks[d], int32(i))
		}
	}
	return picks
}

// NewestFirst compares days in the order of the tree.
func NewestFirst(day, other int32) int { return cmp.Compare(other, day) }

// dayOfHour returns the day of the cells in a row's hour.
func dayOfHour(value uint32) int32 { return int32(HourValueMax-value) / 24 }

// BeforeStart reports whether an encoded row lies below the range.
func (r *Range) BeforeStart(place []byte) bool { return bytes.Compare(place, r.Start.Row) < 0 }

// PastEnd reports whether an encoded row lies above the range.
func (r *Range) PastEnd(place []byte) bool {
	return r.End.Row != nil && bytes.Compare(place, r.End.Row) >= 0
}

// SeekStart appends the key at the start of the range in a partition.
func (r *Range) SeekStart(dst []byte, h Header) []byte {
	if len(r.Start.Row) == 0 {
		return AppendPartitionStart(dst, h)
	}
	return r.Start.AppendSeek(dst, h)
}

// SeekPrefix appends the key before the first prefix of the range in a partition, and before the prefix's day chunk.
func (r *Range) SeekPrefix(dst []byte, h Header) []byte {
	if len(r.Start.Row) == 0 {
		return AppendPartitionStart(dst, h)
	}
	return r.Start.appendPrefixSeek(dst, h)
}

// SeekEnd appends the key at the end of the range in a partition.
func (r *Range) SeekEnd(dst []byte, h Header) []byte {
	if r.End.Row == nil {
		return AppendPartitionStart(dst, h.Next())
	}
	return r.End.AppendSeek(dst, h)
}

// NewRanges encodes row ranges. The result is disjoint and ascending.
func (l Layout) NewRanges(in []storage.RowRange) []Range {
	size := 0
	for i := range in {
		size += BoundBytesMax(len(in[i].Start)) + BoundBytesMax(len(in[i].End))
	}
	arena := make([]byte, 0, size)
	out := make([]Range, 0, len(in))
	sorted := true
	for i := range in {
		var r Range
		if len(in[i].Start) > 0 {
			r.Start, arena = l.NewBound(arena, in[i].Start)
		}
		if len(in[i].End) > 0 {
			r.End, arena = l.NewBound(arena, in[i].End)
			if bytes.Compare(r.Start.Row, r.End.Row) >= 0 {
				continue
			}
		}
		if n := len(out); n > 0 && !out[n-1].PastEnd(r.Start.Row) {
			sorted = false
		}
		out = append(out, r)
	}
	if sorted {
		return out
	}
	return mergeRanges(out)
}

// mergeRanges sorts ranges and joins those that overlap.
func mergeRanges(ranges []Range) []Range {
	slices.SortFunc(ranges, func(a, b Range) int { return bytes.Compare(a.Start.Row, b.Start.Row) })
	out := ranges[:1]
	for _, r := range ranges[1:] {
		last := &out[len(out)-1]
		if last.PastEnd(r.Start.Row) {
			out = append(out, r)
			continue
		}
		if last.End.Row != nil && (r.End.Row == nil || bytes.Compare(r.End.Row, last.End.Row) > 0) {
			last.End = r.End
		}
	}
	return out
}

// SetRanges encodes the ranges and single keys of a row set. The result is disjoint and ascending.
func (l Layout) SetRanges(set *storage.RowSet) []Range {
	in := set.Ranges
	if len(set.Keys) > 0 {
		size := 0
		for _, key := range set.Keys {
			size += len(key) + 1
		}
		arena := make([]byte, 0, size)
		in = make([]storage.RowRange, 0, len(set.Keys)+len(set.Ranges))
		for _, key := range set.Keys {
			if len(key) == 0 {
				continue
			}
			start := len(arena)
			arena = append(append(arena, key...), 0)
			in = append(in, storage.RowRange{Start: key, End: arena[start:]})
		}
		in = append(in, set.Ranges...)
	}
	return l.NewRanges(in)
}
