package window

import (
	"halite/query/column"
	"halite/query/read"
)

// Segments evaluates columns whose samples lie in several segments.
type Segments struct {
	Part column.Column // without samples, or with samples of one segment or from Gather

	Column *column.Column
	tsMs   []int64 // memory for gathered samples
	values []float64
}

// Segment returns the samples of segment i.
func (p *Segments) Segment(i int) *column.Samples {
	if i == 0 {
		return &p.Column.Samples
	}
	return &p.Column.Segments[i-1]
}

// LastMs returns the time of the last sample of segment i.
func (p *Segments) LastMs(i int) int64 {
	s := p.Segment(i)
	return s.Time(s.Len() - 1)
}

// Overlap reports whether windows are so long that Gather would copy most samples, some more than once.
func (p *Segments) Overlap(rangeMs int64) bool {
	n := len(p.Column.Segments)
	return 2*rangeMs*int64(n) > p.LastMs(n)-p.Column.Time(0)
}

// Gather copies the samples in (afterMs, toMs], which begin in segment at or later.
func (p *Segments) Gather(at int, afterMs, toMs int64) {
	p.values, p.tsMs = p.values[:0], p.tsMs[:0]
	var out column.Samples
	var lastMs int64
	for i := at; i <= len(p.Column.Segments); i++ {
		s := p.Segment(i)
		lo, hi := s.CountUpTo(afterMs), s.CountUpTo(toMs)
		if lo == hi {
			continue
		}
		if n := len(p.values); n == 0 {
			out = column.Samples{FirstMs: s.Time(lo), StepMs: s.StepMs, NoStale: s.NoStale, Monotonic: s.Monotonic}
		} else {
			between := s.Time(lo) - lastMs
			if n > 1 && out.StepMs != between || hi-lo > 1 && s.StepMs != between {
				between = 0
			}
			out.StepMs, out.NoStale = between, out.NoStale && s.NoStale
			out.Monotonic = out.Monotonic && s.Monotonic && !(s.Values[lo] < p.values[n-1])
		}
		p.values = append(p.values, s.Values[lo:hi]...)
		lastMs = s.Time(hi - 1)
	}
	if out.StepMs == 0 {
		for i := at; i <= len(p.Column.Segments); i++ {
			s := p.Segment(i)
			p.tsMs = s.AppendTimes(p.tsMs, s.CountUpTo(afterMs), s.CountUpTo(toMs))
		}
		out.TsMs = p.tsMs
	}
	out.Values = p.values
	p.Part.Samples = out
}

// StepsUpTo returns the number of steps up to a time.
func StepsUpTo(w read.Windows, tsMs int64) int {
	if tsMs < w.FirstEndMs {
		return 0
	}
	if w.StepMs == 0 {
		return w.Steps
	}
	return int(min((tsMs-w.FirstEndMs)/w.StepMs+1, int64(w.Steps)))
}
