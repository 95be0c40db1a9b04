package columnar

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/budget"
	"halite/query/column"
	"halite/query/columnar/grid"
	"halite/query/columnar/window"
	"halite/query/read"
	"halite/query/read/rollups"
)

// ErrUndecided ends an evaluation that only the engine can finish: it is no failure of the query.
var ErrUndecided = errors.New("columnar: only the engine can evaluate this")

// PanicError is a panic while evaluating: a fault of ours, that the engine has to make good. It is an ErrUndecided.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("columnar: panic: %v", e.Value) }

// Unwrap makes it an ErrUndecided.
func (e *PanicError) Unwrap() error { return ErrUndecided }

// catch turns a panic into an error.
func catch(err *error) {
	if r := recover(); r != nil {
		*err = &PanicError{Value: r, Stack: string(debug.Stack())}
	}
}

// activity names the evaluation in errors, as the engine does.
const activity = "query execution"

// Options configures a plan.
type Options struct {
	// LookbackMs is how far an instant selector looks back, in milliseconds; required.
	LookbackMs int64
	// SamplesMax is the number of samples the query may hold; required.
	SamplesMax int
	// CountAll reads also what cannot show in the result, so that statistics count it as the engine does.
	CountAll bool
	// Concurrency is the number of batches of series that are read and evaluated at once; below 2 one after the other.
	Concurrency int
	// Tiers says when states of hours and days stand for the samples of long windows.
	Tiers Tiers
	// Memory is used by one plan after another; nil makes it anew for each.
	Memory *grid.Memory
	// DelayedNames drops metric names at the end of the evaluation, as the engine does with EnableDelayedNameRemoval.
	DelayedNames bool
}

// Tiers says when states of hours and days stand for samples.
type Tiers uint8

const (
	// TiersOff never uses states.
	TiersOff Tiers = iota
	// TiersAuto uses them where that is exact and cheaper, or where samples are retired.
	TiersAuto
	// TiersAlways uses them wherever there are some.
	TiersAlways
)

// vector is a node whose value is an instant vector at every step.
type vector interface {
	// run hands on each series of the result that has a value. The values belong to emit until it returns.
	run(ev *eval, emit emitFunc) error
	names() grid.Naming
	describe(d *description)
}

type emitFunc func(s grid.Series, values []float64) error

// scalar is a node whose value is a number at every step.
type scalar interface {
	// values has one value for each step; it may be shared and must not be changed.
	values(ev *eval) ([]float64, error)
	describe(d *description)
}

// state is what all nodes of an evaluation share.
type state struct {
	ctx     context.Context
	session *read.Session
	budget  *budget.Budget   // of the session
	rollups *rollups.Session // nil if there are none
	opts    Options
	annos   annotations.Annotations
	// held is the number of samples that count against SamplesMax now; peak the most there were. They are never fewer
	// than the engine has.
	held, peak int
	// surely is a number of samples that the engine too has at once: the values of the largest selector.
	surely int
	// typed is set once a series has type or unit labels: then dropping names may make label sets equal even when all
	// have one name.
	typed bool

	selecting, reading time.Duration
	ticks              int
}

// ticksBetweenChecks is the number of ticks after which the context is looked at again.
const ticksBetweenChecks = 64

// tick is called for each row that an operator works on; it fails when the query has ended.
func (s *state) tick() error {
	if s.ticks++; s.ticks%ticksBetweenChecks == 0 {
		return s.ctx.Err()
	}
	return nil
}

// eval is the evaluation of nodes on a grid.
type eval struct {
	*state
	grid grid.Grid
	grid.SampleCounts
	timesMade []int64
	placed    window.Segments
}

// times are those of the samples of a column, until the next call.
func (ev *eval) times(c *column.Column) []int64 {
	ts := c.Times(ev.timesMade)
	if c.TsMs == nil {
		ev.timesMade = ts
	}
	return ts
}

func newEval(s *state, g grid.Grid) *eval {
	return &eval{state: s, grid: g, SampleCounts: grid.NewSampleCounts(g.Steps)}
}

// hold counts samples against the limit. Where it is not certain that the engine counts too many as well, the engine has
// to say so.
func (ev *eval) hold(samples int) error {
	ev.held += samples
	ev.peak = max(ev.peak, ev.held)
	switch {
	case ev.held <= ev.opts.SamplesMax:
		return nil
	case ev.surely > ev.opts.SamplesMax:
		return promql.ErrTooManySamples(activity)
	}
	return ErrUndecided
}

// selected counts values that a selector hands on; of them it has handed on before so far.
func (ev *eval) selected(before, values int) error {
	ev.surely = max(ev.surely, before+values)
	return ev.hold(values)
}

// settle ends an operator: what was held since before is replaced by its result.
func (ev *eval) settle(before, result int) error {
	ev.held = before
	return ev.hold(result)
}

