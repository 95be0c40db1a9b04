package promadapter

import (
	"halite/query/read"

	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// cursor iterates over the series of a selection, for both kinds of set.
type cursor struct {
	loader *loader
	// skipEmpty reads each batch when its first series is reached, and omits series without samples.
	skipEmpty bool

	selection *read.Selection
	at        int
	err       error
}

func newCursor(l *loader, skipEmpty bool) cursor {
	return cursor{loader: l, skipEmpty: skipEmpty, at: -1}
}

// Next implements SeriesSet and ChunkSeriesSet.
func (c *cursor) Next() bool {
	if c.selection == nil && c.err == nil {
		c.selection, c.err = c.loader.selected()
	}
	for c.err == nil {
		c.at++
		if c.at >= c.selection.Len() {
			return false
		}
		if !c.skipEmpty {
			return true
		}
		first := c.loader.series(c.at)
		empty, err := first.empty(), first.err
		first.release()
		if err != nil {
			c.err = err
			return false
		}
		if !empty {
			return true
		}
	}
	return false
}

// Err implements SeriesSet and ChunkSeriesSet.
func (c *cursor) Err() error { return c.err }

// Warnings implements SeriesSet and ChunkSeriesSet.
func (c *cursor) Warnings() annotations.Annotations {
	var out annotations.Annotations
	for _, w := range c.loader.warnings {
		out.Add(w)
	}
	return out
}

// seriesSet is a selection for Prometheus's engine.
type seriesSet struct {
	cursor
	labelsOnly bool
	series     []series // allocated together, because the engine collects all series
}

var _ promstorage.SeriesSet = (*seriesSet)(nil)

// At implements SeriesSet.
func (s *seriesSet) At() promstorage.Series {
	if s.series == nil {
		s.series = make([]series, s.selection.Len())
	}
	out := &s.series[s.at]
	*out = series{loader: s.loader, labels: s.selection.Labels(s.at), number: s.at, labelsOnly: s.labelsOnly}
	return out
}

// series is one series of a selection. Its samples are read when an iterator is made.
type series struct {
	loader     *loader
	labels     labels.Labels
	number     int
	labelsOnly bool
}

// Labels implements Series.
func (s *series) Labels() labels.Labels { return s.labels }

// Iterator implements Series.
func (s *series) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	if s.labelsOnly {
		return chunkenc.NewNopIterator()
	}
	if !s.loader.selection.OnlyFloats() {
		return s.loader.mixed(s.number, it)
	}
	out, ok := it.(*iterator)
	if !ok {
		out = new(iterator)
	}
	// Release first, so that two batches are not in memory at once.
	out.release()
	out.reset(s.loader.series(s.number))
	return out
}
