package aggregation

import "time"

// Unit is one of OpenTSDB's units of time.
type Unit uint8

// The units: ms, s, m, h, d, w, n (months) and y.
const (
	Millisecond Unit = iota
	Second
	Minute
	Hour
	Day
	Week
	Month
	Year
)

const dayMs = 24 * 3600 * 1000

// ms returns the length of a unit without a calendar: a month has 30 days, a year 365.
func (u Unit) ms() int64 {
	return [...]int64{1, 1000, 60_000, 3_600_000, dayMs, 7 * dayMs, 30 * dayMs, 365 * dayMs}[u]
}

// after returns the start of the n-th interval after the interval that starts at start. Days and longer units keep the time
// of day; shorter units have a fixed length.
func (d *Downsampling) after(start time.Time, n int) time.Time {
	n *= d.Count
	switch d.Unit {
	case Day:
		return start.AddDate(0, 0, n)
	case Week:
		return start.AddDate(0, 0, 7*n)
	case Month:
		return start.AddDate(0, n, 0)
	case Year:
		return start.AddDate(n, 0, 0)
	}
	return start.Add(time.Duration(n) * time.Duration(d.Unit.ms()) * time.Millisecond)
}

// aligned returns the start of the interval that holds a time. An interval that divides the next larger unit is counted from the
// start of that unit. Other intervals are counted from the start of the unit above: 90 minutes from midnight, two days from New
// Year. A week begins on Sunday.
func (d *Downsampling) aligned(tsMs int64) time.Time {
	t := time.UnixMilli(tsMs).In(d.Zone)
	base := d.base(t)
	return d.after(base, d.intervalsBetween(base, t))
}

// base returns the time from which the intervals around t are counted.
func (d *Downsampling) base(t time.Time) time.Time {
	year, month, day := t.Date()
	divides := func(n int) bool { return n%d.Count == 0 }
	// An hour and a minute have a fixed length, even when clocks change.
	second := t.Add(-time.Duration(t.Nanosecond()))
	minute := second.Add(-time.Duration(t.Second()) * time.Second)
	hour := minute.Add(-time.Duration(t.Minute()) * time.Minute)
	switch {
	case d.Unit == Millisecond && divides(1000):
		return second
	case d.Unit == Millisecond, d.Unit == Second && divides(60):
		return minute
	case d.Unit == Second, d.Unit == Minute && divides(60):
		return hour
	case d.Unit == Minute, d.Unit == Hour && divides(24), d.Unit == Day && d.Count == 1:
	case d.Unit == Hour:
		day = 1
	case d.Unit == Week:
		day -= int(t.Weekday())
	default:
		month, day = time.January, 1
	}
	return time.Date(year, month, day, 0, 0, 0, 0, d.Zone)
}

// intervalsBetween returns the number of whole intervals from base to t.
func (d *Downsampling) intervalsBetween(base, t time.Time) int {
	if d.Unit == Week {
		return 0 // base is the week of t, whatever Count is
	}
	n := 0
	if d.Unit < Day {
		n = int(t.Sub(base).Milliseconds() / (int64(d.Count) * d.Unit.ms()))
	}
	for !d.after(base, n+1).After(t) {
		n++
	}
	return n
}
