package promadapter

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
type chunkQuerier struct{ *selector }

var _ promstorage.ChunkQuerier = (*chunkQuerier)(nil)

// Select implements ChunkQuerier. The set is always sorted and has no empty series. Samples are read while the set is consumed,
// with ctx. Times are always trimmed to the window.
func (q *chunkQuerier) Select(
	ctx context.Context, _ bool, hints *promstorage.SelectHints, matchers ...*labels.Matcher,
) promstorage.ChunkSeriesSet {
	return &chunkSet{newCursor(q.newLoader(ctx, hints, matchers, true), true)}
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
	out.samples.release()
	*out = chunkIterator{samples: s.loader.series(s.number)}
	return out
}

// chunkIterator encodes a column chunk by chunk. Each chunk has its own memory, because consumers keep several chunks.
type chunkIterator struct {
	samples seriesSamples
	mixed   []chunks.Meta // chunks of a slice with histograms that were not returned yet
	meta    chunks.Meta
}

var _ chunks.Iterator = (*chunkIterator)(nil)

// Next implements chunks.Iterator.
func (it *chunkIterator) Next() bool {
	if len(it.mixed) > 0 {
		it.meta, it.mixed = it.mixed[0], it.mixed[1:]
		return true
	}
	if it.samples.err != nil || it.samples.empty() && !it.samples.next() {
		return false
	}
	if len(it.samples.histograms()) > 0 {
		it.encodeMixed()
		return it.Next()
	}
	n := min(len(it.samples.tsMs), chunkSamplesMax)
	chunk := chunkenc.NewXORChunk()
	app, err := chunk.Appender()
	if err != nil {
		it.samples.err = err
		return false
	}
	for i, ts := range it.samples.tsMs[:n] {
		app.Append(0, ts, it.samples.values[i])
	}
	it.meta = chunks.Meta{Chunk: chunk, MinTime: it.samples.tsMs[0], MaxTime: it.samples.tsMs[n-1]}
	it.samples.tsMs, it.samples.values = it.samples.tsMs[n:], it.samples.values[n:]
	return true
}

// encodeMixed encodes a slice that has histograms.
func (it *chunkIterator) encodeMixed() {
	s := &it.samples
	slice := promstorage.SeriesEntry{SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator {
		return &mixedIterator{samples: seriesSamples{tsMs: s.tsMs, values: s.values, records: s.records}}
	}}
	encoded := promstorage.NewSeriesToChunkEncoder(&slice).Iterator(nil)
	for encoded.Next() {
		it.mixed = append(it.mixed, encoded.At())
	}
	s.tsMs, s.values, s.records = nil, nil, nil
	s.err = encoded.Err()
}

// At implements chunks.Iterator.
func (it *chunkIterator) At() chunks.Meta { return it.meta }

// Err implements chunks.Iterator.
func (it *chunkIterator) Err() error { return it.samples.err }
