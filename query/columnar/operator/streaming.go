package operator

import (
	"slices"

	"halite/query/column"
	"halite/query/columnar/grid"
	"halite/query/columnar/window"
	"halite/query/read"
)

// streamedSeries is the state of a series between two slices: its results so far, and the samples that later windows need.
type streamedSeries struct {
	tsMs    []int64
	values  []float64
	row     []float64
	largest int  // number of samples in the largest window
	any     bool // the series has samples
}

// sampleBytes is the memory of a sample that is carried over to the next slice.
const sampleBytes = 16

// streamRun evaluates a batch slice by slice.
type streamRun struct {
	*Eval
	windows   read.Windows
	evaluator evaluator
	series    []streamedSeries
	bytes     int64 // charged
	done      int   // steps
}

// stream evaluates the series of a batch slice by slice. Each slice fills the steps whose windows end in it. Only samples of
// windows that continue are carried over.
func (ev *Eval) stream(sel *read.Selection, i int, w read.Windows, e evaluator, row []float64) error {
	st, err := timed(ev, func() (*read.Stream, error) { return sel.Open(ev.Context, i) })
	if err != nil {
		return err
	}
	defer st.Close()
	next := func() (*read.Batch, error) { return st.Next(ev.Context) }
	b, err := timed(ev, next)
	switch {
	case err != nil:
		return err
	case !st.More():
		return ev.evaluateColumns(b, e, row)
	}
	r := &streamRun{Eval: ev, windows: w, evaluator: e, series: make([]streamedSeries, len(b.Columns))}
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
	for st.More() {
		err := r.add(b, window.StepsUpTo(w, b.ToMs))
		b.Release()
		if err != nil {
			return err
		}
		if b, err = timed(ev, next); err != nil {
			return err
		}
	}
	defer b.Release() // finish needs its labels
	if err := r.add(b, w.Steps); err != nil {
		return err
	}
	return r.finish(b)
}

// charge reserves the memory of the rows and of the carried samples.
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

// add evaluates the steps up to end, whose windows have their last samples in a slice.
func (r *streamRun) add(b *read.Batch, end int) error {
	samples := 0
	for j := range r.series {
		if err := r.tick(); err != nil {
			return err
		}
		s := &r.series[j]
		r.addColumn(s, &b.Columns[j], end)
		samples += len(s.tsMs)
	}
	r.done = end
	return r.charge(samples)
}

// finish emits the rows.
func (r *streamRun) finish(b *read.Batch) error {
	for j := range r.series {
		if err := r.tick(); err != nil {
			return err
		}
		if s := &r.series[j]; s.any {
			if err := r.evaluator.done(r.Eval, seriesOf(&b.Columns[j]), s.row, s.largest); err != nil {
				return err
			}
		}
	}
	return nil
}

// addColumn is add for one series.
func (r *streamRun) addColumn(s *streamedSeries, c *column.Column, end int) {
	s.any = s.any || len(c.TsMs) > 0
	if !s.any {
		return
	}
	first, all := r.done, *c
	if len(s.tsMs) > 0 {
		first = r.bridge(s, c, end)
		if len(s.tsMs) > 0 {
			all = column.Column{Labels: c.Labels, Samples: column.Samples{TsMs: s.tsMs, Values: s.values}}
		}
	}
	if end > first && len(all.TsMs) > 0 {
		s.largest = max(s.largest, r.evaluator.section(r.Eval, &all, first, s.row[first:end]))
	}
	// Later windows begin no earlier than the window of step end.
	at, _ := slices.BinarySearch(all.TsMs, r.windowStart(end)+1)
	if at < len(all.TsMs)/2 && len(s.tsMs) > 0 {
		s.tsMs, s.values = s.tsMs[at:], s.values[at:] // without a copy; append moves the memory when it is full
		return
	}
	s.tsMs = append(s.tsMs[:0], all.TsMs[at:]...)
	s.values = append(s.values[:0], all.Values[at:]...)
}

// windowStart returns the time before the first sample of the window of a step.
func (r *streamRun) windowStart(step int) int64 {
	return r.windows.FirstEndMs + int64(step)*r.windows.StepMs - r.windows.RangeMs
}

// bridge evaluates the steps up to end that need both carried samples and the new slice. It copies only the samples of these
// steps, and carries no sample further. If no step can be evaluated from the slice alone, it appends the whole slice to the
// carried samples. It returns the first remaining step.
func (r *streamRun) bridge(s *streamedSeries, c *column.Column, end int) int {
	first, last := r.done, s.tsMs[len(s.tsMs)-1]
	alone := first // windows of earlier steps begin before the last carried sample
	for alone < end && r.windowStart(alone) < last {
		alone++
	}
	if alone == end {
		s.tsMs, s.values = append(s.tsMs, c.TsMs...), append(s.values, c.Values...)
		return first
	}
	if alone > first {
		n, _ := slices.BinarySearch(c.TsMs, r.windows.FirstEndMs+int64(alone-1)*r.windows.StepMs+1)
		s.tsMs, s.values = append(s.tsMs, c.TsMs[:n]...), append(s.values, c.Values[:n]...)
		all := column.Column{Labels: c.Labels, Samples: column.Samples{TsMs: s.tsMs, Values: s.values}}
		s.largest = max(s.largest, r.evaluator.section(r.Eval, &all, first, s.row[first:alone]))
	}
	s.tsMs, s.values = s.tsMs[:0], s.values[:0]
	return alone
}

// segmented evaluates a column of several segments from step first on. If the window of a step lies in one segment, it
// evaluates the step without a copy. For runs of other steps it copies the samples of their windows together. atOnce
// copies all samples.
func (ev *Eval) segmented(e evaluator, w read.Windows, atOnce bool, c *column.Column, first int, row []float64) (largest int) {
	p := &ev.segments
	p.Column, p.Part = c, column.Column{Labels: c.Labels, Series: c.Series, Group: c.Group}
	last := len(c.Segments)
	if atOnce || p.Overlap(w.RangeMs) {
		p.Gather(0, c.Time(0)-1, p.LastMs(last))
		return e.section(ev, &p.Part, first, row)
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
			p.Part.Samples = *p.Segment(at)
		} else {
			end = min(steps, window.StepsUpTo(w, p.LastMs(at)+w.RangeMs-1)) // all steps with samples of this segment
			p.Gather(at, afterMs, w.FirstEndMs+int64(end-1)*w.StepMs)
		}
		largest = max(largest, e.section(ev, &p.Part, k, row[k-first:end-first]))
		k = end
	}
	return largest
}
