package opentsdb

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema/tsuid"
	"halite/query/opentsdb/aggregation"
	"halite/query/opentsdb/request"
	"halite/query/read"
)

// readsRollups reports whether the sub-query reads rollups that clients have stored.
func (r *subRun) readsRollups() bool {
	return r.sub.RollupUsage != request.RollupRaw && r.sub.Down != nil && !r.sub.Down.All && !r.sub.Histograms()
}

// evaluateAny reads stored rollups as RollupUsage says. It reads samples if no interval of rollups fits, or after a fallback.
func (r *subRun) evaluateAny(ctx context.Context) ([]Series, error) {
	if !r.readsRollups() {
		return r.evaluateSamples(ctx)
	}
	intervals, err := r.rollupIntervals(ctx)
	if err != nil {
		return nil, err
	}
	for _, interval := range intervals {
		out, err := r.evaluateRollups(ctx, interval)
		hasPoints := slices.ContainsFunc(out, func(s Series) bool { return s.Len() > 0 })
		if err != nil || hasPoints || r.sub.RollupUsage == request.RollupNoFallback {
			return out, err
		}
		if r.sub.RollupUsage == request.RollupFallbackRaw {
			break
		}
	}
	return r.evaluateSamples(ctx)
}

// rollupIntervals returns the intervals of the metric's rollups that divide the downsampling interval, longest first.
func (r *subRun) rollupIntervals(ctx context.Context) ([]string, error) {
	metric := r.sub.Metric
	if len(r.sub.TSUIDs) > 0 {
		var err error
		if metric, err = r.metricOf(ctx, r.sub.TSUIDs); err != nil {
			return nil, err
		}
	}
	is := labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, metric)
	stored, err := r.engine.opts.Names.LabelValues(ctx, tsuid.IntervalLabel, 0, math.MaxInt64, 0, is)
	if err != nil {
		return nil, read.Classify("look up the rollups of a metric", err)
	}
	lengths := map[string]int64{}
	var out []string
	for _, text := range stored {
		count, unit, err := request.ParseDuration(text)
		interval := aggregation.Downsampling{Count: count, Unit: unit}
		if err == nil && r.sub.Down.IntervalMs()%interval.IntervalMs() == 0 {
			lengths[text], out = interval.IntervalMs(), append(out, text)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(lengths[b], lengths[a]) })
	return out, nil
}

// evaluateRollups reads the stored rollups of an interval.
func (r *subRun) evaluateRollups(ctx context.Context, interval string) ([]Series, error) {
	function, down := r.sub.Down.Function.Name(), *r.sub.Down
	sum := aggregation.NewAggregators()["sum"]
	var members []member
	var err error
	switch stored := map[string]string{"zimsum": "SUM", "mimmin": "MIN", "mimmax": "MAX"}[function]; function {
	case "avg":
		down.Function = sum
		members, err = r.readAverages(ctx, interval, down)
	case "count":
		down.Function = sum
		members, err = r.readRollups(ctx, interval, "COUNT", &down, r.sub.Rate)
	default:
		members, err = r.readRollups(ctx, interval, cmp.Or(stored, strings.ToUpper(function)), &down, r.sub.Rate)
	}
	if err != nil {
		return nil, err
	}
	out := make([]Series, 0, len(members))
	for _, g := range divide(members, r.sub) {
		s := r.aggregate(g)
		s.Rollup = interval
		out = append(out, s)
	}
	return out, ctx.Err()
}

// readRollups reads the rollups of an interval and an aggregator.
func (r *subRun) readRollups(
	ctx context.Context, interval, aggregator string, down *aggregation.Downsampling, rate *aggregation.Rate,
) ([]member, error) {
	sub := *r.sub
	sub.Down, sub.Rate, sub.Filters = down, rate, slices.Clone(sub.Filters)
	for key, v := range map[string]string{tsuid.IntervalLabel: interval, tsuid.AggregatorLabel: aggregator} {
		is := labels.MustNewMatcher(labels.MatchEqual, key, v)
		sub.Filters = append(sub.Filters, request.Filter{Key: key, Matchers: []*labels.Matcher{is}})
	}
	run := *r
	run.sub, run.rollup = &sub, interval
	selection, err := run.selectSeries(ctx)
	if err != nil {
		return nil, err
	}
	defer selection.Close()
	r.metric, r.former = run.metric, run.former
	if err := run.checkFill(selection.Len()); err != nil {
		return nil, err
	}
	return run.read(ctx, selection)
}

// readAverages divides sums by counts. down adds up the rollups within each downsampling interval.
func (r *subRun) readAverages(ctx context.Context, interval string, down aggregation.Downsampling) ([]member, error) {
	down.Fill = aggregation.FillNothing
	sums, err := r.readRollups(ctx, interval, "SUM", &down, nil)
	if err != nil {
		return nil, err
	}
	counts, err := r.readRollups(ctx, interval, "COUNT", &down, nil)
	if err != nil {
		return nil, err
	}
	if err := r.checkFill(len(sums)); err != nil {
		return nil, err
	}
	byLabels := make(map[string]aggregation.Points, len(counts))
	for _, m := range counts {
		byLabels[string(m.labels.Bytes(nil))] = m.points
	}
	out := make([]member, 0, len(sums))
	for _, m := range sums {
		averages := aggregation.Quotients(m.points, byLabels[string(m.labels.Bytes(nil))])
		if averages.Len() == 0 {
			continue
		}
		// Each interval has one point now. The transform fills gaps and computes rates.
		t := aggregation.NewTransform(r.sub.Down, r.sub.Rate, r.within)
		t.Add(averages.TsMs, averages.Values)
		out = append(out, member{labels: m.labels, points: t.Points()})
	}
	return out, nil
}

// responseLabels returns the labels of a series in the response. It removes the labels that mark stored rollups.
func (r *subRun) responseLabels(series labels.Labels) labels.Labels {
	if r.rollup == "" {
		return series
	}
	return labels.NewBuilder(series).Del(tsuid.IntervalLabel, tsuid.AggregatorLabel).Labels()
}
