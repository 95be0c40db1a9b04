package query_test

import (
	"context"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"halite/query/columnar"
	"halite/query/promql"
)

// anySource reads columns from any Queryable, one series a batch. What is no column of plain floats is left to the
// engine.
type anySource struct{ promstorage.Queryable }

func (s anySource) Session() columnar.Session { return anySession(s) }

type anySession struct{ promstorage.Queryable }

func (anySession) Take(int64) error        { return nil }
func (anySession) Release(int64)           {}
func (anySession) Close()                  {}
func (anySession) Budget() *promql.Budget  { return nil }
func (anySession) Figures() promql.Figures { return promql.Figures{} }

func (s anySession) Metrics(ctx context.Context, w promql.Windows, matchers ...*labels.Matcher) ([]string, error) {
	q, err := s.Querier(w.FirstEndMs-w.RangeMs+1, w.FirstEndMs+int64(w.Steps-1)*w.StepMs)
	if err != nil {
		return nil, err
	}
	defer func() { _ = q.Close() }()
	names, _, err := q.LabelValues(ctx, model.MetricNameLabel, nil, matchers...)
	return names, err
}

func (s anySession) Select(
	ctx context.Context, w promql.Windows, matchers ...*labels.Matcher,
) (columnar.Selection, error) {
	from, to := w.FirstEndMs-w.RangeMs+1, w.FirstEndMs+int64(w.Steps-1)*w.StepMs
	q, err := s.Querier(from, to)
	if err != nil {
		return nil, err
	}
	defer func() { _ = q.Close() }()
	set := q.Select(ctx, true, &promstorage.SelectHints{Start: from, End: to}, matchers...)
	var out anySelection
	for set.Next() {
		c := promql.Column{Labels: set.At().Labels()}
		it := set.At().Iterator(nil)
		for {
			kind := it.Next()
			if kind == chunkenc.ValNone {
				break
			}
			if kind != chunkenc.ValFloat || it.AtST() != 0 {
				return nil, columnar.ErrUndecided
			}
			t, v := it.At()
			c.TsMs, c.Values = append(c.TsMs, t), append(c.Values, v)
		}
		if err := it.Err(); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, set.Err()
}

type anySelection []promql.Column

func (s anySelection) Len() int                   { return len(s) }
func (s anySelection) Labels(i int) labels.Labels { return s[i].Labels }
func (s anySelection) Batches() int               { return len(s) }
func (s anySelection) Close()                     {}

func (s anySelection) Read(_ context.Context, i int) (columnar.Batch, error) {
	return columnar.Batch{Columns: s[i : i+1], Release: func() {}}, nil
}
