package operator

import (
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/column"
	"halite/query/columnar/grid"
	"halite/query/columnar/window"
	"halite/query/read"
)

// subquery has the times at which the operand of a subquery is evaluated.
type subquery struct {
	rangeMs, stepMs, offsetMs int64
	atMs                      *int64 // only on a grid of one step
}

func newSubquery(q *parser.SubqueryExpr, stepDefaultMs func(rangeMs int64) int64) subquery {
	s := subquery{
		rangeMs: q.Range.Milliseconds(), stepMs: q.Step.Milliseconds(), offsetMs: q.OriginalOffset.Milliseconds(), atMs: q.Timestamp,
	}
	if q.Step == 0 {
		s.stepMs = stepDefaultMs(s.rangeMs)
	}
	return s
}

// windows returns the windows of the steps of a grid, moved by offset and @.
func (q subquery) windows(g grid.Grid) read.Windows {
	return selector{offsetMs: q.offsetMs, atMs: q.atMs}.windows(g, q.rangeMs)
}

// grid returns the times in the windows of the steps of g, and between the windows. Times are multiples of the step, so
// windows share values. The grid may have no steps.
func (q subquery) grid(g grid.Grid) grid.Grid {
	w := q.windows(g)
	afterMs, toMs := w.FirstEndMs-w.RangeMs, w.FirstEndMs+int64(w.Steps-1)*w.StepMs
	startMs := afterMs / q.stepMs * q.stepMs
	if startMs <= afterMs {
		startMs += q.stepMs
	}
	if startMs > toMs {
		return grid.Grid{StartMs: startMs, EndMs: toMs, StepMs: q.stepMs}
	}
	return grid.New(startMs, toMs, q.stepMs)
}

// overSubquery applies a function to the values of a subquery in each window. The operand is evaluated once, on its own
// grid.
type overSubquery struct {
	subquery
	overTime
	child Vector
}

func (n *overSubquery) names() grid.Naming {
	if n.keepsName {
		return n.child.names()
	}
	return grid.Nameless
}

// need implements partial.
func (n *overSubquery) need(names []string) {
	if p, ok := n.child.(partial); ok && (n.keepsName || n.child.names() != grid.AnyName) {
		p.need(names)
	}
}

// Describe implements Vector.
func (n *overSubquery) Describe(d *Description) {
	rangeOf, step := time.Duration(n.overTime.rangeMs)*time.Millisecond, time.Duration(n.stepMs)*time.Millisecond
	d.Node(fmt.Sprintf("%s over %s at steps of %s", n.name, rangeOf, step), n.child)
}

// subqueryBytes is the memory of a step of a subquery: the value and the counts of samples.
const subqueryBytes = 5 * 8

func (n *overSubquery) Run(ev *Eval, emit emitFunc) error {
	params, annos, err := ev.scalars(n.params)
	if err != nil {
		return err
	}
	inner := n.grid(ev.Grid)
	bytes := int64(inner.Steps) * subqueryBytes
	if err := ev.Budget.Reserve(bytes); err != nil {
		return err
	}
	defer ev.Budget.Release(bytes)
	r := &subqueryRun{
		windowOutput: windowOutput{function: &n.overTime, emit: emit, unique: NewDuplicateCheck(n.child.names())},
		ev:           ev, inner: inner, window: window.New(n.windows(ev.Grid), ev.Grid, params),
		counts: grid.NewSampleCounts(ev.Grid.Steps), row: make([]float64, ev.Grid.Steps),
	}
	r.window.Exact = n.exact
	if inner.Steps > 0 {
		evInner := NewEval(ev.State, inner)
		if err := n.child.Run(evInner, r.add); err != nil {
			return err
		}
		ev.CountSubquery(ev.Grid, &evInner.SampleCounts, inner, n.offsetMs, n.overTime.rangeMs)
	}
	// The engine holds all values of the operand while it works on any window.
	if err := ev.account(r.largest); err != nil {
		return err
	}
	ev.CountTotal(&r.counts)
	ev.held -= r.points + r.largest
	ev.Annotations.Merge(annos)
	ev.Annotations.Merge(r.annos)
	return nil
}

// subqueryRun is an evaluation of an overSubquery.
type subqueryRun struct {
	windowOutput
	ev     *Eval
	inner  grid.Grid
	window *window.Window
	counts grid.SampleCounts // of the windows
	column column.Column
	row    []float64
	points int // values of the operand
	// largest is the number of values in the largest window.
	largest int
	// annos are the annotations of the function and of all operators above it. They replace equal annotations of the
	// operand.
	annos annotations.Annotations
}

// add evaluates the windows of a series of the operand.
func (r *subqueryRun) add(s grid.Series, values []float64) error {
	ev := r.ev
	if err := ev.tick(); err != nil {
		return err
	}
	r.points += grid.Count(values)
	ev.lowerBound = max(ev.lowerBound, r.points)
	ev.Annotations, r.annos = r.annos, ev.Annotations
	defer func() { ev.Annotations, r.annos = r.annos, ev.Annotations }()
	r.fill(values)
	largest := r.window.Reset(&r.counts, 0, &r.column, r.function.knowsEven)
	if largest == 0 {
		return nil
	}
	r.largest = max(r.largest, largest)
	r.function.fn(r.window, r.row)
	for _, a := range r.window.Annotations {
		ev.Annotations.Add(a)
	}
	r.window.Annotations = r.window.Annotations[:0]
	return r.done(ev, s, r.row, largest)
}

// fill makes the column of the values between the first and the last present one.
func (r *subqueryRun) fill(values []float64) {
	from, end := 0, len(values)
	for from < end && grid.IsAbsent(values[from]) {
		from++
	}
	for from < end && grid.IsAbsent(values[end-1]) {
		end--
	}
	r.column.Samples = column.Samples{
		FirstMs: r.inner.At(from), StepMs: r.inner.StepMs, Values: values[from:end], NoStale: !grid.HasAbsent(values[from:end]),
	}
}
