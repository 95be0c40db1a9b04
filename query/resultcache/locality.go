package resultcache

import (
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// locality determines whether an expression is sliding. An expression with a function or operator that it does not know is
// not.
type locality struct {
	why               SkipReason
	sumsMs, orderedMs int64
}

// refuse records the first reason.
func (l *locality) refuse(why SkipReason) {
	if l.why == SkipNone {
		l.why = why
	}
}

// check reports whether the series of a vector come in the order of their labels in storage, which does not depend on the
// range. Groups come in the order of their first series, which may be absent from another range.
func (l *locality) check(e parser.Expr) (ordered bool) {
	switch e := e.(type) {
	case *parser.NumberLiteral, *parser.StringLiteral:
		return true
	case *parser.ParenExpr:
		return l.check(e.Expr)
	case *parser.UnaryExpr:
		if e.Op == parser.SUB && e.Type() == parser.ValueTypeVector && !named(e.Expr) {
			l.refuse(SkipNames)
		}
		return l.check(e.Expr)
	case *parser.VectorSelector:
		l.selector(e)
		return true
	case *parser.BinaryExpr:
		left, right := l.check(e.LHS), l.check(e.RHS)
		vectors := e.LHS.Type() == parser.ValueTypeVector && e.RHS.Type() == parser.ValueTypeVector
		if m := e.VectorMatching; m != nil && (m.FillValues.LHS != nil || m.FillValues.RHS != nil) {
			l.refuse(refusedFunction)
		}
		return left && right && !vectors
	case *parser.AggregateExpr:
		return l.aggregation(e)
	case *parser.Call:
		return l.call(e)
	default:
		l.refuse(refusedFunction)
	}
	return false
}

func (l *locality) selector(vs *parser.VectorSelector) {
	switch {
	case vs.Timestamp != nil || vs.StartOrEnd != 0:
		l.refuse(refusedAt)
	case vs.OriginalOffsetExpr != nil:
		l.refuse(refusedDuration)
	}
}

// aggregation checks an aggregation. Floating point sums depend on the order of the summands. So do topk and bottomk of equal
// values, and the minimum of −0 and 0.
func (l *locality) aggregation(e *parser.AggregateExpr) bool {
	ordered := l.check(e.Expr)
	if e.Param != nil {
		l.check(e.Param)
	}
	switch e.Op {
	case parser.COUNT, parser.GROUP, parser.COUNT_VALUES:
	case parser.SUM, parser.AVG, parser.MIN, parser.MAX, parser.STDDEV, parser.STDVAR, parser.QUANTILE,
		parser.TOPK, parser.BOTTOMK:
		if !ordered {
			l.refuse(refusedOrder)
		}
	default:
		l.refuse(refusedFunction)
	}
	return false
}

func (l *locality) call(e *parser.Call) bool {
	name := e.Func.Name
	for _, a := range e.Args {
		switch a := a.(type) {
		case *parser.MatrixSelector:
			return l.overRange(name, a, e.Args)
		case *parser.SubqueryExpr:
			return l.overSubquery(name, a, e.Args)
		}
	}
	switch name {
	case "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "clamp", "clamp_max", "clamp_min", "cos",
		"cosh", "day_of_month", "day_of_week", "day_of_year", "days_in_month", "deg", "exp", "floor", "hour", "ln",
		"log10", "log2", "minute", "month", "rad", "round", "sgn", "sin", "sinh", "sqrt", "tan", "tanh", "timestamp",
		"year", "pi", "time", "vector", "scalar", "absent":
		ordered := true
		for _, a := range e.Args {
			ordered = l.check(a) && ordered
		}
		return ordered
	case "histogram_quantile", "sort", "sort_desc":
		for _, a := range e.Args {
			l.check(a)
		}
		return false
	case "label_replace", "label_join":
		l.refuse(SkipNames)
	default:
		l.refuse(refusedFunction)
	}
	return false
}

// overRange checks a function over a range selector.
func (l *locality) overRange(name string, m *parser.MatrixSelector, args parser.Expressions) bool {
	vs, ok := m.VectorSelector.(*parser.VectorSelector)
	if !ok {
		l.refuse(refusedFunction)
		return false
	}
	l.selector(vs)
	if m.RangeExpr != nil {
		l.refuse(refusedDuration)
	}
	switch name {
	case "rate", "increase", "sum_over_time", "avg_over_time", "stddev_over_time", "stdvar_over_time":
		l.orderedMs = max(l.orderedMs, m.Range.Milliseconds())
	}
	l.unnames(name, vs)
	return l.overTime(name, m, m.Range, args)
}

// overSubquery checks a function over a subquery. The operand is evaluated at multiples of the subquery's step, which do not
// depend on the range of the query. So the operand must be sliding as well.
func (l *locality) overSubquery(name string, q *parser.SubqueryExpr, args parser.Expressions) bool {
	switch {
	case q.Timestamp != nil || q.StartOrEnd != 0:
		l.refuse(refusedAt)
	case computedDuration(q):
		l.refuse(refusedDuration)
	}
	operand := locality{}
	ordered := operand.check(q.Expr)
	// A subquery without a step has one that the cache does not know.
	if operand.why == SkipNone && operand.sumsMs > 0 && 2*q.Step.Milliseconds() <= operand.sumsMs {
		operand.why = refusedOrder
	}
	l.refuse(operand.why)
	l.orderedMs = max(l.orderedMs, operand.orderedMs)
	l.unnames(name, q.Expr)
	return l.overTime(name, q, q.Range, args) && ordered
}

// overTime checks a function over a range and its other arguments. It reports whether the cache knows the function.
func (l *locality) overTime(name string, windows parser.Expr, rangeOf time.Duration, args parser.Expressions) bool {
	for _, a := range args {
		if a != windows {
			l.check(a)
		}
	}
	switch name {
	case "sum_over_time", "avg_over_time", "stddev_over_time", "stdvar_over_time", "deriv", "predict_linear":
		l.sumsMs = max(l.sumsMs, rangeOf.Milliseconds())
		return true
	case "rate", "increase", "delta", "irate", "idelta", "count_over_time", "present_over_time", "min_over_time",
		"max_over_time", "quantile_over_time", "resets", "changes", "double_exponential_smoothing", "mad_over_time",
		"ts_of_first_over_time", "ts_of_last_over_time", "ts_of_max_over_time", "ts_of_min_over_time", "last_over_time",
		"absent_over_time":
		return true
	}
	l.refuse(refusedFunction)
	return false
}

// unnames refuses functions that may drop the names of several metrics. Without names, label sets must be unique in the whole
// range, so whether the query fails depends on the range.
func (l *locality) unnames(name string, operand parser.Expr) {
	if name != "last_over_time" && name != "absent_over_time" && !named(operand) {
		l.refuse(SkipNames)
	}
}

// named reports whether all series of an expression have the same name, or none has one. Then their label sets stay unique
// without the name.
func named(e parser.Expr) bool {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return named(e.Expr)
	case *parser.VectorSelector:
		for _, m := range e.LabelMatchers {
			if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
				return true
			}
		}
	case *parser.AggregateExpr:
		for _, name := range e.Grouping {
			if name == model.MetricNameLabel {
				return false
			}
		}
		return e.Op != parser.TOPK && e.Op != parser.BOTTOMK && e.Op != parser.COUNT_VALUES
	case *parser.UnaryExpr:
		return true
	case *parser.BinaryExpr:
		return namedBinary(e)
	case *parser.Call:
		switch e.Func.Name {
		case "last_over_time", "first_over_time", "label_replace", "label_join", "sort", "sort_desc":
			return false
		}
		return true
	}
	return false
}

// namedBinary is named for binary operations. Arithmetic and bool drop the name. Other comparisons keep the names of the
// vector operand, of the left one if there are two.
func namedBinary(e *parser.BinaryExpr) bool {
	switch {
	case e.Op.IsSetOperator(), e.VectorMatching != nil && slices.Contains(e.VectorMatching.Include, model.MetricNameLabel):
		return false
	case !e.Op.IsComparisonOperator(), e.ReturnBool:
		return true
	case e.LHS.Type() == parser.ValueTypeVector:
		return named(e.LHS)
	}
	return named(e.RHS)
}
