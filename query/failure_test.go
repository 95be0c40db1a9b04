package query_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
	"halite/storage"
)

// faultyTable fails each read after a number of rows.
type faultyTable struct {
	storage.Table
	rows int
	err  error
}

func (f *faultyTable) ReadRows(ctx context.Context, set storage.RowSet, o storage.ReadOptions) storage.RowIter {
	return &faultyIter{RowIter: f.Table.ReadRows(ctx, set, o), left: f.rows, fault: f.err}
}

type faultyIter struct {
	storage.RowIter
	left  int
	fault error
	err   error
}

func (f *faultyIter) Next() bool {
	if f.left == 0 {
		f.err = f.fault
		return false
	}
	f.left--
	return f.RowIter.Next()
}

func (f *faultyIter) Err() error {
	if f.err != nil {
		return f.err
	}
	return f.RowIter.Err()
}

// TestFailingTableFailsTheQuery: a failed read fails the query, for all expressions.
func TestFailingTableFailsTheQuery(t *testing.T) {
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	var samples []ingest.Sample
	for i := range 10 {
		ls := labels.FromStrings("__name__", "m", "i", fmt.Sprint(i), "le", fmt.Sprint(i))
		for k := range int64(20) {
			samples = append(samples, ingest.Sample{Labels: ls, TsMs: dataFrom + k*60_000, Value: float64(k)})
		}
	}
	s.write(samples)
	s.flush()
	fault := fmt.Errorf("%w: block 7", storage.ErrCorrupt)
	for _, rows := range []int{0, 1, 9} {
		opts := s.options
		opts.Data = &faultyTable{Table: opts.Data, rows: rows, err: fault}
		opts.Concurrency = 1
		q, err := newSource(opts)
		require.NoError(t, err)
		e, err := newEngine(query.Options{Queryable: q})
		require.NoError(t, err)
		for _, text := range []string{
			"m", "sum(m)", "absent(m)", "count_over_time(m[5m])", "timestamp(m)", "m or vector(1)", "rate(m[10m:1m])",
			"histogram_quantile(0.5, m)", "scalar(m)", "absent_over_time(m[5m])", "topk(1, m)", "m[5m]",
		} {
			end := time.UnixMilli(dataFrom + 19*60_000)
			_, err := e.Instant(context.Background(), query.InstantRequest{Query: text, TimeMs: end.UnixMilli()})
			requireInternal(t, text, err, fault)
			if text == "m[5m]" {
				continue
			}
			_, err = e.Range(context.Background(), query.RangeRequest{
				Query: text, Start: end.Add(-10 * time.Minute), End: end, Step: time.Minute,
			})
			requireInternal(t, text, err, fault)
		}
	}
}

func requireInternal(t *testing.T, text string, err, fault error) {
	t.Helper()
	var typed *query.Error
	require.ErrorAs(t, err, &typed, text)
	require.Equal(t, query.ErrorInternal, typed.Type, text)
	require.True(t, errors.Is(err, fault), text)
}
