package query_test

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/query/columnar/operator"
	"halite/query/read"
	"halite/query/read/readtest"
	"halite/storage/index"
)

// anyStorage makes any Queryable the index and head of a reader. What is no column of plain floats is left to the engine.
type anyStorage struct {
	promstorage.Queryable
	series []labels.Labels // by Ref
}

func newAnyReader(tb testing.TB, q promstorage.Queryable) *read.Reader {
	s := &anyStorage{Queryable: q}
	r, err := read.New(func() read.Options {
		o := readtest.NewWorld(tb).Options(0)
		o.Index, o.Head = s, s
		return o
	}())
	require.NoError(tb, err)
	return r
}

// Select implements read.Index.
func (s *anyStorage) Select(
	ctx context.Context, _ index.Budget, mint, maxt int64, matchers ...*labels.Matcher,
) (out []index.Series, err error) {
	q, err := s.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	set := q.Select(ctx, true, &promstorage.SelectHints{Start: mint, End: maxt}, matchers...)
	for set.Next() {
		s.series = append(s.series, set.At().Labels())
		out = append(out, index.Series{
			Labels: set.At().Labels(), Ref: index.Ref(len(s.series)),
			Hours: []index.HourSpan{{First: keyschema.HourOf(mint), Last: keyschema.HourOf(maxt)}},
		})
	}
	return out, set.Err()
}

// SelectProjected implements read.Index.
func (s *anyStorage) SelectProjected(
	ctx context.Context, budget index.Budget, _ []string, mint, maxt int64, matchers ...*labels.Matcher,
) ([]index.Series, error) {
	return s.Select(ctx, budget, mint, maxt, matchers...)
}

// SelectJoin implements read.Index.
func (s *anyStorage) SelectJoin(
	ctx context.Context, budget index.Budget, _ *index.JoinKeys, mint, maxt int64, matchers ...*labels.Matcher,
) ([]index.Series, int, error) {
	found, err := s.Select(ctx, budget, mint, maxt, matchers...)
	return found, 0, err
}

// LabelNames implements read.Index.
func (s *anyStorage) LabelNames(context.Context, int64, int64, int, ...*labels.Matcher) ([]string, error) {
	return nil, errors.ErrUnsupported
}

// LabelValues implements read.Index.
func (s *anyStorage) LabelValues(
	ctx context.Context, name string, mint, maxt int64, _ int, matchers ...*labels.Matcher,
) (values []string, err error) {
	q, err := s.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	values, _, err = q.LabelValues(ctx, name, nil, matchers...)
	return values, err
}

// Holds implements read.Head.
func (s *anyStorage) Holds(int64, int64) bool { return true }

// AppendSamples implements read.Head.
func (s *anyStorage) AppendSamples(
	ref index.Ref, mint, maxt int64, tsMs []int64, values []float64,
) (_ []int64, _ []float64, err error) {
	q, err := s.Querier(mint, maxt)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	ls := s.series[ref-1]
	var matchers []*labels.Matcher
	ls.Range(func(l labels.Label) {
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, l.Name, l.Value))
	})
	set := q.Select(context.Background(), true, &promstorage.SelectHints{Start: mint, End: maxt}, matchers...)
	for set.Next() {
		if !labels.Equal(set.At().Labels(), ls) {
			continue
		}
		it := set.At().Iterator(nil)
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			if kind != chunkenc.ValFloat || it.AtST() != 0 {
				return nil, nil, operator.ErrUndecided
			}
			t, v := it.At()
			tsMs, values = append(tsMs, t), append(values, v)
		}
		if err := it.Err(); err != nil {
			return nil, nil, err
		}
	}
	return tsMs, values, set.Err()
}
