package opentsdb

import (
	"context"
	"maps"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"halite/keyschema"
	"halite/query"
	"halite/query/column"
	"halite/query/opentsdb/aggregation"
	"halite/query/opentsdb/request"
	"halite/query/read"
)

// LastPoint is the newest point of a series.
type LastPoint struct {
	TsMs   int64
	Value  float64
	Series labels.Labels
}

// LastResponse is the result of a query for newest points. The caller closes it after writing it.
type LastResponse struct {
	// Points are ordered by sub-query, then by labels.
	Points []LastPoint
	*query.Result
}

// Last returns the newest point of each selected series, up to nowMs. The error is a *query.Error.
func (e *Engine) Last(ctx context.Context, q *request.Last, nowMs int64, c Client) (*LastResponse, error) {
	within := column.TimeRange{MaxMs: nowMs}
	if q.BackScanHours > 0 {
		within.MinMs = max(0, nowMs-int64(q.BackScanHours)*keyschema.HourMs)
	}
	a := &LastResponse{}
	w := query.Work{Kind: "opentsdb", Text: c.Text, StartMs: within.MinMs, EndMs: nowMs, Client: c.Address}
	result, err := e.opts.Runner.Do(ctx, w, func(ctx context.Context, r *query.Reading) (int64, error) {
		for _, sub := range q.Subs {
			points, err := e.last(ctx, r, sub, within)
			if err != nil {
				return 0, err
			}
			a.Points = append(a.Points, points...)
		}
		return int64(len(a.Points)) * 200, nil
	})
	if err != nil {
		return nil, err
	}
	a.Result = result
	return a, nil
}

// last returns the newest points of a sub-query.
func (e *Engine) last(ctx context.Context, r *query.Reading, sub request.LastSub, within column.TimeRange) ([]LastPoint, error) {
	s := request.SubQuery{Metric: sub.Metric, TSUIDs: sub.TSUIDs}
	for _, key := range slices.Sorted(maps.Keys(sub.Tags)) {
		v := sub.Tags[key]
		is := labels.MustNewMatcher(labels.MatchEqual, key, v)
		s.Filters = append(s.Filters, request.Filter{Key: key, Literals: []string{v}, Matchers: []*labels.Matcher{is}})
	}
	run := &subRun{engine: e, sub: &s, reading: r}
	run.within = aggregation.Range{ReadFromMs: within.MinMs, ReadToMs: within.MaxMs}
	selection, err := run.selectSeries(ctx)
	if err != nil {
		return nil, err
	}
	found, err := newest(ctx, selection)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b LastPoint) int { return labels.Compare(a.Series, b.Series) })
	return found, nil
}

// newest returns the newest points of a selection, and closes the selection. It reads the last hour of each series. If a
// series has no points there, it reads the two hours before, then the four hours before those, and so on.
func newest(ctx context.Context, rest *read.Selection) ([]LastPoint, error) {
	defer func() { rest.Close() }()
	var found []LastPoint
	for n := 1; rest.Len() > 0; n = min(2*n, keyschema.HourMax) {
		last, before, err := rest.SplitLast(n)
		if err != nil {
			return nil, err
		}
		rest.Close()
		rest = before
		points, err := lastPoints(ctx, last)
		last.Close()
		if err != nil {
			return nil, err
		}
		has := make(map[string]bool, len(points))
		for _, p := range points {
			has[string(p.Series.Bytes(nil))] = true
		}
		found = append(found, points...)
		rest.Keep(func(i int) bool { return !has[string(rest.Labels(i).Bytes(nil))] })
	}
	return found, nil
}

// lastPoints returns the last point of each series of a selection that has one.
func lastPoints(ctx context.Context, selection *read.Selection) ([]LastPoint, error) {
	var found []LastPoint
	for batch := range selection.Batches() {
		points, err := lastPointsOfBatch(ctx, selection, batch)
		if err != nil {
			return nil, err
		}
		found = append(found, points...)
	}
	return found, nil
}

func lastPointsOfBatch(ctx context.Context, selection *read.Selection, batch int) ([]LastPoint, error) {
	var points []LastPoint // of each series; without labels if it has none
	err := selection.ReadSlices(ctx, batch, func(slice *read.Batch) error {
		if points == nil {
			points = make([]LastPoint, len(slice.Columns))
		}
		for i := range slice.Columns {
			lastIn(&slice.Columns[i], &points[i])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(points, func(p LastPoint) bool { return p.Series.IsEmpty() }), nil
}

// lastIn replaces p by the last point of a column that is not a stale marker, if there is one.
func lastIn(c *column.Column, p *LastPoint) {
	all := append([]column.Samples{c.Samples}, c.Segments...)
	for i := len(all) - 1; i >= 0; i-- {
		for k := all[i].Len() - 1; k >= 0; k-- {
			if v := all[i].Values[k]; !value.IsStaleNaN(v) {
				*p = LastPoint{TsMs: all[i].Time(k), Value: v, Series: c.Labels}
				return
			}
		}
	}
}
