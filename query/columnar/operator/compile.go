package operator

import (
	"cmp"
	"math"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/column"
	"halite/query/columnar/accumulate"
	"halite/query/columnar/grid"
)

// Compiler makes the operators of expressions. Its methods return nil for an unsupported expression.
type Compiler struct {
	// Once is set inside expressions that are evaluated at one step only. There, @ is allowed.
	Once bool
	// StartTimes leaves functions that use start timestamps to the engine.
	StartTimes bool

	grid           grid.Grid // the times at which the expressions are evaluated
	lookbackMs     int64
	subqueryStepMs func(rangeMs int64) int64
	histograms     func(metric string, within column.TimeRange) bool
	exact          bool // inside an expression whose result depends on the order of additions
}

// NewCompiler returns the compiler of expressions that are evaluated on a grid.
func NewCompiler(o Options, g grid.Grid) Compiler {
	return Compiler{
		StartTimes: o.StartTimes, grid: g, lookbackMs: o.LookbackMs, subqueryStepMs: o.SubqueryStepMs, histograms: o.Histograms,
	}
}

// LeftOut returns the reason why the engine must evaluate a selector with windows of rangeMs; 0 means the lookback. The
// reason is empty if operators can evaluate the selector.
func (c Compiler) LeftOut(vs *parser.VectorSelector, rangeMs int64) (reason string) {
	if c.histograms == nil {
		return ""
	}
	s := newSelector(vs)
	for _, m := range s.matchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual &&
			c.histograms(m.Value, s.windows(c.grid, cmp.Or(rangeMs, c.lookbackMs)).Bounds()) {
			return histogramsReason(m.Value)
		}
	}
	return ""
}

// AtOnce returns the compiler for expressions that are evaluated at only one step.
func (c Compiler) AtOnce() Compiler {
	c.Once, c.grid = true, c.grid.First()
	return c
}

// Inside returns the compiler for the operand of a subquery that is the operand of a function.
func (c Compiler) Inside(q *parser.SubqueryExpr, function string) Compiler {
	g := newSubquery(q, c.subqueryStepMs).grid(c.grid)
	if g.Steps == 0 {
		g = g.First()
	}
	c.Once, c.grid, c.exact = false, g, c.exact || showsLastBits(function)
	return c
}

// UsesStartTimes reports whether a function uses start timestamps if the engine's option is on.
func UsesStartTimes(function string) bool {
	switch function {
	case "rate", "irate", "increase", "resets":
		return true
	}
	return false
}

// Vector compiles an expression of type instant vector.
func (c Compiler) Vector(e parser.Expr) Vector {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return c.Vector(e.Expr)
	case *parser.StepInvariantExpr:
		if child := c.AtOnce().Vector(e.Expr); child != nil {
			if c.Once {
				return child
			}
			return Invariant{child}
		}
	case *parser.VectorSelector:
		if c.selectable(e, 0) {
			return &instantSelector{selector: newSelector(e)}
		}
	case *parser.UnaryExpr:
		child := c.Vector(e.Expr)
		if child == nil || e.Op == parser.ADD {
			return child
		}
		return &valueFunction{name: "-", child: child, prepare: simple(func(v float64) float64 { return grid.Present(-v) })}
	case *parser.BinaryExpr:
		return c.binary(e)
	case *parser.AggregateExpr:
		return c.aggregation(e)
	case *parser.Call:
		return c.call(e)
	}
	return nil
}

// selectable reports whether operators support all parts of a selector.
func (c Compiler) selectable(vs *parser.VectorSelector, rangeMs int64) bool {
	return !vs.Anchored && !vs.Smoothed && (vs.Timestamp == nil || c.Once) && vs.OriginalOffset%time.Millisecond == 0 &&
		c.LeftOut(vs, rangeMs) == ""
}

// Scalar compiles an expression of type scalar.
func (c Compiler) Scalar(e parser.Expr) Scalar {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return c.Scalar(e.Expr)
	case *parser.NumberLiteral:
		return literal(e.Val)
	case *parser.StepInvariantExpr:
		child := c.AtOnce().Scalar(e.Expr)
		if child == nil || c.Once {
			return child
		}
		return invariantScalar{child}
	case *parser.UnaryExpr:
		child := c.Scalar(e.Expr)
		if child == nil || e.Op == parser.ADD {
			return child
		}
		return negation{child}
	case *parser.BinaryExpr:
		left, right, op := c.Scalar(e.LHS), c.Scalar(e.RHS), scalarOperation(e.Op)
		if left != nil && right != nil && op != nil {
			return scalarBinary{left, right, op}
		}
	case *parser.Call:
		switch e.Func.Name {
		case "time":
			return clock{}
		case "pi":
			return literal(pi)
		case "max_of", "min_of":
			pick := math.Max
			if e.Func.Name == "min_of" {
				pick = math.Min
			}
			if left, right := c.Scalar(e.Args[0]), c.Scalar(e.Args[1]); left != nil && right != nil {
				return scalarBinary{left, right, pick}
			}
		case "scalar":
			if child := c.Vector(e.Args[0]); child != nil {
				return scalarFunction{child}
			}
		}
	}
	return nil
}

