package resultcache

import (
	"cmp"
	"math"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// SkipReason says why a result, or a part of it, is not cached.
type SkipReason string

const (
	SkipNone           SkipReason = ""
	refusedFunction    SkipReason = "function"    // its operands are not known to the cache
	refusedAt          SkipReason = "at"          // @: the value of a step depends on more than the step
	refusedSubquery    SkipReason = "subquery"    // evaluated by the engine, which promises no order
	SkipNames          SkipReason = "names"       // dropping or rewriting labels may make series equal that never meet
	refusedOrder       SkipReason = "order"       // the result depends on the order of series, and that on the range
	refusedDuration    SkipReason = "duration"    // a duration computed from the query's range
	SkipEngine         SkipReason = "engine"      // not all of it was evaluated by columnar operators
	refusedAnnotations SkipReason = "annotations" // they belong to steps that are not known
	refusedSize        SkipReason = "size"
	refusedRetention   SkipReason = "retention" // the oldest samples vanish as time goes by
	refusedKind        SkipReason = "kind"      // scalars, strings and range vectors cost nothing to evaluate
	refusedRecent      SkipReason = "recent"    // all of it is too young
	refusedTime        SkipReason = "time"      // before 1970, or not whole milliseconds
)

// shape is what the cache knows of an expression.
type cacheability struct {
	kind parser.ValueType
	// sliding is set if the value of a step depends on nothing but the samples around it, to the last bit: then parts
	// of a result may be used for other ranges. whySliding is empty then.
	sliding    bool
	WhySliding SkipReason
	// sumsMs is the longest range whose samples are added up. Where such windows overlap much they are made up of sums
	// that they share, and whose bounds depend on the range of the query: that shows in the last bits.
	sumsMs int64
	// orderedMs is the longest range of a function whose last bits depend on the order of additions at any step, once hours
	// or days are added up apart.
	orderedMs int64
	// extents holds the extents of the selectors. computed is set if only the preprocessed expression gives the bounds: @,
	// subqueries, durations that are expressions.
	extents  []extent
	computed bool
	// known is false if samples outside the bounds that the selectors name may matter.
	known bool
	// metrics are the metrics of the selectors; unnamed is set if a selector names none.
	metrics []string
	unnamed bool
}

// extent is the span of time that a selector looks at; rangeMs is 0 for the lookback.
type extent struct{ offsetMs, rangeMs int64 }

// cacheabilityOf analyses an expression.
func cacheabilityOf(e parser.Expr) *cacheability {
	s := &cacheability{kind: e.Type(), known: true}
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		switch n := n.(type) {
		case *parser.Call:
			s.known = s.known && (n.Func.Name != "info" && !n.Func.Experimental || knownExperimental(n.Func.Name))
		case *parser.VectorSelector:
			s.known = s.known && !n.Anchored && !n.Smoothed
			s.computed = s.computed || n.Timestamp != nil || n.StartOrEnd != 0 || n.OriginalOffsetExpr != nil
			s.name(n)
			s.stretch(n, path)
		case *parser.MatrixSelector:
			s.computed = s.computed || n.RangeExpr != nil
		case *parser.SubqueryExpr:
			s.computed = true
		}
		return nil
	})
	l := locality{}
	l.check(e)
	s.WhySliding, s.sumsMs, s.orderedMs = l.why, l.sumsMs, l.orderedMs
	s.sliding = s.known && l.why == SkipNone
	if !s.known && l.why == SkipNone {
		s.WhySliding = refusedFunction
	}
	return s
}

// knownExperimental names the experimental functions whose results depend on nothing but the samples of their windows.
func knownExperimental(function string) bool {
	switch function {
	case "double_exponential_smoothing", "mad_over_time", "ts_of_first_over_time", "ts_of_last_over_time",
		"ts_of_max_over_time", "ts_of_min_over_time":
		return true
	}
	return false
}

// stretch notes how far a selector looks.
func (s *cacheability) stretch(vs *parser.VectorSelector, path []parser.Node) {
	x := extent{offsetMs: vs.OriginalOffset.Milliseconds()}
	if len(path) > 0 {
		if m, ok := path[len(path)-1].(*parser.MatrixSelector); ok {
			x.rangeMs = m.Range.Milliseconds()
		}
	}
	s.extents = append(s.extents, x)
}

