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
		selection, err := session.SelectExemplars(ctx, column.TimeRange{MinMs: minMs, MaxMs: maxMs}, set...)
		if err != nil {
			return nil, err
		}
		from := len(results)
		results, err = appendExemplars(ctx, results, selection, b)
		for i := range results[from:] {
			r := &results[from+i]
			r.Exemplars = newestPerHour(r.Exemplars, q.reader.ExemplarsMax())
		}
		selection.Close()
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(results, func(a, b promexemplar.QueryResult) int {
		return labels.Compare(a.SeriesLabels, b.SeriesLabels)
	})
	return slices.CompactFunc(results, func(a, b promexemplar.QueryResult) bool {
		return labels.Equal(a.SeriesLabels, b.SeriesLabels)
	}), nil
}

// appendExemplars reads the exemplars of a selection, slice by slice.
func appendExemplars(
	ctx context.Context, results []promexemplar.QueryResult, s *read.Selection, b *budget.Budget,
) ([]promexemplar.QueryResult, error) {
	for i := range s.Batches() {
		stream, err := s.Open(ctx, i)
		if err != nil {
			return results, err
		}
		var positions []int
		for stream.More() && err == nil {
			var batch *read.Batch
			if batch, err = stream.Next(ctx); err == nil {
				if positions == nil {
					positions = make([]int, len(batch.Columns))
				}
				results, err = appendBatch(results, positions, batch, b)
				batch.Release()
			}
		}
		stream.Close()
		if err != nil {
			return results, err
		}
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
