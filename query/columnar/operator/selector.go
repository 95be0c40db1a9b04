package operator

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/query/column"
	"halite/query/columnar/grid"
	"halite/query/columnar/window"
	"halite/query/read"
)

// selector is the common part of instant and range selectors.
type selector struct {
	matchers []*labels.Matcher
	offsetMs int64
	atMs     *int64 // only on a grid of one step
	parsed   *parser.VectorSelector
	// needs are the needed labels without the metric's name. nil means all labels.
	needs []string
}

func newSelector(vs *parser.VectorSelector) selector {
	return selector{
		matchers: vs.LabelMatchers, offsetMs: vs.OriginalOffset.Milliseconds(), atMs: vs.Timestamp, parsed: vs,
	}
}

func (s selector) text() string { return s.parsed.String() }

// names returns OneName if the selector names the metric.
func (s selector) names() grid.Naming {
	for _, m := range s.matchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return grid.OneName
		}
	}
	return grid.AnyName
}

// windows returns the windows of length rangeMs that end at the steps, moved by offset and @.
func (s selector) windows(g grid.Grid, rangeMs int64) read.Windows {
	first := g.StartMs
	if s.atMs != nil {
		first = *s.atMs
	}
	return read.Windows{FirstEndMs: first - s.offsetMs, StepMs: g.StepMs, RangeMs: rangeMs, Steps: g.Steps}
}

// partial is a node whose series may lack labels that its parent does not need. It ignores need if it must distinguish its
// series.
type partial interface {
	// need declares that the parent needs only the metric's name and the labels with these names.
	need(names []string)
}

// evaluator makes rows of columns.
type evaluator interface {
	// section fills row with the values of the steps from first on, given all samples of their windows. It returns the
	// number of samples in the largest window.
	section(ev *Eval, c *column.Column, first int, row []float64) (largest int)
	// done emits the row of a series. The largest window of the series has the given number of samples.
	done(ev *Eval, s grid.Series, row []float64, largest int) error
	// fork returns an evaluator whose section may run concurrently with this one's.
	fork() evaluator
}

// evaluate reads the series batch by batch and evaluates them with e. pushdown, if not nil, omits series.
func (s selector) evaluate(ev *Eval, w read.Windows, e evaluator, pushdown *joinPushdown) error {
	sel, err := s.find(ev, w, pushdown)
	if err != nil {
		return err
	}
	defer sel.Close()
	if err := onlyFloats(sel); err != nil {
		return err
	}
	if pushdown != nil {
		// Omitted series are not read, but their largest possible number of samples counts against the limit.
		if err := ev.account(pushdown.omit(sel) * w.Steps); err != nil {
			return err
		}
	}
	if t := newBatchPool(ev, sel, w); t != nil {
		return t.Run(e)
	}
	return ev.batches(sel, w, e)
}

// onlyFloats leaves a selection with histograms to the engine.
func onlyFloats(sel *read.Selection) error {
	if metric, ok := sel.Histograms(); ok {
		return fmt.Errorf("%w: %s", ErrUndecided, histogramsReason(metric))
	}
	return nil
}

// find selects the series, with only some of their labels if these suffice.
func (s selector) find(ev *Eval, w read.Windows, pushdown *joinPushdown) (*read.Selection, error) {
	began := time.Now()
	defer func() { ev.Selecting += time.Since(began) }()
	if s.needs != nil && !ev.Opts.DelayedNames {
		sel, err := ev.Session.SelectProjected(ev.Context, w, append(labelsOfTypes(), s.needs...), s.matchers...)
		if err != nil {
			return nil, err
		}
		if ev.noteTypes(sel); !ev.Typed {
			return sel, nil
		}
		sel.Close() // label sets may be equal without type and unit, so select again with all labels
	}
	sel, err := pushdown.selection(ev, w, s.matchers)
	if err != nil {
		return nil, err
	}
	ev.noteTypes(sel)
	return sel, nil
}

// labelsOfTypes are the labels of type and unit.
func labelsOfTypes() []string { return []string{"__type__", "__unit__"} }

// noteTypes records whether a series has labels of type or unit.
func (s *State) noteTypes(sel *read.Selection) {
	var seen groupSet
	last := labels.EmptyLabels() // adjacent series may share their labels
	for i := 0; i < sel.Len() && !s.Typed; i++ {
		if seen.has(sel.Group(i)) {
			continue
		}
		if ls := sel.Labels(i); !labels.Equal(ls, last) {
			s.Typed = slices.ContainsFunc(labelsOfTypes(), ls.Has)
			last = ls
		}
	}
}

// groupSet has the groups of earlier series.
type groupSet []bool

// has reports whether a group is in the set, and adds it. It returns false for series without a group.
func (s *groupSet) has(group uint32) bool {
	if int(group) >= len(*s) {
		*s = append(*s, make([]bool, int(group)+1-len(*s))...)
	}
	had := (*s)[group] && group != 0
	(*s)[group] = true
	return had
}

