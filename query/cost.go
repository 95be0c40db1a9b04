package query

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// seriesEstimator estimates how many series matchers select at most, without reading tables; *read.Reader is one.
type seriesEstimator interface {
	EstimateSeries(ctx context.Context, matchers ...*labels.Matcher) int
}

// estimator returns the estimator behind the Queryable; nil if there is none.
func (e *Engine) estimator() seriesEstimator {
	if r := readerOf(e.opts.Queryable); r != nil {
		return r
	}
	q, _ := e.opts.Queryable.(seriesEstimator)
	return q
}

// assumedIntervalMs is the interval between samples that estimates assume.
const assumedIntervalMs = 15_000

// kindOf estimates the cost of a query. Without a seriesEstimator every query counts as cheap.
func (e *Engine) kindOf(ctx context.Context, s span) costKind {
	estimator := e.estimator()
	if estimator == nil {
		return cheap
	}
	expr, err := s.look(e.parser)
	if err != nil {
		return cheap // The caller parses the expression again and reports the error.
	}
	samples := e.estimate(expr, s, func(matchers []*labels.Matcher) int64 {
		return int64(estimator.EstimateSeries(ctx, matchers...))
	})
	if samples > e.opts.CheapSamplesMax {
		return large
	}
	return cheap
}

// uncached shortens a span by the steps that the result cache has.
func (in *inquiry) uncached(s span) span {
	if !in.partial() {
		return s
	}
	steps := 0
	for _, p := range in.parts {
		if !p.cached {
			steps += p.to - p.from
		}
	}
	s.end = s.start.Add(time.Duration(max(0, steps-1)) * s.step)
	return s
}

// estimate returns about how many samples an expression reads and computes: for each selector its series, times the
// samples in its time range plus the steps at which it is evaluated.
func (e *Engine) estimate(expr parser.Expr, s span, series func([]*labels.Matcher) int64) (samples int64) {
	l := subqueryLimits{stepDefaultMs: e.opts.SubqueryStep.Milliseconds()}
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		selector, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		spanMs, evaluations := s.end.Sub(s.start).Milliseconds(), int64(1)
		if s.isRange {
			evaluations += spanMs / s.step.Milliseconds()
		}
		windowMs := e.opts.Lookback.Milliseconds()
		for _, above := range path {
			switch above := above.(type) {
			case *parser.MatrixSelector:
				windowMs = above.Range.Milliseconds()
			case *parser.SubqueryExpr:
				points := saturated(evaluations, above.Range.Milliseconds()/l.stepMs(above))
				spanMs += above.Range.Milliseconds()
				evaluations = added(points, spanMs/l.stepMs(above)+1)
			}
		}
		each := added((spanMs+windowMs)/assumedIntervalMs, evaluations)
		samples = added(samples, saturated(series(selector.LabelMatchers), each))
		return nil
	})
	return samples
}
