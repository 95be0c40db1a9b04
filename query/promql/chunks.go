package promql

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// chunkSamplesMax is the number of samples that Prometheus puts into a chunk.
const chunkSamplesMax = 120

// chunkQuerier implements promstorage.ChunkQuerier.
type chunkQuerier struct {
	*reader
	loaders loaders
	shared  bool // the budget is of others, too
}

var _ promstorage.ChunkQuerier = (*chunkQuerier)(nil)

// Select implements ChunkQuerier. The set is always sorted and has no empty series. Samples are read while it is
// consumed, with ctx; times are always trimmed to the window.
func (q *chunkQuerier) Select(
	ctx context.Context, _ bool, hints *promstorage.SelectHints, matchers ...*labels.Matcher,
) promstorage.ChunkSeriesSet {
	return &chunkSet{newCursor(q.loaders.add(q.newLoader(ctx, hints, matchers)), true)}
}

// Close implements ChunkQuerier.
func (q *chunkQuerier) Close() error {
	q.loaders.close()
	if !q.shared {
		q.budget.End()
	}
	return nil
}

type chunkSet struct{ cursor }

// At implements ChunkSeriesSet.
func (s *chunkSet) At() promstorage.ChunkSeries {
	return &chunkSeries{loader: s.loader, labels: s.selection.Labels(s.at), number: s.at}
}

type chunkSeries struct {
	loader *loader
	labels labels.Labels
	number int
}

// Labels implements ChunkSeries.
func (s *chunkSeries) Labels() labels.Labels { return s.labels }

// Iterator implements ChunkSeries.
func (s *chunkSeries) Iterator(it chunks.Iterator) chunks.Iterator {
	out, ok := it.(*chunkIterator)
	if !ok {
		out = new(chunkIterator)
	}
	out.release()
	*out = chunkIterator{column: s.loader.column(s.number)}
	return out
}

// chunkIterator encodes a column chunk by chunk; each chunk has memory of its own, as consumers gather several.
type chunkIterator struct {
	column
	meta chunks.Meta
}

var _ chunks.Iterator = (*chunkIterator)(nil)

// Next implements chunks.Iterator.
func (it *chunkIterator) Next() bool {
	if it.err != nil || len(it.tsMs) == 0 && !it.next() {
		return false
	}
	n := min(len(it.tsMs), chunkSamplesMax)
	chunk := chunkenc.NewXORChunk()
	app, err := chunk.Appender()
	if err != nil {
		it.err = err
		return false
	}
	for i, ts := range it.tsMs[:n] {
		app.Append(0, ts, it.values[i])
	}
	it.meta = chunks.Meta{Chunk: chunk, MinTime: it.tsMs[0], MaxTime: it.tsMs[n-1]}
	it.tsMs, it.values = it.tsMs[n:], it.values[n:]
	return true
}

// At implements chunks.Iterator.
func (it *chunkIterator) At() chunks.Meta { return it.meta }

// Err implements chunks.Iterator.
func (it *chunkIterator) Err() error { return it.err }
