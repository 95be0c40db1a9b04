package operator

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/budget"
	"halite/query/column"
	"halite/query/columnar/grid"
	"halite/query/columnar/window"
	"halite/query/read"
	"halite/query/read/rollups"
)

// ErrUndecided ends an evaluation that only Prometheus's engine can finish. The query has not failed.
var ErrUndecided = errors.New("columnar: only the engine can evaluate this")

// PanicError is a panic in an operator. It is an ErrUndecided: Prometheus's engine evaluates the query instead.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("columnar: panic: %v", e.Value) }

// Unwrap returns ErrUndecided.
func (e *PanicError) Unwrap() error { return ErrUndecided }

// Catch sets err to a PanicError after a panic. Callers defer it.
func Catch(err *error) {
	if r := recover(); r != nil {
		*err = &PanicError{Value: r, Stack: string(debug.Stack())}
	}
}

// activity names the evaluation in errors, like the engine.
const activity = "query execution"

// Options configures a plan.
type Options struct {
	// LookbackMs is the lookback of instant selectors, in milliseconds; required.
	LookbackMs int64
	// SubqueryStepMs returns the default step of a subquery for its range, both in milliseconds; required.
	SubqueryStepMs func(rangeMs int64) int64
	// SamplesMax is the number of samples that the query may hold; required.
	SamplesMax int
	// CountAll also reads samples that cannot change the result, so that statistics count them as the engine does.
	CountAll bool
	// Concurrency is the number of batches of series that are read and evaluated concurrently. Below 2, batches run
	// one after the other.
	Concurrency int
	// Tiers says when rollup states of hours and days replace the samples of long windows.
	Tiers Tiers
	// Memory is shared by consecutive plans; nil allocates memory for each plan.
	Memory *grid.Memory
	// DelayedNames drops metric names at the end of the evaluation, as the engine does with EnableDelayedNameRemoval.
	DelayedNames bool
	// StartTimes means that the engine's functions use start timestamps.
	StartTimes bool
	// Histograms reports whether a metric may have histograms in a range of time; nil if none has.
	Histograms func(metric string, within column.TimeRange) bool
}

func histogramsReason(metric string) string {
	return "metric " + metric + " has native histograms in the time range"
}

// Tiers says when rollup states of hours and days replace samples.
type Tiers uint8

const (
	// TiersOff never uses states.
	TiersOff Tiers = iota
	// TiersAuto uses states where they are exact and cheaper, or where samples are retired.
	TiersAuto
	// TiersAlways uses states wherever they exist.
	TiersAlways
)

// Vector is a node whose value is an instant vector at every step.
type Vector interface {
	// Run calls emit for each series of the result that has a value. The values belong to emit until it returns.
	Run(ev *Eval, emit emitFunc) error
	names() grid.Naming
	Describe(d *Description)
}

type emitFunc func(s grid.Series, values []float64) error

// Scalar is a node whose value is a number at every step.
type Scalar interface {
	// values has one value for each step. The caller must not change it, because it may be shared.
	values(ev *Eval) ([]float64, error)
	Describe(d *Description)
}

// State is the shared state of all nodes of an evaluation.
type State struct {
	Context     context.Context
	Session     *read.Session
	Budget      *budget.Budget   // of the session
	Rollups     *rollups.Session // nil if there are none
	Opts        Options
	Annotations annotations.Annotations
	// held is the number of samples that count against SamplesMax now, and Peak is its maximum. The engine never holds more.
	held, Peak int
	// lowerBound is a number of samples that the engine certainly holds at the same time: the values of the largest
	// selector.
	lowerBound int
	// Typed is set once a series has type or unit labels. Then dropping names may make label sets equal even if all
	// series have the same name.
	Typed bool

	Selecting, Reading time.Duration
	ticks              int
}

// ticksBetweenChecks is the number of ticks between two checks of the context.
const ticksBetweenChecks = 64

