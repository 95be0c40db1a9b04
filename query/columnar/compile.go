package columnar

import (
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/columnar/grid"
)

// compiler makes nodes of expressions; what it does not support is nil.
type compiler struct {
	// once is set inside of what is evaluated at one step only: there, @ is allowed.
	once bool
}

// vector compiles an expression of type instant vector.
func (c compiler) vector(e parser.Expr) vector {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return c.vector(e.Expr)
	case *parser.StepInvariantExpr:
		if child := (compiler{once: true}).vector(e.Expr); child != nil {
			if c.once {
				return child
			}
			return invariant{child}
		}
	case *parser.VectorSelector:
		if c.selectable(e) {
			return &instantSelector{selector: newSelector(e)}
		}
	case *parser.UnaryExpr:
		child := c.vector(e.Expr)
		if child == nil || e.Op == parser.ADD {
			return child
		}
		return &mapped{name: "-", child: child, prepare: simple(func(v float64) float64 { return grid.Present(-v) })}
	case *parser.BinaryExpr:
		return c.binary(e)
	case *parser.AggregateExpr:
		return c.aggregation(e)
	case *parser.Call:
		return c.call(e)
	}
	return nil
}

// selectable reports whether a selector has nothing that is left to the engine.
func (c compiler) selectable(vs *parser.VectorSelector) bool {
	return !vs.Anchored && !vs.Smoothed && (vs.Timestamp == nil || c.once) && vs.OriginalOffset%time.Millisecond == 0
}

// scalar compiles an expression of type scalar.
func (c compiler) scalar(e parser.Expr) scalar {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return c.scalar(e.Expr)
	case *parser.NumberLiteral:
		return literal(e.Val)
	case *parser.StepInvariantExpr:
		child := (compiler{once: true}).scalar(e.Expr)
		if child == nil || c.once {
			return child
		}
		return invariantScalar{child}
	case *parser.UnaryExpr:
		child := c.scalar(e.Expr)
		if child == nil || e.Op == parser.ADD {
			return child
		}
		return negated{child}
	case *parser.BinaryExpr:
		left, right, op := c.scalar(e.LHS), c.scalar(e.RHS), scalarOperation(e.Op)
		if left != nil && right != nil && op != nil {
			return scalarBinary{left, right, op}
		}
	case *parser.Call:
		switch e.Func.Name {
		case "time":
			return clock{}
		case "pi":
			return literal(pi)
		case "scalar":
			if child := c.vector(e.Args[0]); child != nil {
				return only{child}
			}
		}
	}
	return nil
}

func (c compiler) binary(e *parser.BinaryExpr) vector {
	arith, compare := arithmetic(e.Op), comparison(e.Op)
	op := e.Op.String()
	if arith == nil && compare == nil && !e.Op.IsSetOperator() {
		return nil
	}
	if e.LHS.Type() == parser.ValueTypeVector && e.RHS.Type() == parser.ValueTypeVector {
		if m := e.VectorMatching; m.FillValues.LHS != nil || m.FillValues.RHS != nil {
			return nil
		}
		left, right := c.vector(e.LHS), c.vector(e.RHS)
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
		n.number, n.child = c.scalar(e.LHS), c.vector(e.RHS)
	default:
		n.child, n.number = c.vector(e.LHS), c.scalar(e.RHS)
	}
	if n.child == nil || n.number == nil {
		return nil
	}
	return n
}

func (c compiler) aggregation(e *parser.AggregateExpr) vector {
	child := c.vector(e.Expr)
	if child == nil {
		return nil
	}
	g := newGrouping(e)
	g.text = groupingText(e)
	if p, ok := child.(partial); ok && !g.without {
		p.need(append([]string{}, g.labels...))
	}
	op := e.Op.String()
	if acc, ok := accumulationOf(e.Op); ok {
		return &aggregate{grouping: g, op: op, child: child, accumulation: acc}
	}
	param, ok := e.Param.(*parser.NumberLiteral)
	if !ok {
		return nil
	}
	switch e.Op {
	case parser.QUANTILE:
		return &quantileOf{grouping: g, child: child, q: param.Val, pos: e.Param.PositionRange()}
	case parser.TOPK, parser.BOTTOMK:
		// Numbers beyond an int64, and NaN, are errors; up to a 32-bit one is enough to compute with.
		if k := param.Val; k > -1e15 && k < 1e15 {
			return &topK{grouping: g, op: op, bottom: e.Op == parser.BOTTOMK, k: int64(k), child: child}
		}
	}
	return nil
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

// counterInfo raises the info that a rate was taken of what may not be a counter, once a metric.
func counterInfo(pos posrange.PositionRange) func(ev *eval, ls labels.Labels) {
	last := ""
	return func(ev *eval, ls labels.Labels) {
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
		ev.annos.Add(annotations.NewPossibleNonCounterInfo(name, pos))
	}
}
