package operator

import (
	"time"

	"halite/query/column"
	"halite/query/columnar/grid"
	"halite/query/columnar/window"
	"halite/query/read/rollups"
	"halite/rollup"
)

// rollupRun evaluates a rangeSelector from rollup states of hours and days, and from samples where states do not fit.
type rollupRun struct {
	*rangeRun
	ev   *Eval
	fn   rollup.Func
	plan *rollups.Plan

	states []rollup.State
	slide  window.Sliding
	total  []int64 // samples of each window of a series
	fresh  []int64 // samples that the previous window does not have
}

// newRollupRun returns nil if the selector must be evaluated from samples alone.
func newRollupRun(ev *Eval, r *rangeRun) *rollupRun {
	if ev.Rollups == nil || ev.Opts.Tiers == TiersOff {
		return nil
	}
	name := r.name
	if name == "absent_over_time" {
		name = rollup.PresentOverTime.String()
	}
	fn, ok := rollup.ParseFunc(name)
	if !ok {
		return nil
	}
	t := &rollupRun{rangeRun: r, ev: ev, fn: fn}
	t.plan = ev.Rollups.Plan(ev.Context, r.window.Windows, neededFields(fn), ev.Opts.Tiers == TiersAlways, r.matchers...)
	if t.plan == nil || r.exact && !t.plan.Retired() {
		return nil
	}
	if !t.plan.Use {
		ev.Rollups.Note(rollups.Use{Selector: r.text(), Reason: t.plan.Reason})
		return nil
	}
	return t
}

// neededFields are the fields that the function and window.Exactly need.
func neededFields(fn rollup.Func) rollup.Fields {
	f := fn.Fields()
	if f&(rollup.FieldSum|rollup.FieldMoments) != 0 {
		f |= rollup.FieldMin | rollup.FieldMax | rollup.FieldNaNs
	}
	return f
}

// Run reads and evaluates batch by batch.
func (t *rollupRun) Run() error {
	ev := t.ev
	began := time.Now()
	sel, err := ev.Rollups.Select(ev.Context, t.plan, t.matchers...)
	ev.Selecting += time.Since(began)
	if err != nil {
		return err
	}
	defer func() {
		use := sel.Use()
		use.Selector = t.text()
		ev.Rollups.Note(use)
		sel.Close()
	}()
	if err := onlyFloats(sel.Selection); err != nil {
		return err
	}
	ev.noteTypes(sel.Selection)
	t.states = make([]rollup.State, len(t.plan.Bounds)+1)
	t.total, t.fresh = make([]int64, t.plan.Steps), make([]int64, t.plan.Steps)
	t.slide.Fields = t.plan.Fields
	row := make([]float64, t.plan.Steps)
	for i := range sel.Batches() {
		b, err := timed(ev, func() (*rollups.Batch, error) { return sel.ReadBatch(ev.Context, i) })
		if err != nil {
			return err
		}
		err = t.batch(sel, b, row)
		b.Release()
		if err != nil {
			return err
		}
	}
	if use := sel.Use(); use.Retired != rollups.RawSamples {
		ev.Annotations.Add(&rollups.Retirement{Resolution: use.Retired, BeforeMs: t.plan.RetiredBeforeMs})
	}
	return nil
}

// batch evaluates the series of a batch.
func (t *rollupRun) batch(sel *rollups.Selection, b *rollups.Batch, row []float64) error {
	for j := range b.Columns {
		if err := t.ev.tick(); err != nil {
			return err
		}
		c := &b.Columns[j]
		if !b.Incomplete[j] {
			largest, ok := t.evaluate(b.Spans[j], c, row)
			// If the samples are retired, only states are left, even if they are less exact.
			if largest == 0 {
				continue
			}
			if ok || sel.Use().Retired != rollups.RawSamples {
				t.count()
				if err := t.done(t.ev, seriesOf(c), row, largest); err != nil {
					return err
				}
				continue
			}
		}
		if err := t.fromRows(sel, b.First+j); err != nil {
			return err
		}
	}
	return nil
}

// fromRows evaluates a series from its samples alone.
func (t *rollupRun) fromRows(sel *rollups.Selection, i int) error {
	rows, err := sel.Rows(i)
	if err != nil {
		return err
	}
	defer rows.Close()
	return t.ev.batches(rows, t.plan.Windows, t.rangeRun)
}

// evaluate fills a row from the states and samples of a series. It returns the number of samples of the largest window. ok
// is false if only the samples give the exact value.
func (t *rollupRun) evaluate(spans []rollups.Span, c *column.Column, row []float64) (largest int, ok bool) {
	ok = true
	if len(spans) == 0 && len(c.TsMs) == 0 {
		return 0, true
	}
	t.fold(spans, c)
	t.slide.Reset(t.states)
	end, before := t.plan.FirstEndMs, 0
	for k := range row {
		lo, hi := t.plan.Lo[k], t.plan.Hi[k]
		s := t.slide.Window(lo, hi)
		v, has, exact := t.fn.Eval(s, end-t.plan.RangeMs, end)
		ok = ok && exact && window.Exactly(t.fn, s)
		row[k] = v
		if !has {
			row[k] = grid.Absent()
		}
		t.total[k], t.fresh[k] = s.Count, 0
		for a := max(lo, before); a < hi; a++ {
			t.fresh[k] += t.states[a].Count
		}
		before = hi
		largest = max(largest, int(s.Count))
		end += t.plan.StepMs
	}
	return largest, ok
}

// fold merges states and samples into the states of intervals.
func (t *rollupRun) fold(spans []rollups.Span, c *column.Column) {
	clear(t.states)
	from, interval := 0, 0
	for i := range spans {
		s := &spans[i]
		n := from
		for n < len(c.TsMs) && c.TsMs[n] < s.FirstMs {
			n++
		}
		interval = t.foldSamples(c, from, n, interval)
		from = n
		t.states[s.Interval].Append(&s.State, t.plan.Fields)
	}
	t.foldSamples(c, from, len(c.TsMs), interval)
}

// foldSamples merges the samples [from, end) into the states of intervals, beginning with the given one. It returns the last
// interval.
func (t *rollupRun) foldSamples(c *column.Column, from, end, interval int) int {
	bounds := t.plan.Bounds
	for from < end {
		interval = t.plan.Interval(c.TsMs[from], interval)
		n := end
		if interval < len(bounds) && c.TsMs[n-1] > bounds[interval] {
			for n = from + 1; c.TsMs[n] <= bounds[interval]; n++ {
			}
		}
		if t.plan.Used(interval) {
			s := rollup.ComputeFields(c.TsMs[from:n], c.Values[from:n], t.plan.Fields, c.NoStale, c.Monotonic)
			t.states[interval].Append(&s, t.plan.Fields)
		}
		from = n
	}
	return interval
}

// count adds the samples of a series to the statistics.
func (t *rollupRun) count() {
	for k := range t.total {
		t.ev.Total[k] += t.total[k]
		t.ev.Fresh[k] += t.fresh[k]
	}
}