// name notes the metric of a selector.
func (s *cacheability) name(vs *parser.VectorSelector) {
	for _, m := range vs.LabelMatchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual && m.Value != "" {
			s.metrics = append(s.metrics, m.Value)
			return
		}
	}
	s.unnamed = true
}

// at is the shape for a query with that step. States of hours and days may stand for ranges from tiersFromMs on.
func (s *cacheability) at(stepMs, tiersFromMs int64) *cacheability {
	if !s.sliding || 2*stepMs > s.sumsMs && s.orderedMs < tiersFromMs {
		return s
	}
	whole := *s
	whole.sliding, whole.WhySliding = false, refusedOrder
	return &whole
}

// Bounds are the times of the samples that evaluations from startMs to endMs may look at. The expression must be
// preprocessed if they are computed.
func Bounds(e parser.Expr, startMs, endMs int64, lookback time.Duration) (mintMs, maxtMs int64) {
	return promql.FindMinMaxTime(&parser.EvalStmt{
		Expr: e, Start: time.UnixMilli(startMs), End: time.UnixMilli(endMs), LookbackDelta: lookback,
	})
}

// reach is how far before and after a step the samples may lie that an expression looks at whose bounds are not computed;
// ok is false if it looks at none.
func (s *cacheability) reach(lookback time.Duration) (beforeMs, afterMs int64, ok bool) {
	for i, x := range s.extents {
		before, after := x.offsetMs+cmp.Or(x.rangeMs, lookback.Milliseconds())-1, -x.offsetMs
		if i == 0 {
			beforeMs, afterMs = before, after
		}
		beforeMs, afterMs = max(beforeMs, before), max(afterMs, after)
	}
	return beforeMs, afterMs, len(s.extents) > 0
}

// locality finds out whether an expression is sliding. What it does not know is not.
type locality struct {
	why               SkipReason
	sumsMs, orderedMs int64
}

// refuse notes the first reason.
func (l *locality) refuse(why SkipReason) {
	if l.why == SkipNone {
		l.why = why
	}
}

// check reports whether the series of a vector come in the order of their labels in storage, which does not depend on the
// range. Groups come in the order of their first series, which another range may not have.
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
	case *parser.SubqueryExpr:
		l.refuse(refusedSubquery)
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

// aggregation: floating point sums depend on the order of the summands, the best of equals on who came first, and of
// −0 and 0 the first is the smallest.
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
			l.refuse(refusedSubquery)
			return false
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

// overRange: that label sets are unique without the metric is checked for all of the range, not for each step.
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
	for _, a := range args {
		if a != parser.Expr(m) {
			l.check(a)
		}
	}
	switch name {
	case "rate", "increase", "sum_over_time", "avg_over_time", "stddev_over_time", "stdvar_over_time":
		l.orderedMs = max(l.orderedMs, m.Range.Milliseconds())
	}
	switch name {
	case "sum_over_time", "avg_over_time", "stddev_over_time", "stdvar_over_time", "deriv", "predict_linear":
		l.sumsMs = max(l.sumsMs, m.Range.Milliseconds())
	case "last_over_time", "absent_over_time":
		return true
	}
	switch name {
	case "rate", "increase", "delta", "irate", "idelta", "count_over_time", "present_over_time", "sum_over_time",
		"avg_over_time", "min_over_time", "max_over_time", "stdvar_over_time", "stddev_over_time", "quantile_over_time",
		"resets", "changes", "deriv", "predict_linear", "double_exponential_smoothing", "mad_over_time", "ts_of_first_over_time",
		"ts_of_last_over_time", "ts_of_max_over_time", "ts_of_min_over_time":
		if !named(vs) {
			l.refuse(SkipNames)
		}
		return true
	}
	l.refuse(refusedFunction)
	return false
}

// named reports whether all series of an expression have the same name, or none, so that they differ without it.
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
		return e.Op != parser.TOPK && e.Op != parser.BOTTOMK
	}
	return false
}

// overflows reports whether a time is too far away to compute with.
func overflows(tMs int64) bool { return tMs < 0 || tMs > math.MaxInt64/4 }
