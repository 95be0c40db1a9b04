package promql

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/storage/index"
)

// seriesBytes is about what a series costs while it is selected: its struct, a span, labels that the catalogue may
// have made for this query alone, the series object handed to the engine.
const seriesBytes = 256

// Selection is the series that answer a selector, sorted by labels and cut into batches of neighbours.
type Selection struct {
	reader *reader
	window window
	series []index.Series
	starts []int // first series of each batch
	bytes  int64
}

// Len is the number of series.
func (s *Selection) Len() int { return len(s.series) }

// Labels are the labels of series i.
func (s *Selection) Labels(i int) labels.Labels { return s.series[i].Labels }

// Batches is the number of batches.
func (s *Selection) Batches() int { return len(s.starts) }

// BatchOf is the number of the batch that series i is in.
func (s *Selection) BatchOf(i int) int {
	n, found := slices.BinarySearch(s.starts, i)
	if found {
		return n
	}
	return n - 1
}

// Close gives the budget back; batches that were read stay valid until they are released.
func (s *Selection) Close() {
	s.reader.budget.release(0, s.bytes)
	s.bytes = 0
}

// hold charges the series to the budget and cuts them into batches. A batch has at most BatchRowsMax rows, or one
// series.
func (s *Selection) hold(series []index.Series) error {
	bytes := int64(len(series)) * seriesBytes
	if err := s.reader.budget.take(0, bytes); err != nil {
		return err
	}
	s.bytes, s.series = bytes, series
	rows := 0
	for i := range series {
		n := rowCount(series[i].Hours)
		if i == 0 || rows+n > s.reader.opts.BatchRowsMax {
			s.starts = append(s.starts, i)
			rows = 0
		}
		rows += n
	}
	return nil
}

// Read reads batch i: the head, then the table. Its columns are those of the batch's series in order, empty ones
// included. Release the batch when done.
func (s *Selection) Read(ctx context.Context, i int) (*Batch, error) {
	first, end := s.starts[i], len(s.series)
	if i+1 < len(s.starts) {
		end = s.starts[i+1]
	}
	series := s.series[first:end]
	rd := &batchReader{reader: s.reader, window: s.window, series: series}
	defer rd.close()
	if err := rd.readHead(ctx); err != nil {
		return nil, err
	}
	if err := rd.readTable(ctx); err != nil {
		return nil, err
	}
	return rd.join(first)
}

// rowCount is the number of hours in the spans.
func rowCount(hours []index.HourSpan) int {
	n := 0
	for _, h := range hours {
		n += int(h.Last - h.First + 1)
	}
	return n
}

// shard keeps the series whose stable hash falls into shard index of count; count 0 or 1 keeps all.
func shard(series []index.Series, shardIndex, count uint64) []index.Series {
	if count < 2 {
		return series
	}
	return slices.DeleteFunc(series, func(s index.Series) bool {
		return labels.StableHash(s.Labels)%count != shardIndex
	})
}
