package query

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/query/expression"
)

// seriesEstimator returns an upper bound of the number of series that matchers select, without reading tables. *read.Reader
// implements it. Without matchers it returns the number of all series.
type seriesEstimator interface {
	EstimateSeries(ctx context.Context, matchers ...*labels.Matcher) int
}

// estimator returns the estimator behind the Queryable; nil if there is none.
func (o Options) estimator() seriesEstimator {
	if r := readerOf(o.Queryable); r != nil {
		return r
	}
	q, _ := o.Queryable.(seriesEstimator)
	return q
}

// assumedIntervalMs is the sample interval that estimates assume.
const assumedIntervalMs = 15_000

// kindOf estimates the cost of a query. Without a seriesEstimator every query counts as cheap.
func (o Options) kindOf(ctx context.Context, p parser.Parser, s expression.Expression) costKind {
	estimator := o.estimator()
	if estimator == nil {
		return cheap
	}
	expr, err := s.Expr(p)
	if err != nil {
		return cheap // The caller parses the expression again and reports the error.
	}
	// Most queries are cheap even if they select every series. They need no look-up in the index.
	all := int64(estimator.EstimateSeries(ctx))
	samples := o.estimate(expr, s, func([]*labels.Matcher) int64 { return all })
	if samples > o.CheapSamplesMax {
		samples = o.estimate(expr, s, func(matchers []*labels.Matcher) int64 {
			return int64(estimator.EstimateSeries(ctx, matchers...))
		})
	}
	if samples > o.CheapSamplesMax {
		return large
	}
	return cheap
}

// estimate returns the approximate number of samples that an expression reads and computes. Each selector adds its number of
// series times the samples in its time range, plus its evaluations.
func (o Options) estimate(expr parser.Expr, s expression.Expression, series func([]*labels.Matcher) int64) (samples int64) {
	l := subqueryLimits{stepDefaultMs: o.SubqueryStep.Milliseconds()}
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		selector, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		spanMs, evaluations := s.End.Sub(s.Start).Milliseconds(), int64(1)
		if s.IsRange {
			evaluations += spanMs / s.Step.Milliseconds()
		}
		windowMs := o.Lookback.Milliseconds()
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
