package aggregation

import (
	"math"
	"time"
)

// Fill is the rule for intervals without values.
type Fill uint8

const (
	// FillNothing omits the interval.
	FillNothing Fill = iota
	// FillNaN and FillNull insert NaN. With FillNull a response shows NaN as null.
	FillNaN
	FillNull
	// FillZero inserts 0.
	FillZero
	// FillScalar inserts a number from the request.
	FillScalar
)

// Downsampling reduces the values of each interval to one point at the start of the interval.
type Downsampling struct {
	Function *Aggregator
	Fill     Fill
	// Scalar is the value of FillScalar.
	Scalar float64
	// All makes the range of the query one interval.
	All bool
	// Count and Unit are the length of an interval.
	Count int
	Unit  Unit
	// Calendar aligns intervals to the calendar of Zone. Without it, intervals are aligned to 1970, months have 30 days, and
	// years have 365.
	Calendar bool
	Zone     *time.Location
}

// IntervalMs returns the length of an interval as if Calendar were false, or 0 for All.
func (d *Downsampling) IntervalMs() int64 {
	if d.All {
		return 0
	}
	return int64(d.Count) * d.Unit.ms()
}

// Range holds two ranges of a query. StartMs to EndMs is the requested one. ReadFromMs to ReadToMs is the wider one of the
// samples to read, in whole intervals and whole hours. All ends are inclusive.
type Range struct{ StartMs, EndMs, ReadFromMs, ReadToMs int64 }

const hourSeconds = 3600

// RangeOf returns the Range of a query. down is nil without downsampling.
func RangeOf(startMs, endMs int64, down *Downsampling) Range {
	var intervalMs int64
	if down != nil {
		intervalMs = down.IntervalMs()
	}
	from, to := startMs/1000, endMs/1000+1
	if intervalMs > 0 {
		from -= (1000 * from % intervalMs) / 1000
		to += (intervalMs - 1000*to%intervalMs) / 1000
	}
	from -= from % hourSeconds
	if rest := to % hourSeconds; rest > 0 || intervalMs == 0 {
		to += hourSeconds - rest
	}
	return Range{StartMs: startMs, EndMs: endMs, ReadFromMs: 1000 * max(0, from), ReadToMs: 1000*to - 1}
}

// intervals yields the starts of successive intervals.
type intervals struct {
	down     *Downsampling
	calendar time.Time // start of the interval, with Calendar
	startMs  int64
	endMs    int64 // exclusive
}

// begin moves to the interval that contains a time.
func (v *intervals) begin(tsMs int64) {
	d := v.down
	if !d.Calendar {
		length := d.IntervalMs()
		v.startMs = tsMs - tsMs%length
		v.endMs = v.startMs + length
		return
	}
	v.set(d.aligned(tsMs))
}

func (v *intervals) set(start time.Time) {
	v.calendar, v.startMs = start, start.UnixMilli()
	v.endMs = v.down.after(start, 1).UnixMilli()
}

// next moves to the next interval.
func (v *intervals) next() {
	if v.down.Calendar {
		v.set(v.down.after(v.calendar, 1))
		return
	}
	v.begin(v.endMs)
}

// reach moves forward to the interval that contains a time.
func (v *intervals) reach(tsMs int64) {
	if !v.down.Calendar {
		v.begin(tsMs)
		return
	}
	for tsMs >= v.endMs {
		v.next()
	}
}

// firstWhole returns the start of the first interval that begins at or after a time.
func (d *Downsampling) firstWhole(tsMs int64) int64 {
	v := intervals{down: d}
	if v.begin(tsMs); v.startMs < tsMs {
		return v.endMs
	}
	return v.startMs
}

// filled returns a point for each interval of the range that the query reads.
func (d *Downsampling) filled(p Points, within Range) (out Points) {
	value := math.NaN()
	switch d.Fill {
	case FillZero:
		value = 0
	case FillScalar:
		value = d.Scalar
	}
	v, last := intervals{down: d}, intervals{down: d}
	last.begin(within.ReadToMs + 1)
	v.begin(within.ReadFromMs)
	endMs := last.startMs
	if d.Calendar && endMs == v.startMs {
		endMs = last.endMs
	}
	for i := 0; v.startMs < endMs; v.next() {
		for i < p.Len() && p.TsMs[i] < v.startMs {
			i++
		}
		if i < p.Len() && p.TsMs[i] == v.startMs {
			out.add(v.startMs, p.Values[i])
			continue
		}
		out.add(v.startMs, value)
	}
	return out
}
