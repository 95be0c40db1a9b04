package promadapter

import (
	"context"
	"slices"

	promexemplar "github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/query/budget"
	"halite/query/column"
	"halite/query/read"
)

// Exemplars returns the exemplars of the series that match one of several sets of matchers, sorted by series and time. It
// omits series without exemplars. If the Queryable has a budget, the result stays in it.
func (q *Queryable) Exemplars(
	ctx context.Context, minMs, maxMs int64, sets ...[]*labels.Matcher,
) ([]promexemplar.QueryResult, error) {
	b := q.budget
	if b == nil {
		b = q.reader.BudgetOf(ctx)
		defer b.Close()
	}
	session := q.reader.SessionWith(b)
	results := []promexemplar.QueryResult{}
	for _, set := range sets {
		found, err := q.exemplars(ctx, session, column.TimeRange{MinMs: minMs, MaxMs: maxMs}, set)
		if err != nil {
			return nil, err
		}
		results = append(results, found...)
	}
	slices.SortStableFunc(results, func(a, b promexemplar.QueryResult) int {
		return labels.Compare(a.SeriesLabels, b.SeriesLabels)
	})
	return slices.CompactFunc(results, func(a, b promexemplar.QueryResult) bool {
		return labels.Equal(a.SeriesLabels, b.SeriesLabels)
	}), nil
}

// exemplars returns the exemplars of the series that match one set of matchers.
func (q *Queryable) exemplars(
	ctx context.Context, session *read.Session, within column.TimeRange, matchers []*labels.Matcher,
) ([]promexemplar.QueryResult, error) {
	selection, err := session.SelectExemplars(ctx, within, matchers...)
	if err != nil {
		return nil, err
	}
	defer selection.Close()
	var results []promexemplar.QueryResult
	for i := range selection.Batches() {
		var positions []int
		err := selection.ReadSlices(ctx, i, func(slice *read.Batch) (err error) {
			if positions == nil {
				positions = make([]int, len(slice.Columns))
			}
			results, err = appendBatch(results, positions, slice, session.Budget())
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range results {
		results[i].Exemplars = newestPerHour(results[i].Exemplars, q.reader.ExemplarsMax())
	}
	return results, nil
}

// appendBatch appends the exemplars of a batch to the results. positions has the position of each series after its result; 0 if
// it has none yet.
func appendBatch(
	results []promexemplar.QueryResult, positions []int, batch *read.Batch, b *budget.Budget,
) ([]promexemplar.QueryResult, error) {
	for i := range batch.Columns {
		c := &batch.Columns[i]
		if len(c.Records.Exemplars) == 0 {
			continue
		}
		if err := b.Reserve(c.Records.SizeBytes() + int64(c.Labels.ByteSize())); err != nil {
			return results, err
		}
		if positions[i] == 0 {
			results = append(results, promexemplar.QueryResult{SeriesLabels: c.Labels})
			positions[i] = len(results)
		}
		r := &results[positions[i]-1]
		for _, e := range c.Records.Exemplars {
			r.Exemplars = append(r.Exemplars, promexemplar.Exemplar{Labels: e.Labels, Value: e.Value, Ts: e.TsMs, HasTs: true})
		}
	}
	return results, nil
}

// newestPerHour keeps the newest exemplars of each hour, up to a number of most; 0 keeps all. They ascend by time.
func newestPerHour(exemplars []promexemplar.Exemplar, most int) []promexemplar.Exemplar {
	if most == 0 {
		return exemplars
	}
	kept := exemplars[:0]
	for len(exemplars) > 0 {
		hour, n := keyschema.HourOf(exemplars[0].Ts), 1
		for n < len(exemplars) && keyschema.HourOf(exemplars[n].Ts) == hour {
			n++
		}
		kept = append(kept, exemplars[max(0, n-most):n]...)
		exemplars = exemplars[n:]
	}
	return kept
}
