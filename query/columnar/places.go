package columnar

import (
	"halite/query/column"
	"halite/query/columnar/window"
	"halite/query/read"
)

// places evaluates a column from step first on. Steps whose windows have samples of one place only are evaluated there; for
// others, neighbours together, those of their windows are copied to one place. All are if e has to see them at once.
func (ev *eval) places(e evaluator, w read.Windows, atOnce bool, c *column.Column, first int, row []float64) (largest int) {
	p := &ev.placed
	p.Column, p.Of = c, column.Column{Labels: c.Labels, Series: c.Series, Group: c.Group}
	last := len(c.Segments)
	if atOnce || p.Overlap(w.RangeMs) {
		p.Gather(0, c.Time(0)-1, p.LastMs(last))
		return e.section(ev, &p.Of, first, row)
	}
	steps := first + len(row)
	for k, at := first, 0; k < steps; {
		afterMs := w.FirstEndMs + int64(k)*w.StepMs - w.RangeMs
		for at < last && p.LastMs(at) <= afterMs {
			at++
		}
		end := steps
		if at < last {
			end = min(end, window.StepsUpTo(w, p.Place(at+1).Time(0)-1))
		}
		if end > k {
			p.Of.Samples = *p.Place(at)
		} else {
			end = min(steps, window.StepsUpTo(w, p.LastMs(at)+w.RangeMs-1)) // all that have some of this place
			p.Gather(at, afterMs, w.FirstEndMs+int64(end-1)*w.StepMs)
		}
		largest = max(largest, e.section(ev, &p.Of, k, row[k-first:end-first]))
		k = end
	}
	return largest
}
