package columnar

import (
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"

	"halite/query/columnar/grid"
	"halite/query/columnar/operator"
)

// delegatedLabel is the label of the selectors that replace supported parts of an expression. The pointer to its matcher
// identifies the part, so a label of that name in data or query has no special meaning.
const delegatedLabel = "__columnar__"

// Plan says how to evaluate an expression.
type Plan struct {
	grid     grid.Grid
	opts     operator.Options
	compiler operator.Compiler

	vector operator.Vector // the whole expression, if it is a supported vector
	scalar operator.Scalar // the same for a scalar

	rest      parser.Expr // the expression for the engine
	delegated map[*labels.Matcher]*delegatedPart
	order     []*delegatedPart
}

// delegatedPart is a supported part of an expression that is not supported as a whole.
type delegatedPart struct {
	vector operator.Vector
	grid   grid.Grid
}

// Build plans a preprocessed expression. The caller must not use the expression afterwards. It returns nil
// if only the engine can evaluate it.
func Build(e parser.Expr, g grid.Grid, opts operator.Options) *Plan {
	c := operator.NewCompiler(opts, g)
	p := &Plan{grid: g, opts: opts, compiler: c, delegated: map[*labels.Matcher]*delegatedPart{}}
	switch e.Type() {
	case parser.ValueTypeVector:
		p.vector = c.Vector(e)
	case parser.ValueTypeScalar:
		p.scalar = c.Scalar(e)
	}
	if p.Whole() {
		return p
	}
	if opts.DelayedNames {
		// The engine cannot know the series that lose their names at the end.
		return nil
	}
	p.rest = p.rewrite(e, false)
	if len(p.order) == 0 {
		return nil
	}
	return p
}

// Whole reports whether the plan needs no engine.
func (p *Plan) Whole() bool { return p.vector != nil || p.scalar != nil }

// Rest returns the expression that the engine evaluates over [Run.Queryable], not preprocessed. It returns nil if the plan is
// whole.
func (p *Plan) Rest() parser.Expr { return p.rest }

// Operators returns the tree of operators, one on each line.
func (p *Plan) Operators() []string {
	d := new(operator.Description)
	switch {
	case p.vector != nil:
		p.vector.Describe(d)
	case p.scalar != nil:
		d.Node("scalar expression", p.scalar)
	default:
		d.Node("engine")
		d.Depth++
		for _, h := range p.order {
			h.vector.Describe(d)
		}
	}
	return d.Lines
}

// rewrite replaces the largest supported parts of an expression by selectors. It removes the marks of preprocessing, because
// the engine sets them itself. once is true inside an expression that is evaluated at one step only.
func (p *Plan) rewrite(e parser.Expr, once bool) parser.Expr {
	if e == nil {
		return nil
	}
	if worthwhile(e) {
		c := p.compiler
		if once {
			c = c.AtOnce()
		}
		if v := c.Vector(e); v != nil {
			return p.delegate(v, e.PositionRange(), once || isOnce(e))
		}
	}
	switch e := e.(type) {
	case *parser.StepInvariantExpr:
		return p.rewrite(e.Expr, true)
	case *parser.ParenExpr:
		e.Expr = p.rewrite(e.Expr, once)
	case *parser.UnaryExpr:
		e.Expr = p.rewrite(e.Expr, once)
	case *parser.BinaryExpr:
		e.LHS, e.RHS = p.rewrite(e.LHS, once), p.rewrite(e.RHS, once)
	case *parser.AggregateExpr:
		e.Expr = p.rewrite(e.Expr, once)
	case *parser.Call:
		for i, a := range e.Args {
			if leavesOperands(e.Func.Name) {
				e.Args[i] = strip(a)
				continue
			}
			e.Args[i] = p.rewrite(a, once)
		}
	case *parser.SubqueryExpr:
		// A subquery has its own grid.
		e.Expr = strip(e.Expr)
	}
	return e
}

// leavesOperands reports whether a function depends on the expression of its operand, not only on the operand's value.
func leavesOperands(name string) bool {
	switch name {
	case "info", "absent", "absent_over_time", "timestamp", "start_timestamp":
		return true
	}
	return false
}

// worthwhile is false for selectors, because the engine reads them itself.
func worthwhile(e parser.Expr) bool {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return worthwhile(e.Expr)
	case *parser.StepInvariantExpr:
		return worthwhile(e.Expr)
	case *parser.VectorSelector, nil:
		return false
	}
	return e.Type() == parser.ValueTypeVector
}

func isOnce(e parser.Expr) bool {
	_, ok := e.(*parser.StepInvariantExpr)
	return ok
}

// strip removes the marks of preprocessing from an expression.
func strip(e parser.Expr) parser.Expr {
	switch e := e.(type) {
	case *parser.StepInvariantExpr:
		return strip(e.Expr)
	case *parser.ParenExpr:
		e.Expr = strip(e.Expr)
	case *parser.UnaryExpr:
		e.Expr = strip(e.Expr)
	case *parser.BinaryExpr:
		e.LHS, e.RHS = strip(e.LHS), strip(e.RHS)
	case *parser.AggregateExpr:
		e.Expr = strip(e.Expr)
	case *parser.SubqueryExpr:
		e.Expr = strip(e.Expr)
	case *parser.Call:
		for i, a := range e.Args {
			e.Args[i] = strip(a)
		}
	}
	return e
}

// delegate makes the selector that replaces a part. It sets @ to the first step for a part that is evaluated once, so that the
// engine also evaluates the enclosing expression once.
func (p *Plan) delegate(v operator.Vector, pos posrange.PositionRange, once bool) parser.Expr {
	h := &delegatedPart{vector: v, grid: p.grid}
	vs := &parser.VectorSelector{PosRange: pos}
	if once {
		h.grid = p.grid.First()
		start := p.grid.StartMs
		vs.Timestamp = &start
		if inv, ok := v.(operator.Invariant); ok {
			h.vector = inv.Child
		}
	}
	m := labels.MustNewMatcher(labels.MatchEqual, delegatedLabel, "")
	vs.LabelMatchers = []*labels.Matcher{m}
	p.delegated[m] = h
	p.order = append(p.order, h)
	return vs
}