func (c Compiler) binary(e *parser.BinaryExpr) Vector {
	arith, compare := arithmetic(e.Op), comparison(e.Op)
	op := e.Op.String()
	if arith == nil && compare == nil && !e.Op.IsSetOperator() {
		return nil
	}
	c.exact = c.exact || e.Op == parser.MOD // a quotient amplifies differences in the last bits
	if e.LHS.Type() == parser.ValueTypeVector && e.RHS.Type() == parser.ValueTypeVector {
		if m := e.VectorMatching; m.FillValues.LHS != nil || m.FillValues.RHS != nil {
			return nil
		}
		left, right := c.Vector(e.LHS), c.Vector(e.RHS)
		switch {
		case left == nil || right == nil:
			return nil
		case e.Op.IsSetOperator():
			return &set{left: left, right: right, matching: e.VectorMatching, op: e.Op}
		}
		return &join{
			left: left, right: right, matching: e.VectorMatching, op: op,
			arithmetic: arith, compare: compare, asBool: e.ReturnBool,
		}
	}
	n := &withScalar{op: op, arithmetic: arith, compare: compare, asBool: e.ReturnBool}
	switch parser.ValueTypeScalar {
	case e.LHS.Type():
		n.scalarLeft = true
		n.number, n.child = c.Scalar(e.LHS), c.Vector(e.RHS)
	default:
		n.child, n.number = c.Vector(e.LHS), c.Scalar(e.RHS)
	}
	if n.child == nil || n.number == nil {
		return nil
	}
	return n
}

func (c Compiler) aggregation(e *parser.AggregateExpr) Vector {
	if e.Op == parser.COUNT_VALUES {
		return c.countValues(e)
	}
	child := c.operand(e)
	if child == nil {
		return nil
	}
	g := newGrouping(e)
	g.text = groupingText(e)
	if p, ok := child.(partial); ok && !g.without {
		p.need(append([]string{}, g.labels...))
	}
	op := e.Op.String()
	if acc, ok := accumulate.ForOperator(e.Op); ok {
		return &aggregate{grouping: g, op: op, child: child, Function: acc}
	}
	param, ok := e.Param.(*parser.NumberLiteral)
	if !ok {
		return nil
	}
	switch e.Op {
	case parser.QUANTILE:
		return &quantileOf{grouping: g, child: child, q: param.Val, pos: e.Param.PositionRange()}
	case parser.LIMITK:
		// The results of the engine keep their order in instant queries.
		if k := param.Val; k >= 1 && k < 1e15 && !c.grid.Instant() {
			return &limitK{grouping: g, k: int64(k), child: child}
		}
	case parser.TOPK, parser.BOTTOMK:
		// NaN and a number that does not fit into an int64 are errors.
		if k := param.Val; k > -1e15 && k < 1e15 {
			return &topK{grouping: g, op: op, bottom: e.Op == parser.BOTTOMK, k: int64(k), child: child}
		}
	}
	return nil
}

// operand compiles the operand of an aggregation. count and group need no values, so their selectors may have histograms.
func (c Compiler) operand(e *parser.AggregateExpr) Vector {
	vs, ok := e.Expr.(*parser.VectorSelector)
	if !ok || e.Op != parser.COUNT && e.Op != parser.GROUP {
		return c.Vector(e.Expr)
	}
	c.histograms = nil
	if !c.selectable(vs, 0) {
		return nil
	}
	return &instantSelector{selector: newSelector(vs), presence: true}
}

func groupingText(e *parser.AggregateExpr) string {
	switch {
	case e.Without:
		return " without (" + strings.Join(e.Grouping, ", ") + ")"
	case len(e.Grouping) > 0:
		return " by (" + strings.Join(e.Grouping, ", ") + ")"
	}
	return ""
}

// counterInfo returns a function that annotates, once for each metric, that the operand of a rate may not be a counter.
func counterInfo(pos posrange.PositionRange) func(ev *Eval, ls labels.Labels) {
	last := ""
	return func(ev *Eval, ls labels.Labels) {
		name := ls.Get(model.MetricNameLabel)
		if name == "" || name == last {
			return
		}
		last = name
		for _, suffix := range []string{"_total", "_sum", "_count", "_bucket"} {
			if strings.HasSuffix(name, suffix) {
				return
			}
		}
		ev.Annotations.Add(annotations.NewPossibleNonCounterInfo(name, pos))
	}
}

// Supports reports whether operators can evaluate a whole preprocessed expression. once means that the expression is
// evaluated at only one step.
func (c Compiler) Supports(e parser.Expr, once bool) bool {
	if once {
		c = c.AtOnce()
	}
	switch e.Type() {
	case parser.ValueTypeVector:
		return c.Vector(e) != nil
	case parser.ValueTypeScalar:
		return c.Scalar(e) != nil
	}
	return false
}