// batches reads and evaluates a selection batch by batch.
func (ev *Eval) batches(sel *read.Selection, w read.Windows, e evaluator) error {
	row := make([]float64, w.Steps)
	for i := range sel.Batches() {
		if sel.Streamed(i) {
			if err := ev.stream(sel, i, w, e, row); err != nil {
				return err
			}
			continue
		}
		batch, err := timed(ev, func() (*read.Batch, error) { return sel.Read(ev.Context, i) })
		if err != nil {
			return err
		}
		if err := ev.evaluateColumns(batch, e, row); err != nil {
			return err
		}
	}
	return nil
}

// timed calls read and measures its time, unless the query has ended.
func timed[T any](ev *Eval, read func() (T, error)) (out T, err error) {
	if err := ev.Context.Err(); err != nil {
		return out, err
	}
	began := time.Now()
	defer func() { ev.Reading += time.Since(began) }()
	return read()
}

// evaluateColumns evaluates series whose samples are all in memory.
func (ev *Eval) evaluateColumns(b *read.Batch, e evaluator, row []float64) error {
	defer b.Release()
	for j := range b.Columns {
		if err := ev.tick(); err != nil {
			return err
		}
		c := &b.Columns[j]
		if c.Len() == 0 {
			continue
		}
		largest := e.section(ev, c, 0, row)
		if err := e.done(ev, seriesOf(c), row, largest); err != nil {
			return err
		}
	}
	return nil
}

// seriesOf returns the series of a column.
func seriesOf(c *column.Column) grid.Series {
	return grid.Series{Labels: c.Labels, Group: c.Group, All: c.Series}
}

// instantSelector returns the latest value at each step, if it is not too old. For timestamp() it returns the time of that
// value, in seconds.
type instantSelector struct {
	selector
	times bool
	// presence means that the values do not matter, so histograms are samples like others.
	presence bool
}

func (n *instantSelector) names() grid.Naming { return n.selector.names() }

// need implements partial.
func (n *instantSelector) need(names []string) {
	if !n.times || n.selector.names() == grid.OneName {
		n.needs = names
	}
}

func (n *instantSelector) Describe(d *Description) {
	if n.times {
		d.Node("timestamp of " + n.text())
		return
	}
	d.Node("instant " + n.text())
}

func (n *instantSelector) Run(ev *Eval, emit emitFunc) error { return n.runPushdown(ev, emit, nil) }

func (n *instantSelector) runPushdown(ev *Eval, emit emitFunc, pushdown *joinPushdown) error {
	w := n.windows(ev.Grid, ev.Opts.LookbackMs)
	w.Latest, w.Presence = true, n.presence && !ev.Opts.CountAll // statistics count the buckets of histograms
	r := &instantRun{instantSelector: n, windows: w, emit: emit, unique: NewDuplicateCheck(n.selector.names())}
	return n.evaluate(ev, w, r, pushdown)
}

// instantRun is an evaluation of an instantSelector.
type instantRun struct {
	*instantSelector
	windows  read.Windows
	emit     emitFunc
	unique   *DuplicateCheck
	handedOn int
}

// section implements evaluator. A stale marker means an absent value, so it is copied like any other value.
func (r *instantRun) section(ev *Eval, c *column.Column, first int, row []float64) int {
	if len(c.Segments) > 0 {
		return ev.segmented(r, r.windows, false, c, first, row)
	}
	if c.NoStale && !r.times && c.StepMs > 0 && (r.windows.Steps == 1 || r.windows.StepMs%c.StepMs == 0) {
		r.fixedIntervalSection(ev, c, first, row)
		return 0
	}
	var (
		ts    = ev.times(c)
		next  = 0 // the first sample after the step
		end   = r.windows.FirstEndMs + int64(first)*r.windows.StepMs
		total = ev.Total[first : first+len(row)]
		read  = ev.Fresh[first : first+len(row)]
	)
	for k := range row {
		for next < len(ts) && ts[next] <= end {
			next++
		}
		v := grid.Absent()
		if next > 0 && ts[next-1] > end-r.windows.RangeMs {
			v = c.Values[next-1]
		}
		if !grid.IsAbsent(v) {
			total[k]++
			read[k]++
			if r.times {
				v = float64(ts[next-1]) / 1000
			}
		}
		row[k] = v
		end += r.windows.StepMs
	}
	return 0
}

// fixedIntervalSection fills a row from evenly spaced samples if each step is a whole number of sample intervals.
func (r *instantRun) fixedIntervalSection(ev *Eval, c *column.Column, first int, row []float64) {
	var (
		perStep = int(r.windows.StepMs / c.StepMs)
		end     = r.windows.FirstEndMs + int64(first)*r.windows.StepMs
		at      = window.SamplesUpTo(c.Time(0), c.StepMs, end) - 1
		last    = c.Len() - 1
		k, from = 0, 0
	)
	for ; k < len(row) && at < 0; k++ {
		row[k] = grid.Absent()
		at += perStep
	}
	from = k
	// The latest sample of a step is always young enough.
	if c.StepMs <= r.windows.RangeMs {
		for ; k < len(row) && at <= last; k++ {
			row[k] = c.Values[at]
			at += perStep
		}
		ev.Spans(first+from, first+k, 1, 1)
	}
	end += int64(k) * r.windows.StepMs
	for ; k < len(row); k++ {
		i := min(at, last)
		row[k] = grid.Absent()
		if c.Time(i) > end-r.windows.RangeMs {
			row[k] = c.Values[i]
			ev.Spans(first+k, first+k+1, 1, 1)
		}
		at += perStep
		end += r.windows.StepMs
	}
}

