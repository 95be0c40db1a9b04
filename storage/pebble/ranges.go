package pebble

import (
	"bytes"
	"slices"

	"halite/storage"
)

// placeRange is a range of rows by their places: start ≤ place < end; an unbounded side has no place.
type placeRange struct {
	start, end rowBound
}

// hours returns the hour values of a range within one series; ok is false for a range that may touch several.
func (r *placeRange) hours() (first, last uint32, ok bool) {
	start, end := r.start.place, r.end.place
	split := len(start) - hourBytes
	if !r.start.hour || !r.end.hour || len(end) != len(start) || !bytes.Equal(start[:split], end[:split]) {
		return 0, 0, false
	}
	return hourOf(start[split:]), hourOf(end[split:]) - 1, true
}

// pickByDay returns for each of the days, newest first, which ranges can have rows there, in a family whose cells all
// carry the end of their row's hour. Without it a read of one hour a day over a year would seek each hour in each day.
func pickByDay(ranges []placeRange, days []int32) [][]int32 {
	picks := make([][]int32, len(days))
	for i := range ranges {
		first, last, ok := ranges[i].hours()
		if !ok {
			for d := range picks {
				picks[d] = append(picks[d], int32(i))
			}
			continue
		}
		if first > hourValueMax {
			continue
		}
		newest, oldest := dayOfHour(first), dayOfHour(min(last, hourValueMax))
		d, _ := slices.BinarySearchFunc(days, newest, newestFirst)
		for ; d < len(days) && days[d] >= oldest; d++ {
			picks[d] = append(picks[d], int32(i))
		}
	}
	return picks
}

// dayOfHour returns the day that holds the cells of a row's hour.
func dayOfHour(value uint32) int32 { return int32(hourValueMax-value) / 24 }

// beforeStart tells whether a row's place lies below the range.
func (r *placeRange) beforeStart(place []byte) bool { return bytes.Compare(place, r.start.place) < 0 }

// pastEnd tells whether a row's place lies above the range.
func (r *placeRange) pastEnd(place []byte) bool {
	return r.end.place != nil && bytes.Compare(place, r.end.place) >= 0
}

// seekStart appends the physical key at the start of the range in a partition.
func (r *placeRange) seekStart(dst []byte, h header) []byte {
	if len(r.start.place) == 0 {
		return appendPartitionStart(dst, h)
	}
	return r.start.appendSeek(dst, h)
}

// seekPrefix appends the physical key before all that the range's first prefix has in a partition, day chunk included.
func (r *placeRange) seekPrefix(dst []byte, h header) []byte {
	if len(r.start.place) == 0 {
		return appendPartitionStart(dst, h)
	}
	return r.start.appendPrefixSeek(dst, h)
}

// seekEnd appends the physical key at the end of the range in a partition.
func (r *placeRange) seekEnd(dst []byte, h header) []byte {
	if r.end.place == nil {
		return appendPartitionStart(dst, h.next())
	}
	return r.end.appendSeek(dst, h)
}

// makeRanges turns a row set's ranges into disjoint ascending ones of places.
func (t *Table) makeRanges(in []storage.RowRange) []placeRange {
	size := 0
	for i := range in {
		size += rowBoundBytesMax(len(in[i].Start)) + rowBoundBytesMax(len(in[i].End))
	}
	arena := make([]byte, 0, size)
	out := make([]placeRange, 0, len(in))
	sorted := true
	for i := range in {
		var r placeRange
		if len(in[i].Start) > 0 {
			r.start, arena = makeRowBound(arena, t.hourKeys, in[i].Start)
		}
		if len(in[i].End) > 0 {
			r.end, arena = makeRowBound(arena, t.hourKeys, in[i].End)
			if bytes.Compare(r.start.place, r.end.place) >= 0 {
				continue
			}
		}
		if n := len(out); n > 0 && !out[n-1].pastEnd(r.start.place) {
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
func mergeRanges(ranges []placeRange) []placeRange {
	slices.SortFunc(ranges, func(a, b placeRange) int { return bytes.Compare(a.start.place, b.start.place) })
	out := ranges[:1]
	for _, r := range ranges[1:] {
		last := &out[len(out)-1]
		if last.pastEnd(r.start.place) {
			out = append(out, r)
			continue
		}
		if last.end.place != nil && (r.end.place == nil || bytes.Compare(r.end.place, last.end.place) > 0) {
			last.end = r.end
		}
	}
	return out
}

// setRanges returns the ranges of a row set, single keys included.
func (t *Table) setRanges(set *storage.RowSet) []placeRange {
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
	return t.makeRanges(in)
}
