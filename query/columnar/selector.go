package columnar

import (
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/query/promql"
)

// selector is what instant and range selectors share.
type selector struct {
	matchers []*labels.Matcher
	offsetMs int64
	atMs     *int64 // only on a grid of one step
	text     string
}

func newSelector(vs *parser.VectorSelector) selector {
	return selector{
		matchers: vs.LabelMatchers, offsetMs: vs.OriginalOffset.Milliseconds(), atMs: vs.Timestamp, text: vs.String(),
	}
}

// names is oneName if the metric is given.
func (s selector) names() naming {
	for _, m := range s.matchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return oneName
		}
	}
	return anyName
}

// windows are the spans of length rangeMs that end at the steps, as offset and @ move them.
func (s selector) windows(g Grid, rangeMs int64) promql.Windows {
	first := g.StartMs
	if s.atMs != nil {
		first = *s.atMs
	}
	return promql.Windows{FirstEndMs: first - s.offsetMs, StepMs: g.StepMs, RangeMs: rangeMs, Steps: g.Steps}
}

// columns reads the series batch by batch.
func (s selector) columns(ev *eval, w promql.Windows, use func(c *promql.Column) error) error {
	began := time.Now()
	sel, err := ev.session.Select(ev.ctx, w, s.matchers...)
	ev.selecting += time.Since(began)
	if err != nil {
		return err
	}
	defer sel.Close()
	for i := 0; i < sel.Len() && !ev.typed; i++ {
		ls := sel.Labels(i)
		ev.typed = ls.Has("__type__") || ls.Has("__unit__")
	}
	for i := range sel.Batches() {
		if err := ev.batch(sel, i, use); err != nil {
			return err
		}
	}
	return nil
}

func (ev *eval) batch(sel Selection, i int, use func(c *promql.Column) error) error {
	if err := ev.ctx.Err(); err != nil {
		return err
	}
	began := time.Now()
	batch, err := sel.Read(ev.ctx, i)
	ev.reading += time.Since(began)
	if err != nil {
		return err
	}
	defer batch.Release()
	for j := range batch.Columns {
		if err := ev.tick(); err != nil {
			return err
		}
		c := &batch.Columns[j]
		if len(c.TsMs) == 0 {
			continue
		}
		if err := use(c); err != nil {
			return err
		}
	}
	return nil
}

// instantSelector is the latest value at each step, if it is not too old; or its time in seconds, for timestamp().
type instantSelector struct {
	selector
	times bool
}

func (n *instantSelector) names() naming { return n.selector.names() }

func (n *instantSelector) describe(d *description) {
	if n.times {
		d.node("timestamp of " + n.text)
		return
	}
	d.node("instant " + n.text)
}

func (n *instantSelector) run(ev *eval, emit emitFunc) error {
	w := n.windows(ev.grid, ev.opts.LookbackMs)
	row := make([]float64, w.Steps)
	unique := newGuard(n.selector.names())
	return n.columns(ev, w, func(c *promql.Column) error {
		present := n.fill(ev, w, c, row)
		if present == 0 {
			return nil
		}
		if err := ev.hold(present); err != nil {
			return err
		}
		s := Series{Labels: c.Labels, dropped: n.times}
		if err := unique.check(ev, s); err != nil {
			return err
		}
		return emit(s, row)
	})
}

// fill writes the row of a series and returns the number of values. A stale marker is the mark of an absent value, and
// is copied like any other.
func (n *instantSelector) fill(ev *eval, w promql.Windows, c *promql.Column, row []float64) int {
	var (
		ts      = c.TsMs
		next    = 0 // the first sample after the step
		end     = w.FirstEndMs
		present = 0
	)
	for k := range row {
		for next < len(ts) && ts[next] <= end {
			next++
		}
		v := absent()
		if next > 0 && ts[next-1] > end-w.RangeMs {
			v = c.Values[next-1]
		}
		if !isAbsent(v) {
			present++
			ev.total[k]++
			ev.read[k]++
			if n.times {
				v = float64(ts[next-1]) / 1000
			}
		}
		row[k] = v
		end += w.StepMs
	}
	return present
}

// rangeSelector applies a function to the samples of each window.
type rangeSelector struct {
	selector
	name    string
	rangeMs int64
	params  []scalar
	fn      windowFunc
	// keepsName is set for the functions that act like an offset.
	keepsName bool
	// after sees each series that has a result; it may annotate.
	after func(ev *eval, ls labels.Labels)
}

func (n *rangeSelector) names() naming {
	if n.keepsName {
		return n.selector.names()
	}
	return nameless
}

func (n *rangeSelector) describe(d *description) {
	d.node(fmt.Sprintf("%s over %s of %s", n.name, time.Duration(n.rangeMs)*time.Millisecond, n.text))
}

func (n *rangeSelector) run(ev *eval, emit emitFunc) error {
	params := make([][]float64, len(n.params))
	for i, p := range n.params {
		var err error
		if params[i], err = ev.number(p); err != nil {
			return err
		}
	}
	w := newWindow(n.windows(ev.grid, n.rangeMs), ev.grid, params)
	row := make([]float64, ev.grid.Steps)
	unique := newGuard(n.selector.names())
	return n.columns(ev, w.Windows, func(c *promql.Column) error {
		largest := w.reset(ev, c.TsMs, c.Values)
		if largest == 0 {
			return nil
		}
		// The samples of a window count while the series is worked on.
		if err := ev.hold(largest); err != nil {
			return err
		}
		defer func() { ev.held -= largest }()
		n.fn(w, row)
		for _, a := range w.annos {
			ev.annos.Add(a)
		}
		w.annos = w.annos[:0]
		present := count(row)
		if present == 0 {
			return nil
		}
		if err := ev.hold(present); err != nil {
			return err
		}
		s := Series{Labels: c.Labels, dropped: !n.keepsName}
		if err := unique.check(ev, s); err != nil {
			return err
		}
		if n.after != nil {
			n.after(ev, c.Labels)
		}
		return emit(s, row)
	})
}
