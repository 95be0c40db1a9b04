package query

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/keyschema"
	"halite/query/column"
	"halite/query/columnar/operator"
	"halite/query/expression"
	"halite/query/resultcache"
)

// EnginePart is a part of an expression that only Prometheus's engine evaluates.
type EnginePart struct{ Expression, Reason string }

// SelectorSpan is a selector with the samples that it needs.
type SelectorSpan struct {
	Selector string
	// FromMs and ToMs are the inclusive bounds of the samples of all steps, in unix milliseconds.
	FromMs, ToMs int64
	// FirstDay and LastDay are the first and last day partition that may be read, as 2006-01-02. Days is their number.
	FirstDay, LastDay string
	Days              int
	// Stored are the selectors of stored series that replace this selector because of aliases, with their times; nil without
	// aliases.
	Stored []string
}

// widener returns the selectors of stored series that replace a selector.
type widener func(fromMs, toMs int64, matchers []*labels.Matcher) []string

// describe lists the selectors of a request, and the parts of it that only Prometheus's engine evaluates.
func (e *Engine) describe(ctx context.Context, q request) ([]SelectorSpan, []EnginePart) {
	expr, err := e.parser.ParseExpr(q.Text)
	if err != nil {
		return nil, nil
	}
	if expr, err = promql.PreprocessExpr(expr, q.Start, q.End, q.Step); err != nil {
		return nil, nil
	}
	lookback := e.opts.Lookback
	if q.Lookback > 0 {
		lookback = q.Lookback
	}
	reader := readerOf(e.opts.Queryable)
	widen := func(fromMs, toMs int64, matchers []*labels.Matcher) []string {
		if reader == nil {
			return nil
		}
		return reader.ExplainAliases(ctx, column.TimeRange{MinMs: fromMs, MaxMs: toMs}, matchers...)
	}
	selectors := selectorsOf(expr, q.Expression, lookback, widen)
	if !e.columns(q.Params) {
		return selectors, []EnginePart{{Expression: expr.String(), Reason: "columnar operators are off"}}
	}
	if t := expr.Type(); t != parser.ValueTypeVector && t != parser.ValueTypeScalar {
		return selectors, []EnginePart{{Expression: expr.String(), Reason: "the result is a " + parser.DocumentedType(t)}}
	}
	options := e.inner.Load().planOptions(ctx, reader)
	options.LookbackMs = lookback.Milliseconds()
	d := describer{compiler: operator.NewCompiler(options, q.Grid())}
	d.walk(expr, false)
	return selectors, d.parts
}

// selectorsOf lists each selector with the span of samples that it needs by Prometheus's rules.
func selectorsOf(e parser.Expr, s expression.Expression, lookback time.Duration, widen widener) []SelectorSpan {
	var out []SelectorSpan
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		vs, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		span := SelectorSpan{Selector: vs.String()}
		span.FromMs, span.ToMs = resultcache.Bounds(around(vs, path), s.Start.UnixMilli(), s.End.UnixMilli(), lookback)
		day := func(ms int64) int64 { return ms / keyschema.DayMs }
		first, last := max(0, span.FromMs), max(0, span.ToMs)
		date := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateOnly) }
		span.FirstDay, span.LastDay, span.Days = date(first), date(last), int(day(last)-day(first))+1
		span.Stored = widen(span.FromMs, span.ToMs, vs.LabelMatchers)
		out = append(out, span)
		return nil
	})
	return out
}

// around returns the expression around a selector without its other operands. Only the time span of the selector is computed
// from it.
func around(vs *parser.VectorSelector, path []parser.Node) parser.Expr {
	var e parser.Expr = vs
	for i := len(path) - 1; i >= 0; i-- {
		switch n := path[i].(type) {
		case *parser.MatrixSelector:
			m := *n
			m.VectorSelector = vs
			e = &m
		case *parser.SubqueryExpr:
			q := *n
			q.Expr = e
			e = &q
		}
	}
	return e
}

// describer finds the smallest parts of an expression that columnar operators cannot evaluate.
type describer struct {
	compiler operator.Compiler
	parts    []EnginePart
}

// walk reports whether all of e is supported. It also returns true for an operand that is checked together with its parent.
func (d *describer) walk(e parser.Expr, once bool) bool {
	switch e.Type() {
	case parser.ValueTypeVector, parser.ValueTypeScalar:
		if d.compiler.Supports(e, once) {
			return true
		}
	case parser.ValueTypeMatrix:
		q, subquery := e.(*parser.SubqueryExpr)
		if !subquery {
			return true
		}
		outside := d.compiler
		defer func() { d.compiler = outside }()
		d.compiler = outside.Inside(q, "")
		return d.walk(q.Expr, false)
	default:
		return true
	}
	if inv, ok := e.(*parser.StepInvariantExpr); ok {
		return d.walk(inv.Expr, true)
	}
	blamed := len(d.parts)
	for child := range parser.ChildrenIter(e) {
		if c, ok := child.(parser.Expr); ok && c != nil {
			d.walk(c, once)
		}
	}
	if len(d.parts) == blamed {
		d.parts = append(d.parts, EnginePart{Expression: e.String(), Reason: d.reasonOf(e)})
	}
	return false
}

// leftOut returns the reason why the engine must evaluate a selector, or a function of it, in any form.
func (d *describer) leftOut(e parser.Expr) string {
	switch e := e.(type) {
	case *parser.VectorSelector:
		return d.compiler.LeftOut(e, 0)
	case *parser.MatrixSelector:
		if vs, ok := e.VectorSelector.(*parser.VectorSelector); ok {
			return d.compiler.LeftOut(vs, e.Range.Milliseconds())
		}
	case *parser.Call:
		for _, a := range e.Args {
			if reason := d.leftOut(a); reason != "" {
				return reason
			}
		}
		if d.compiler.StartTimes && operator.UsesStartTimes(e.Func.Name) {
			return e.Func.Name + " uses start timestamps"
		}
	}
	return ""
}

// reasonOf returns the reason why a node with supported operands is not supported.
func (d *describer) reasonOf(e parser.Expr) string {
	if reason := d.leftOut(e); reason != "" {
		return reason
	}
	switch e := e.(type) {
	case *parser.Call:
		return fmt.Sprintf("no columnar form of %s with these arguments", e.Func.Name)
	case *parser.AggregateExpr:
		return fmt.Sprintf("no columnar form of %s with this parameter", e.Op)
	case *parser.BinaryExpr:
		return fmt.Sprintf("no columnar form of %s between these operands", e.Op)
	case *parser.VectorSelector:
		return "no columnar form of a selector with these modifiers"
	}
	return "no columnar form"
}