// tick is called for each row of an operator. It fails when the query has ended.
func (s *State) tick() error {
	if s.ticks++; s.ticks%ticksBetweenChecks == 0 {
		return s.Context.Err()
	}
	return nil
}

// Eval is the evaluation of nodes on a grid.
type Eval struct {
	*State
	Grid grid.Grid
	grid.SampleCounts
	timesMade []int64
	segments  window.Segments
	builder   *labels.Builder // builder for the labels of groups; nil before the first group
}

// times returns the timestamps of a column, valid until the next call.
func (ev *Eval) times(c *column.Column) []int64 {
	ts := c.Times(ev.timesMade)
	if c.TsMs == nil {
		ev.timesMade = ts
	}
	return ts
}

// NewEval begins an evaluation on a grid. Evaluations that share a state share its limits.
func NewEval(s *State, g grid.Grid) *Eval {
	return &Eval{State: s, Grid: g, SampleCounts: grid.NewSampleCounts(g.Steps)}
}

// account counts samples against the limit. Above the limit it fails. The error is ErrUndecided if the engine might stay
// below the limit.
func (ev *Eval) account(samples int) error {
	ev.held += samples
	ev.Peak = max(ev.Peak, ev.held)
	switch {
	case ev.held <= ev.Opts.SamplesMax:
		return nil
	case ev.lowerBound > ev.Opts.SamplesMax:
		return promql.ErrTooManySamples(activity)
	}
	return ErrUndecided
}

// selected counts values that a selector emits, in addition to its earlier values.
func (ev *Eval) selected(before, values int) error {
	ev.lowerBound = max(ev.lowerBound, before+values)
	return ev.account(values)
}

// replace ends an operator. before is the number of samples that were held at its start. result is the number of samples in
// its result, which replaces the samples that the operator has held.
func (ev *Eval) replace(before, result int) error {
	ev.held = before
	return ev.account(result)
}

// CaptureAnnotations evaluates f and returns its annotations. Nodes need it if they evaluate operands in another order than
// the engine. If two annotations have the same text, the later one stays.
func (ev *Eval) CaptureAnnotations(f func() error) (annotations.Annotations, error) {
	kept := ev.Annotations
	ev.Annotations = nil
	err := f()
	got := ev.Annotations
	ev.Annotations = kept
	return got, err
}

// Number evaluates a scalar and counts it like the engine.
func (ev *Eval) Number(n Scalar) ([]float64, error) {
	row, err := n.values(ev)
	if err != nil {
		return nil, err
	}
	return row, ev.account(len(row) + 1)
}

