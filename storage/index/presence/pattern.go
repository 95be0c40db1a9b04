package presence

import (
	"encoding/binary"

	"halite/storage/index/envelope"
)

// A pattern holds the hours of a partition in which a series has samples, as runs of days with equal hours. Most series of a
// partition share a few patterns, so blocks number the patterns.

// DayRun has the same hours on each of the days [day, day+Days), which count from the first day of the partition.
type DayRun struct {
	day, Days uint8
	Hours     uint32
}

// Pattern is in normal form: runs ascend and are not empty, and adjacent runs differ.
type Pattern []DayRun

// Meets reports whether the pattern has hours in the window.
func (p Pattern) Meets(w *Window) bool {
	for _, r := range p {
		for d := r.day; d < r.day+r.Days; d++ {
			if r.Hours&w[d] != 0 {
				return true
			}
		}
	}
	return false
}

// AppendSpans appends the pattern's hours that lie in the window.
func (p Pattern) AppendSpans(spans []Span, firstDay int64, w *Window) []Span {
	for _, r := range p {
		for d := r.day; d < r.day+r.Days; d++ {
			if hours := r.Hours & w[d]; hours != 0 {
				spans = AppendSpans(spans, firstDay+int64(d), hours)
			}
		}
	}
	return spans
}

// Later returns the pattern moved to a later day.
func (p Pattern) Later(days uint8) Pattern {
	if days == 0 {
		return p
	}
	out := make(Pattern, len(p))
	for i, r := range p {
		out[i] = DayRun{day: r.day + days, Days: r.Days, Hours: r.Hours}
	}
	return out
}

// days is the mask of the pattern's days.
func (p Pattern) days() uint32 {
	mask := uint32(0)
	for _, r := range p {
		mask |= (1<<r.Days - 1) << r.day
	}
	return mask
}

// PatternOf returns the pattern, in normal form, with the given hours of each day.
func PatternOf(hours *Window) Pattern {
	var out Pattern
	for d, h := range hours {
		if h == 0 {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k].Hours == h && int(out[k].day+out[k].Days) == d {
			out[k].Days++
			continue
		}
		out = append(out, DayRun{day: uint8(d), Days: 1, Hours: h})
	}
	return out
}

// addTo adds the pattern's hours to the hours of each day.
func (p Pattern) addTo(hours *Window) {
	for _, r := range p {
		for d := r.day; d < r.day+r.Days; d++ {
			hours[d] |= r.Hours
		}
	}
}

func AppendRuns(dst []byte, p Pattern) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(p)))
	next := uint8(0)
	for _, r := range p {
		dst = binary.AppendUvarint(dst, uint64(r.day-next))
		dst = binary.AppendUvarint(dst, uint64(r.Days))
		dst = binary.AppendUvarint(dst, uint64(r.Hours))
		next = r.day + r.Days
	}
	return dst
}

// ReadRuns appends the runs of a pattern of a month.
func ReadRuns(c *envelope.Decoder, runs []DayRun) []DayRun {
	n, next := c.Count(3), uint64(0)
	for i := 0; i < n && c.Err == nil; i++ {
		step, days := c.Number(MonthDaysMax), c.Number(MonthDaysMax)
		r := DayRun{day: uint8(next) + uint8(step), Days: uint8(days), Hours: c.Number(HoursMask)}
		if days == 0 || r.Hours == 0 || next+uint64(step)+uint64(days) > MonthDaysMax ||
			i > 0 && step == 0 && runs[len(runs)-1].Hours == r.Hours {
			c.Fail(envelope.ErrRange)
			return runs
		}
		next += uint64(step) + uint64(days)
		runs = append(runs, r)
	}
	return runs
}
