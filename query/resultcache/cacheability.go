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
	SkipNames          SkipReason = "names"       // dropping or rewriting labels may make series equal that share no step
	refusedOrder       SkipReason = "order"       // the result depends on the order of series, which depends on the range
	refusedDuration    SkipReason = "duration"    // a duration computed from the query's range
	SkipEngine         SkipReason = "engine"      // not all of it was evaluated by columnar operators
	refusedAnnotations SkipReason = "annotations" // the steps that they belong to are not known
	refusedSize        SkipReason = "size"
	refusedRetention   SkipReason = "retention" // the oldest samples expire
	refusedKind        SkipReason = "kind"      // an expression without samples, or no vector: it costs little to evaluate
	refusedRecent      SkipReason = "recent"    // all its samples are too young
	refusedTime        SkipReason = "time"      // before 1970, or not whole milliseconds
)

// cacheability is the cache's knowledge about an expression.
type cacheability struct {
	kind parser.ValueType
	// sliding is set if the value of a step depends only on the samples around it, to the last bit. Then queries of other ranges
	// may use parts of a result, and WhySliding is empty. Otherwise WhySliding is the reason.
	sliding    bool
	WhySliding SkipReason
	// sumsMs is the longest range whose samples are added up. If such windows overlap much, they share partial sums. The bounds
	// of these sums depend on the range of the query, which affects the last bits of a result.
	sumsMs int64
	// orderedMs is the longest range of a function whose last bits depend on the order of additions. States of hours or days
	// change that order at any step.
	orderedMs int64
	// extents holds the extents of the selectors.
	extents []extent
	// computed is set if a selector has @ or a duration that is an expression. Only the preprocessed expression then has the
	// bounds of the selectors.
	computed bool
	// known is false if the result may depend on samples outside the bounds of the selectors.
	known bool
	// metrics are the metrics of the selectors; unnamed is set if a selector names none.
	metrics []string
	unnamed bool
}

// extent is the time span that a selector reads. rangeMs is 0 for an instant selector, which reads the lookback. aroundMs is
// the sum of the ranges of its enclosing subqueries.
type extent struct{ offsetMs, rangeMs, aroundMs int64 }

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
			s.addMetric(n)
			s.addExtent(n, path)
		case *parser.MatrixSelector:
			s.computed = s.computed || n.RangeExpr != nil
		case *parser.SubqueryExpr:
			s.computed = s.computed || n.Timestamp != nil || n.StartOrEnd != 0 || computedDuration(n)
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

// knownExperimental reports whether the result of an experimental function depends only on the samples of its window.
func knownExperimental(function string) bool {
	switch function {
	case "double_exponential_smoothing", "mad_over_time", "ts_of_first_over_time", "ts_of_last_over_time",
		"ts_of_max_over_time", "ts_of_min_over_time":
		return true
	}
	return false
}

// computedDuration reports whether a subquery has durations that are expressions. Preprocessing computes them.
func computedDuration(q *parser.SubqueryExpr) bool {
	return q.RangeExpr != nil || q.StepExpr != nil || q.OriginalOffsetExpr != nil
}

// addExtent records the time span that a selector reads.
func (s *cacheability) addExtent(vs *parser.VectorSelector, path []parser.Node) {
	x := extent{offsetMs: vs.OriginalOffset.Milliseconds()}
	for _, n := range path {
		if q, ok := n.(*parser.SubqueryExpr); ok {
			x.offsetMs += q.OriginalOffset.Milliseconds()
			x.aroundMs += q.Range.Milliseconds()
		}
	}
	if len(path) > 0 {
		if m, ok := path[len(path)-1].(*parser.MatrixSelector); ok {
			x.rangeMs = m.Range.Milliseconds()
		}
	}
	s.extents = append(s.extents, x)
}

// addMetric records the metric of a selector.
func (s *cacheability) addMetric(vs *parser.VectorSelector) {
	for _, m := range vs.LabelMatchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual && m.Value != "" {
			s.metrics = append(s.metrics, m.Value)
			return
		}
	}
	s.unnamed = true
}

// at returns the analysis for a query with the given step. Rollup states may replace samples in ranges of tiersFromMs or
// longer.
func (s *cacheability) at(stepMs, tiersFromMs int64) *cacheability {
	if !s.sliding || 2*stepMs > s.sumsMs && s.orderedMs < tiersFromMs {
		return s
	}
	whole := *s
	whole.sliding, whole.WhySliding = false, refusedOrder
	return &whole
}

// Bounds returns the range of the samples that evaluations from startMs to endMs may read. If the bounds are computed, the
// expression must be preprocessed.
func Bounds(e parser.Expr, startMs, endMs int64, lookback time.Duration) (mintMs, maxtMs int64) {
	return promql.FindMinMaxTime(&parser.EvalStmt{
		Expr: e, Start: time.UnixMilli(startMs), End: time.UnixMilli(endMs), LookbackDelta: lookback,
	})
}

// reach returns how far before and after a step an expression may read samples. computed must be false.
func (s *cacheability) reach(lookback time.Duration) (beforeMs, afterMs int64) {
	for i, x := range s.extents {
		before, after := x.offsetMs+x.aroundMs+cmp.Or(x.rangeMs, lookback.Milliseconds())-1, -x.offsetMs
		if i == 0 {
			beforeMs, afterMs = before, after
		}
		beforeMs, afterMs = max(beforeMs, before), max(afterMs, after)
	}
	return beforeMs, afterMs
}

// overflows reports whether computing with a time could overflow.
func overflows(tMs int64) bool { return tMs < 0 || tMs > math.MaxInt64/4 }
