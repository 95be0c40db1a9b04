package opentsdb

import (
	"context"
	"errors"
	"math"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/keyschema/tsuid"
	"halite/query"
	"halite/query/opentsdb/aggregation"
	"halite/query/opentsdb/request"
	"halite/query/read"
)

// selectSeries selects the series of the sub-query. All tsuids of a sub-query must have the same metric. The caller closes the
// selection.
func (r *subRun) selectSeries(ctx context.Context) (*read.Selection, error) {
	sub := *r.sub
	wanted := map[string]bool{}
	if len(sub.TSUIDs) > 0 {
		metric, err := r.metricOf(ctx, sub.TSUIDs)
		if err != nil {
			return nil, err
		}
		sub.Metric = metric
		for _, id := range sub.TSUIDs {
			wanted[strings.ToUpper(id)] = true
		}
	}
	r.metric = sub.Metric
	fromMs, toMs := max(0, r.within.ReadFromMs-sub.OffsetMs), max(0, r.within.ReadToMs-sub.OffsetMs)
	window := read.Windows{FirstEndMs: toMs, RangeMs: toMs - fromMs + 1, Steps: 1}
	selection, err := r.reading.Select(ctx, window, sub.Matchers()...)
	if err != nil {
		return nil, err
	}
	if len(wanted) > 0 {
		selection.Keep(func(i int) bool {
			keep := wanted[tsuid.Text(r.responseLabels(selection.Labels(i)))]
			selection.Stored(i, func(stored labels.Labels) {
				keep = keep || wanted[tsuid.Text(r.responseLabels(withoutTenant(stored)))]
			})
			return keep
		})
	}
	if r.query != nil && r.query.ShowTSUIDs { // /api/query/last has no query
		r.noteFormer(selection)
	}
	if sub.ExplicitTags && len(sub.Filters) > 0 {
		keys := map[string]bool{}
		for _, f := range sub.Filters {
			if !f.Excludes() {
				keys[f.Key] = true
			}
		}
		// Every selected series has all of these keys and the metric name. Results for several tenants add the tenant label.
		selection.Keep(func(i int) bool {
			more := 1
			if selection.Labels(i).Has(keyschema.TenantLabel) {
				more++
			}
			return selection.Labels(i).Len() == len(keys)+more
		})
	}
	if err := r.engine.checkNames(ctx, &sub, selection); err != nil {
		selection.Close()
		return nil, err
	}
	return selection, nil
}

// noteFormer records the tsuids of renamed series under their stored names.
func (r *subRun) noteFormer(selection *read.Selection) {
	r.former = map[string][]string{}
	for i := range selection.Len() {
		id := tsuid.Text(r.responseLabels(selection.Labels(i)))
		selection.Stored(i, func(stored labels.Labels) {
			if former := tsuid.Text(r.responseLabels(withoutTenant(stored))); former != id {
				r.former[id] = append(r.former[id], former)
			}
		})
	}
}

// withoutTenant returns stored labels without the tenant's prefix in the metric name.
func withoutTenant(stored labels.Labels) labels.Labels {
	prefix, name := keyschema.SplitTenant(stored.Get(model.MetricNameLabel))
	if prefix == "" {
		return stored
	}
	return labels.NewBuilder(stored).Set(model.MetricNameLabel, name).Labels()
}

// metricOf returns the metric of tsuids. If an alias renames the metric, the tsuids may contain the UID of the stored name.
func (r *subRun) metricOf(ctx context.Context, ids []string) (string, error) {
	var first tsuid.UID
	for i, id := range ids {
		parsed, err := tsuid.ParseSeries(id)
		if err != nil {
			return "", badRequest(err)
		}
		if i > 0 && parsed.Metric != first {
			return "", badRequest(&mixedMetricsError{first, parsed.Metric})
		}
		first = parsed.Metric
	}
	names, err := r.engine.opts.Names.LabelValues(ctx, model.MetricNameLabel, 0, math.MaxInt64, 0)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if tsuid.Derive(tsuid.Metric, name) == first {
			return name, nil
		}
	}
	for _, name := range names {
		for _, stored := range r.reading.Stored(ctx, name) {
			if _, old := keyschema.SplitTenant(stored); tsuid.Derive(tsuid.Metric, old) == first {
				return name, nil
			}
		}
	}
	return "", badRequest(unknownID(first))
}

// errRollups refuses a deletion that reads rollups. It would delete samples that the query does not return.
var errRollups = errors.New("a deletion deletes samples and cannot use rollupUsage; delete stored rollups with a filter on " +
	tsuid.IntervalLabel)

// Selector is a list of matchers. A series must match all of them.
type Selector []*labels.Matcher

// Selectors returns selectors that match exactly the series that a query reads. They use the names of the response, which
// aliases may have changed. The error is a *query.Error.
func (e *Engine) Selectors(ctx context.Context, q *request.Query, c Client) ([]Selector, error) {
	var out []Selector
	w := query.Work{Kind: "opentsdb", Text: c.Text, StartMs: q.StartMs, EndMs: q.EndMs, Client: c.Address}
	result, err := e.opts.Runner.Do(ctx, w, func(ctx context.Context, r *query.Reading) (int64, error) {
		for i := range q.Subs {
			run := &subRun{engine: e, query: q, sub: &q.Subs[i], reading: r}
			run.within = aggregation.RangeOf(q.StartMs, q.EndMs, nil)
			selectors, err := run.selectors(ctx)
			if err != nil {
				return 0, err
			}
			out = append(out, selectors...)
		}
		return 0, nil
	})
	if err != nil {
		return nil, err
	}
	result.Close()
	return out, nil
}

// selectors returns the matchers of the sub-query as one Selector. If they do not express the selection, it returns a
// Selector for each series.
func (r *subRun) selectors(ctx context.Context) ([]Selector, error) {
	if r.readsRollups() {
		return nil, badRequest(errRollups)
	}
	selection, err := r.selectSeries(ctx)
	if err != nil {
		return nil, err
	}
	defer selection.Close()
	if len(r.sub.TSUIDs) == 0 && !r.sub.ExplicitTags {
		return []Selector{r.sub.Matchers()}, nil
	}
	is := labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, r.metric)
	names, err := r.engine.opts.Names.LabelNames(ctx, 0, math.MaxInt64, 0, is)
	if err != nil {
		return nil, read.Classify("look up the tags of a metric", err)
	}
	out := make([]Selector, 0, selection.Len())
	for i := range selection.Len() {
		s := Selector{is}
		for _, name := range names {
			if name != model.MetricNameLabel {
				s = append(s, labels.MustNewMatcher(labels.MatchEqual, name, selection.Labels(i).Get(name)))
			}
		}
		out = append(out, s)
	}
	return out, nil
}