// scalars evaluates several scalars and returns their annotations. Their peak of samples stays counted, because the
// engine may evaluate them while it holds other operands.
func (ev *Eval) scalars(nodes []Scalar) (rows [][]float64, annos annotations.Annotations, err error) {
	before, peak := ev.held, ev.Peak
	ev.Peak = before
	defer func() { ev.held, ev.Peak = ev.Peak, max(peak, ev.Peak) }()
	annos, err = ev.CaptureAnnotations(func() error {
		for _, n := range nodes {
			row, err := ev.Number(n)
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return nil
	})
	return rows, annos, err
}

// Metric returns the labels that the series has in the engine at this point.
func (ev *Eval) Metric(s grid.Series) grid.Series {
	if s.Dropped && !ev.Opts.DelayedNames {
		return grid.Series{Labels: grid.DropNames(s.Labels)}
	}
	return s
}

// DuplicateCheck finds label sets that became equal when names were dropped. It leaves such queries to the engine, because the
// result depends on times and operators.
type DuplicateCheck struct {
	names grid.Naming
	seen  map[uint64]struct{} // nil before the first series
}

// NewDuplicateCheck returns a check for series with the given naming.
func NewDuplicateCheck(n grid.Naming) *DuplicateCheck {
	return &DuplicateCheck{names: n}
}

func (g *DuplicateCheck) check(ev *Eval, s grid.Series) error {
	if ev.Opts.DelayedNames || !s.Dropped || g.names != grid.AnyName && !ev.Typed {
		return nil
	}
	return g.Add(ev.Metric(s))
}

// Add returns ErrUndecided if a series has the labels of an earlier one.
func (g *DuplicateCheck) Add(s grid.Series) error {
	h := s.Labels.Hash()
	if _, found := g.seen[h]; found {
		return ErrUndecided
	}
	if g.seen == nil {
		g.seen = map[uint64]struct{}{}
	}
	g.seen[h] = struct{}{}
	return nil
}

// Matrix is a collected result.
type Matrix struct {
	Series []grid.Series
	Rows   [][]float64
	bytes  int64
	arena  grid.Arena // memory of the rows
	// signatures are the numbers of the series' signatures, or nil before their first use.
	signatures []int
}

// seriesBytes estimates the memory of a collected series without its values.
const seriesBytes = 64

// Collect runs a node and keeps copies of its rows.
func (ev *Eval) Collect(v Vector) (*Matrix, error) {
	m := Matrix{arena: grid.Arena{Memory: ev.Opts.Memory}}
	err := v.Run(ev, func(s grid.Series, values []float64) error {
		if err := ev.tick(); err != nil {
			return err
		}
		bytes := int64(len(values))*8 + seriesBytes
		if err := ev.Budget.Reserve(bytes); err != nil {
			return err
		}
		m.bytes += bytes
		row := m.arena.Row(len(values))
		copy(row, values)
		m.Series = append(m.Series, s)
		m.Rows = append(m.Rows, row)
		return nil
	})
	if err != nil {
		ev.free(&m)
		return nil, err
	}
	return &m, nil
}

// free releases the memory of a matrix for other rows, and its reservation in the budget.
func (ev *Eval) free(m *Matrix) {
	ev.Budget.Release(m.bytes)
	m.arena.Release()
}

// Invariant is an operand with the same value at every step, so it is evaluated once.
type Invariant struct{ Child Vector }

func (n Invariant) names() grid.Naming { return n.Child.names() }

// Describe implements Vector.
func (n Invariant) Describe(d *Description) { d.Node("once", n.Child) }

// Run implements Vector.
func (n Invariant) Run(ev *Eval, emit emitFunc) error {
	once := NewEval(ev.State, ev.Grid.First())
	defer func() { ev.CountOnce(&once.SampleCounts) }()
	row := make([]float64, ev.Grid.Steps)
	return n.Child.Run(once, func(s grid.Series, values []float64) error {
		for k := range row {
			row[k] = values[0]
		}
		if err := ev.account(ev.Grid.Steps - 1); err != nil {
			return err
		}
		return emit(s, row)
	})
}

// invariantScalar is Invariant for scalars.
type invariantScalar struct{ child Scalar }

func (n invariantScalar) Describe(d *Description) { n.child.Describe(d) }

func (n invariantScalar) values(ev *Eval) ([]float64, error) {
	once := NewEval(ev.State, ev.Grid.First())
	values, err := n.child.values(once)
	if err != nil {
		return nil, err
	}
	ev.CountOnce(&once.SampleCounts)
	return constantRow(ev.Grid.Steps, values[0]), nil
}

func constantRow(n int, v float64) []float64 {
	row := make([]float64, n)
	for k := range row {
		row[k] = v
	}
	return row
}

// Description is the tree of operators of a plan, with a line for each operator.
type Description struct {
	Lines []string
	Depth int
}

// Node adds a line for an operator and, indented below it, the lines of its operands.
func (d *Description) Node(text string, children ...interface{ Describe(*Description) }) {
	d.Lines = append(d.Lines, strings.Repeat("  ", d.Depth)+text)
	d.Depth++
	for _, c := range children {
		c.Describe(d)
	}
	d.Depth--
}