// aside evaluates f and keeps its annotations back, for nodes that must evaluate operands in another order than the
// engine: of two annotations with the same words the later one stays.
func (ev *eval) aside(f func() error) (annotations.Annotations, error) {
	kept := ev.annos
	ev.annos = nil
	err := f()
	got := ev.annos
	ev.annos = kept
	return got, err
}

// number evaluates a scalar and counts it, as the engine does.
func (ev *eval) number(n scalar) ([]float64, error) {
	row, err := n.values(ev)
	if err != nil {
		return nil, err
	}
	return row, ev.hold(len(row) + 1)
}

// scalars evaluates several scalars aside. They count as many samples from then on as they ever did: the engine may
// evaluate them when it has other operands already.
func (ev *eval) scalars(nodes []scalar) (rows [][]float64, annos annotations.Annotations, err error) {
	before, peak := ev.held, ev.peak
	ev.peak = before
	defer func() { ev.held, ev.peak = ev.peak, max(peak, ev.peak) }()
	annos, err = ev.aside(func() error {
		for _, n := range nodes {
			row, err := ev.number(n)
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return nil
	})
	return rows, annos, err
}

// metric is the labels of a series as the engine has them now.
func (ev *eval) metric(s grid.Series) grid.Series {
	if s.Dropped && !ev.opts.DelayedNames {
		return grid.Series{Labels: grid.DropNames(s.Labels)}
	}
	return s
}

// guard finds label sets that dropping names has made equal; what then happens depends on times and operators, and is
// left to the engine.
type guard struct {
	names grid.Naming
	seen  map[uint64]struct{}
}

func newGuard(n grid.Naming) *guard { return &guard{names: n, seen: map[uint64]struct{}{}} }

func (g *guard) check(ev *eval, s grid.Series) error {
	if ev.opts.DelayedNames || !s.Dropped || g.names != grid.AnyName && !ev.typed {
		return nil
	}
	return g.add(ev.metric(s))
}

func (g *guard) add(s grid.Series) error {
	h := s.Labels.Hash()
	if _, found := g.seen[h]; found {
		return ErrUndecided
	}
	g.seen[h] = struct{}{}
	return nil
}

// matrix is a result that was collected.
type matrix struct {
	series []grid.Series
	rows   [][]float64
	bytes  int64
	arena  grid.Arena // that the rows lie in
	// signatures are the numbers of the series' signatures; nil if they were not asked for yet.
	signatures []int
}

// seriesBytes is about what a collected series costs beside its values.
const seriesBytes = 64

// collect runs a node and keeps copies of its rows.
func (ev *eval) collect(v vector) (*matrix, error) {
	m := matrix{arena: grid.Arena{Memory: ev.opts.Memory}}
	err := v.run(ev, func(s grid.Series, values []float64) error {
		if err := ev.tick(); err != nil {
			return err
		}
		bytes := int64(len(values))*8 + seriesBytes
		if err := ev.budget.Reserve(bytes); err != nil {
			return err
		}
		m.bytes += bytes
		row := m.arena.Row(len(values))
		copy(row, values)
		m.series = append(m.series, s)
		m.rows = append(m.rows, row)
		return nil
	})
	if err != nil {
		ev.free(&m)
		return nil, err
	}
	return &m, nil
}

// free gives the memory of a matrix back, to the budget and for other rows.
func (ev *eval) free(m *matrix) {
	ev.budget.Release(m.bytes)
	m.arena.Release()
}

// invariant has the same value at every step: it is evaluated once.
type invariant struct{ child vector }

func (n invariant) names() grid.Naming { return n.child.names() }

func (n invariant) describe(d *description) { d.node("once", n.child) }

func (n invariant) run(ev *eval, emit emitFunc) error {
	once := newEval(ev.state, ev.grid.First())
	defer func() { ev.CountOnce(&once.SampleCounts) }()
	row := make([]float64, ev.grid.Steps)
	return n.child.run(once, func(s grid.Series, values []float64) error {
		for k := range row {
			row[k] = values[0]
		}
		if err := ev.hold(ev.grid.Steps - 1); err != nil {
			return err
		}
		return emit(s, row)
	})
}

// invariantScalar is invariant for scalars.
type invariantScalar struct{ child scalar }

func (n invariantScalar) describe(d *description) { n.child.describe(d) }

func (n invariantScalar) values(ev *eval) ([]float64, error) {
	once := newEval(ev.state, ev.grid.First())
	values, err := n.child.values(once)
	if err != nil {
		return nil, err
	}
	ev.CountOnce(&once.SampleCounts)
	return constantRow(ev.grid.Steps, values[0]), nil
}

func constantRow(n int, v float64) []float64 {
	row := make([]float64, n)
	for k := range row {
		row[k] = v
	}
	return row
}
