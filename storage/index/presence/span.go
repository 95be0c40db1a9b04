package presence

import (
	"math/bits"
	"slices"

	"halite/keyschema"
)

// DayMax is the last unix day that the index covers.
const DayMax = 999_999

// HoursMask has a bit for each hour of a day.
const HoursMask = 1<<keyschema.DayHours - 1

// Span is a range of unix hours, both inclusive.
type Span struct{ First, Last int64 }

// DayOf is the unix day of an hour.
func DayOf(hour int64) int64 { return hour / keyschema.DayHours }

// FirstHour is the first hour of a day.
func FirstHour(day int64) int64 { return day * keyschema.DayHours }

// LastHour is the last hour of a day.
func LastHour(day int64) int64 { return FirstHour(day) + keyschema.DayHours - 1 }

// DayCellMs is the timestamp of the cells of a day.
func DayCellMs(day int64) int64 { return keyschema.HourCellMs(LastHour(day)) }

// HourBit is the bit of an hour in the mask of its day.
func HourBit(hour int64) uint32 { return 1 << uint(hour%keyschema.DayHours) }

func validDay(day int64) bool { return day >= 0 && day <= DayMax }

// ValidHour reports whether row keys can hold the hour.
func ValidHour(hour int64) bool {
	return hour >= 0 && hour <= keyschema.HourMax && validDay(DayOf(hour))
}

// AppendSpans appends the touched hours of a day as spans, joining the last span if it is adjacent.
func AppendSpans(spans []Span, day int64, hours uint32) []Span {
	for hours != 0 {
		lo := bits.TrailingZeros32(hours)
		n := bits.TrailingZeros32(^(hours >> lo))
		hours &^= (1<<n - 1) << lo
		first := FirstHour(day) + int64(lo)
		if k := len(spans) - 1; k >= 0 && spans[k].Last+1 == first {
			spans[k].Last = first + int64(n) - 1
			continue
		}
		spans = append(spans, Span{First: first, Last: first + int64(n) - 1})
	}
	return spans
}

// HoursWithin is the mask of the hours of a day that lie in [from, to].
func HoursWithin(day, from, to int64) uint32 {
	lo, hi := max(from, FirstHour(day)), min(to, LastHour(day))
	if lo > hi {
		return 0
	}
	n := uint(hi - lo + 1)
	return uint32(1<<n-1) << uint(lo-FirstHour(day))
}

// HoursOf is the mask of the hours of a day that lie in spans.
func HoursOf(day int64, spans []Span) uint32 {
	mask := uint32(0)
	for _, span := range spans {
		mask |= HoursWithin(day, span.First, span.Last)
	}
	return mask
}

// Normalize sorts spans in place and joins spans that overlap or touch.
func Normalize(spans []Span) []Span {
	sorted := true
	for i := 1; i < len(spans) && sorted; i++ {
		sorted = spans[i].First > spans[i-1].Last+1
	}
	if sorted {
		return spans
	}
	slices.SortFunc(spans, func(a, b Span) int { return int(a.First - b.First) })
	out := spans[:1]
	for _, s := range spans[1:] {
		if k := len(out) - 1; s.First <= out[k].Last+1 {
			out[k].Last = max(out[k].Last, s.Last)
			continue
		}
		out = append(out, s)
	}
	return out
}
