package columnar

import (
	"context"
	"math"
	"sort"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/columnar/grid"
	"halite/query/columnar/operator"
)

// Queryable returns the series of selectors in the rest of a plan. For a selector that replaces a part, it returns the value
// of the part. It passes all other selectors to q.
func (r *Run) Queryable(q promstorage.Queryable) promstorage.Queryable {
	return promstorage.QueryableFunc(func(mint, maxt int64) (promstorage.Querier, error) {
		inner, err := q.Querier(mint, maxt)
		if err != nil {
			return nil, err
		}
		return &delegatedQuerier{Querier: inner, Run: r}, nil
	})
}

type delegatedQuerier struct {
	promstorage.Querier
	Run *Run
}

// Select implements Querier.
func (q *delegatedQuerier) Select(
	ctx context.Context, sortSeries bool, hints *promstorage.SelectHints, matchers ...*labels.Matcher,
) promstorage.SeriesSet {
	if len(matchers) == 1 {
		if h := q.Run.plan.delegated[matchers[0]]; h != nil {
			return &delegatedSet{Run: q.Run, part: h, at: -1}
		}
	}
	return q.Querier.Select(ctx, sortSeries, hints, matchers...)
}

// delegatedSet evaluates a part when the engine needs its first series.
type delegatedSet struct {
	Run    *Run
	part   *delegatedPart
	matrix *operator.Matrix
	annos  annotations.Annotations
	err    error
	at     int
}

// Next implements SeriesSet.
func (s *delegatedSet) Next() bool {
	if s.matrix == nil && s.err == nil {
		s.evaluate()
	}
	s.at++
	return s.err == nil && s.at < len(s.matrix.Rows)
}

func (s *delegatedSet) evaluate() {
	defer operator.Catch(&s.err)
	r := s.Run
	ev := r.eval
	if s.part.grid != ev.Grid {
		ev = operator.NewEval(&r.state, s.part.grid)
	}
	s.annos, s.err = ev.CaptureAnnotations(func() (err error) {
		s.matrix, err = ev.Collect(s.part.vector)
		return err
	})
	if s.err != nil {
		return
	}
	if ev != r.eval {
		r.eval.CountOnce(&ev.SampleCounts)
	}
	discount(r.eval, s.matrix, s.part.grid)
}

// discount subtracts the points that the engine receives from the statistics, because the engine counts them as samples that
// it reads.
func discount(ev *operator.Eval, m *operator.Matrix, g grid.Grid) {
	for _, row := range m.Rows {
		if g == ev.Grid {
			for k, v := range row {
				if !grid.IsAbsent(v) {
					ev.Total[k]--
					ev.Fresh[k]--
				}
			}
			continue
		}
		// The engine evaluates the part once; see CountOnce.
		n := int64(grid.Count(row))
		for k := range ev.Total {
			ev.Total[k] -= n
		}
		ev.Fresh[0] -= n
	}
}

// At implements SeriesSet.
func (s *delegatedSet) At() promstorage.Series {
	return delegatedSeries{
		labels: s.Run.eval.Metric(s.matrix.Series[s.at]).Labels, grid: s.part.grid, row: s.matrix.Rows[s.at],
	}
}

// Err implements SeriesSet.
func (s *delegatedSet) Err() error { return s.err }

// Warnings implements SeriesSet.
func (s *delegatedSet) Warnings() annotations.Annotations { return s.annos }

// delegatedSeries has a sample at every step, and a stale marker at a step without a value.
type delegatedSeries struct {
	labels labels.Labels
	grid   grid.Grid
	row    []float64
}

// Labels implements Series.
func (s delegatedSeries) Labels() labels.Labels { return s.labels }

// Iterator implements Series.
func (s delegatedSeries) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	out, ok := it.(*rowIterator)
	if !ok {
		out = new(rowIterator)
	}
	*out = rowIterator{grid: s.grid, row: s.row, at: -1}
	return out
}

// rowIterator iterates over the row of a series.
type rowIterator struct {
	grid grid.Grid
	row  []float64
	at   int
}

var _ chunkenc.Iterator = (*rowIterator)(nil)

func (it *rowIterator) move(to int) chunkenc.ValueType {
	it.at = min(to, len(it.row))
	if it.at == len(it.row) {
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}

// Next implements chunkenc.Iterator.
func (it *rowIterator) Next() chunkenc.ValueType { return it.move(it.at + 1) }

// timeMs is int64. Its name keeps go vet from taking Seek for io.Seeker.Seek.
type timeMs = int64

// Seek implements chunkenc.Iterator.
func (it *rowIterator) Seek(t timeMs) chunkenc.ValueType {
	from := max(it.at, 0)
	return it.move(from + sort.Search(len(it.row)-from, func(i int) bool { return it.grid.At(from+i) >= t }))
}

// At implements chunkenc.Iterator.
func (it *rowIterator) At() (int64, float64) { return it.grid.At(it.at), it.row[it.at] }

// AtT implements chunkenc.Iterator.
func (it *rowIterator) AtT() int64 { return it.grid.At(it.at) }

// AtST implements chunkenc.Iterator; there are no start timestamps.
func (it *rowIterator) AtST() int64 { return 0 }

// AtHistogram implements chunkenc.Iterator; rows hold floats only.
func (it *rowIterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	return math.MinInt64, nil
}

// AtFloatHistogram implements chunkenc.Iterator; rows hold floats only.
func (it *rowIterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return math.MinInt64, nil
}

// Err implements chunkenc.Iterator.
func (it *rowIterator) Err() error { return nil }
