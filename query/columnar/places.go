package columnar

import (
	"halite/query/column"
	"halite/query/read"
)

// places evaluates columns whose samples lie in several places.
type places struct {
	of column.Column // without samples, or with those of one place, or with gathered ones

	column *column.Column
	tsMs   []int64 // memory for what is gathered
	values []float64
}

// places evaluates a column from step first on. Steps whose windows have samples of one place only are evaluated there; for
// others, neighbours together, those of their windows are copied to one place. All are if e has to see them at once.
func (ev *eval) places(e evaluator, w read.Windows, atOnce bool, c *column.Column, first int, row []float64) (largest int) {
	p := &ev.placed
	p.column, p.of = c, column.Column{Labels: c.Labels, Series: c.Series, Group: c.Group}
	last := len(c.Segments)
	if atOnce || p.overlap(w.RangeMs) {
		p.gather(0, c.Time(0)-1, p.lastMs(last))
		return e.section(ev, &p.of, first, row)
	}
	steps := first + len(row)
	for k, at := first, 0; k < steps; {
		afterMs := w.FirstEndMs + int64(k)*w.StepMs - w.RangeMs
		for at < last && p.lastMs(at) <= afterMs {
			at++
		}
		end := steps
		if at < last {
			end = min(end, stepsUpTo(w, p.place(at+1).Time(0)-1))
		}
		if end > k {
			p.of.Samples = *p.place(at)
		} else {
			end = min(steps, stepsUpTo(w, p.lastMs(at)+w.RangeMs-1)) // all that have some of this place
			p.gather(at, afterMs, w.FirstEndMs+int64(end-1)*w.StepMs)
		}
		largest = max(largest, e.section(ev, &p.of, k, row[k-first:end-first]))
		k = end
	}
	return largest
}

func (p *places) place(i int) *column.Samples {
	if i == 0 {
		return &p.column.Samples
	}
	return &p.column.Segments[i-1]
}

// lastMs is the time of the last sample of a place.
func (p *places) lastMs(i int) int64 {
	s := p.place(i)
	return s.Time(s.Len() - 1)
}

// overlap reports whether windows are so long that most samples would be copied, some of them more than once.
func (p *places) overlap(rangeMs int64) bool {
	n := len(p.column.Segments)
	return 2*rangeMs*int64(n) > p.lastMs(n)-p.column.Time(0)
}

// gather copies the samples after one time and up to another, of which no place before the given one has any.
func (p *places) gather(at int, afterMs, toMs int64) {
	p.values, p.tsMs = p.values[:0], p.tsMs[:0]
	var out column.Samples
	var lastMs int64
	for i := at; i <= len(p.column.Segments); i++ {
		s := p.place(i)
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
		for i := at; i <= len(p.column.Segments); i++ {
			s := p.place(i)
			p.tsMs = s.AppendTimes(p.tsMs, s.CountUpTo(afterMs), s.CountUpTo(toMs))
		}
		out.TsMs = p.tsMs
	}
	out.Values = p.values
	p.of.Samples = out
}