// fork implements evaluator.
func (r *instantRun) fork() evaluator { return r }

// done implements evaluator.
func (r *instantRun) done(ev *Eval, s grid.Series, row []float64, _ int) error {
	present := grid.Count(row)
	if present == 0 {
		return nil
	}
	if err := ev.selected(r.handedOn, present); err != nil {
		return err
	}
	r.handedOn += present
	if r.times {
		// The engine counts the samples of a step and their timestamps.
		if err := ev.account(1); err != nil {
			return err
		}
	}
	s.Dropped = r.times
	if err := r.unique.check(ev, s); err != nil {
		return err
	}
	return r.emit(s, row)
}

// overTime is a function over the samples of each window.
type overTime struct {
	name    string
	rangeMs int64
	params  []Scalar
	fn      window.Func
	// knowsEven is set if fn needs no bounds of windows when samples and steps are evenly spaced.
	knowsEven bool
	// shared is set if fn reuses sums of samples that long windows share.
	shared bool
	// exact is set if the final result may depend on the order of additions.
	exact bool
	// keepsName is set for functions that keep the metric name, like an offset.
	keepsName bool
	// after is called for each series with a result. It may annotate.
	after func(ev *Eval, ls labels.Labels)
}

// rangeSelector applies a function to the samples of each window.
type rangeSelector struct {
	selector
	overTime
}

// need implements partial.
func (n *rangeSelector) need(names []string) {
	if n.keepsName || n.selector.names() == grid.OneName {
		n.needs = names
	}
}

func (n *rangeSelector) names() grid.Naming {
	if n.keepsName {
		return n.selector.names()
	}
	return grid.Nameless
}

func (n *rangeSelector) Describe(d *Description) {
	d.Node(fmt.Sprintf("%s over %s of %s", n.name, time.Duration(n.rangeMs)*time.Millisecond, n.text()))
}

func (n *rangeSelector) Run(ev *Eval, emit emitFunc) error {
	params := make([][]float64, len(n.params))
	for i, p := range n.params {
		var err error
		if params[i], err = ev.Number(p); err != nil {
			return err
		}
	}
	w := window.New(n.windows(ev.Grid, n.rangeMs), ev.Grid, params)
	w.Exact = n.exact
	out := windowOutput{function: &n.overTime, emit: emit, unique: NewDuplicateCheck(n.selector.names())}
	r := &rangeRun{rangeSelector: n, window: w, windowOutput: out}
	if t := newRollupRun(ev, r); t != nil {
		return t.Run()
	}
	return n.evaluate(ev, w.Windows, r, nil)
}

// rangeRun is an evaluation of a rangeSelector.
type rangeRun struct {
	*rangeSelector
	windowOutput
	window *window.Window
}

// section implements evaluator.
func (r *rangeRun) section(ev *Eval, c *column.Column, first int, row []float64) int {
	if len(c.Segments) > 0 {
		return ev.segmented(r, r.window.Windows, r.shared && window.Overlapping(&r.window.Windows), c, first, row)
	}
	w := r.window.Section(first, len(row))
	largest := w.Reset(&ev.SampleCounts, first, c, r.knowsEven)
	if largest == 0 {
		grid.ClearRow(row)
		return 0
	}
	r.fn(w, row)
	for _, a := range w.Annotations {
		ev.Annotations.Add(a)
	}
	w.Annotations = w.Annotations[:0]
	return largest
}

// fork implements evaluator.
func (r *rangeRun) fork() evaluator {
	own := *r
	own.window = window.New(r.window.Windows, r.window.Grid, r.window.Params)
	own.window.Exact = r.exact
	return &own
}

// windowOutput emits the rows of a function over time.
type windowOutput struct {
	function *overTime
	emit     emitFunc
	unique   *DuplicateCheck
	handedOn int
}

// done implements evaluator.
func (o *windowOutput) done(ev *Eval, s grid.Series, row []float64, largest int) error {
	if largest == 0 {
		return nil
	}
	// The samples of a window count during the evaluation of the series.
	ev.lowerBound = max(ev.lowerBound, o.handedOn+largest)
	if err := ev.account(largest); err != nil {
		return err
	}
	defer func() { ev.held -= largest }()
	present := grid.Count(row)
	if present == 0 {
		return nil
	}
	if err := ev.selected(o.handedOn, present); err != nil {
		return err
	}
	o.handedOn += present
	named := !s.Dropped || ev.Opts.DelayedNames
	s.Dropped = s.Dropped || !o.function.keepsName
	if err := o.unique.check(ev, s); err != nil {
		return err
	}
	if o.function.after != nil && named {
		o.function.after(ev, s.Labels)
	}
	return o.emit(s, row)
}
