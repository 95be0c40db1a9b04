package operator

import (
	"slices"

	"halite/query/column"
	"halite/query/columnar/grid"
	"halite/query/columnar/window"
	"halite/query/read"
)

// carried is a series of which more pieces follow: the results up to now, and the samples that later windows need.
type carried struct {
	tsMs    []int64
	values  []float64
	row     []float64
	largest int
	any     bool
}

// sampleBytes is the memory of a sample that is carried over.
const sampleBytes = 16

// streamRun is the evaluation of a batch that is read piece by piece.
type streamRun struct {
	*Eval
	windows   read.Windows
	evaluator evaluator
	series    []carried
	bytes     int64 // charged
	done      int   // steps
}

// stream evaluates the series of a batch slice by slice. Each slice fills the steps whose windows it ends; only the samples of
// windows that go on are kept.
func (ev *Eval) stream(sel *read.Selection, i int, w read.Windows, e evaluator, row []float64) error {
	var st *read.Stream
	defer func() {
		if st != nil {
			st.Close()
		}
	}()
	b, err := ev.timed(func() (_ *read.Batch, err error) {
		if st, err = sel.Open(ev.Context, i); err != nil {
			return nil, err
		}
		return st.Next(ev.Context)
	})
	switch {
	case err != nil:
		return err
	case !st.More():
		return ev.whole(b, e, row)
	}
	r := &streamRun{Eval: ev, windows: w, evaluator: e, series: make([]carried, len(b.Columns))}
	defer func() { ev.Budget.Release(r.bytes) }()
	if err := r.charge(0); err != nil {
		b.Release()
		return err
	}
	rows := make([]float64, len(r.series)*w.Steps)
	grid.ClearRow(rows)
	for j := range r.series {
		r.series[j].row = rows[j*w.Steps : (j+1)*w.Steps]
	}
	for {
		err := r.add(b, st.More())
		if err != nil || !st.More() {
			defer b.Release() // the labels are still needed
			if err == nil {
				err = r.finish(b)
			}
			return err
		}
		b.Release()
		if b, err = ev.timed(func() (*read.Batch, error) { return st.Next(ev.Context) }); err != nil {
			return err
		}
	}
}

// charge counts the memory of the rows and of samples that are carried over.
func (r *streamRun) charge(samples int) error {
	bytes := int64(len(r.series))*int64(r.windows.Steps)*8 + int64(samples)*sampleBytes
	more := bytes - r.bytes
	if more > 0 {
		if err := r.Budget.Reserve(more); err != nil {
			return err
		}
	} else {
		r.Budget.Release(-more)
	}
	r.bytes = bytes
	return nil
}

// add evaluates a piece.
func (r *streamRun) add(b *read.Batch, more bool) error {
	end := r.windows.Steps
	if more {
		end = window.StepsUpTo(r.windows, b.ToMs)
	}
	samples := 0
	for j := range r.series {
		if err := r.tick(); err != nil {
			return err
		}
		s := &r.series[j]
		s.add(r.Eval, r.windows, r.evaluator, &b.Columns[j], r.done, end)
		samples += len(s.tsMs)
	}
	r.done = end
	return r.charge(samples)
}

// finish hands the rows on.
func (r *streamRun) finish(b *read.Batch) error {
	for j := range r.series {
		if err := r.tick(); err != nil {
			return err
		}
		if s := &r.series[j]; s.any {
			if err := r.evaluator.done(r.Eval, &b.Columns[j], s.row, s.largest); err != nil {
				return err
			}
		}
	}
	return nil
}

// add evaluates the steps from first to before end, of which all samples are there now.
func (s *carried) add(ev *Eval, w read.Windows, e evaluator, c *column.Column, first, end int) {
	s.any = s.any || len(c.TsMs) > 0
	if !s.any {
		return
	}
	all := *c
	if len(s.tsMs) > 0 {
		first = s.bridge(ev, w, e, c, first, end)
		if len(s.tsMs) > 0 {
			all = column.Column{Labels: c.Labels, Samples: column.Samples{TsMs: s.tsMs, Values: s.values}}
		}
	}
	if end > first && len(all.TsMs) > 0 {
		s.largest = max(s.largest, e.section(ev, &all, first, s.row[first:end]))
	}
	// Later windows begin no earlier than that of the step after.
	from := w.FirstEndMs + int64(end)*w.StepMs - w.RangeMs
	at, _ := slices.BinarySearch(all.TsMs, from+1)
	if at < len(all.TsMs)/2 && len(s.tsMs) > 0 {
		s.tsMs, s.values = s.tsMs[at:], s.values[at:] // without a copy; memory moves when it is full
		return
	}
	s.tsMs = append(s.tsMs[:0], all.TsMs[at:]...)
	s.values = append(s.values[:0], all.Values[at:]...)
}

// bridge evaluates the steps that need both what was carried over and some of the new piece, by a copy of no more of it
// than they need, if the steps after them and later pieces do with the piece alone; then nothing is carried any more.
// Otherwise it adds the piece to what is carried. It returns the first step that is left.
func (s *carried) bridge(ev *Eval, w read.Windows, e evaluator, c *column.Column, first, end int) int {
	last := s.tsMs[len(s.tsMs)-1]
	alone := first // steps before this one have windows that begin before the end of what is carried
	for alone < end && w.FirstEndMs+int64(alone)*w.StepMs-w.RangeMs < last {
		alone++
	}
	if alone == end {
		s.tsMs, s.values = append(s.tsMs, c.TsMs...), append(s.values, c.Values...)
		return first
	}
	if alone > first {
		n, _ := slices.BinarySearch(c.TsMs, w.FirstEndMs+int64(alone-1)*w.StepMs+1)
		s.tsMs, s.values = append(s.tsMs, c.TsMs[:n]...), append(s.values, c.Values[:n]...)
		all := column.Column{Labels: c.Labels, Samples: column.Samples{TsMs: s.tsMs, Values: s.values}}
		s.largest = max(s.largest, e.section(ev, &all, first, s.row[first:alone]))
	}
	s.tsMs, s.values = s.tsMs[:0], s.values[:0]
	return alone
}

// segmented evaluates a column from step first on. Steps whose windows have samples of one place only are evaluated there; for
// others, neighbours together, those of their windows are copied to one place. All are if e has to see them at once.
func (ev *Eval) segmented(e evaluator, w read.Windows, atOnce bool, c *column.Column, first int, row []float64) (largest int) {
	p := &ev.segments
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
			end = min(end, window.StepsUpTo(w, p.Segment(at+1).Time(0)-1))
		}
		if end > k {
			p.Of.Samples = *p.Segment(at)
		} else {
			end = min(steps, window.StepsUpTo(w, p.LastMs(at)+w.RangeMs-1)) // all that have some of this place
			p.Gather(at, afterMs, w.FirstEndMs+int64(end-1)*w.StepMs)
		}
		largest = max(largest, e.section(ev, &p.Of, k, row[k-first:end-first]))
		k = end
	}
	return largest
}
