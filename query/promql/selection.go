package promql

import (
	"cmp"
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
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
	cuts   []cut
	held   int // series charged
	left   int // series without a partner that were left out
	cache  *rowCache
	merges bool   // rows may be kept together
	alone  bool   // the budget ends with it
	epoch  uint64 // of the table before the catalogue was asked
	// condition is nil if series were left out that the matchers take.
	condition *condition
}

// cut is where a batch begins.
type cut struct {
	first    int // series
	streamed bool
	dayRows  int // rows of a day, at most
}

// Len is the number of series.
func (s *Selection) Len() int { return len(s.series) }

// Labels are the labels of series i.
func (s *Selection) Labels(i int) labels.Labels { return s.series[i].Labels }

// Group is the number that series i shares with none whose Labels are others; 0 if it has none. See [index.Series].
func (s *Selection) Group(i int) uint32 { return s.series[i].Group }

// Left is the number of series that were left out as they have no partner.
func (s *Selection) Left() int { return s.left }

// Keep leaves out the series for which keep is false, before any batch is read.
func (s *Selection) Keep(keep func(i int) bool) {
	kept := make([]index.Series, 0, len(s.series))
	for i := range s.series {
		if keep(i) {
			kept = append(kept, s.series[i])
		}
	}
	if len(kept) < len(s.series) {
		s.condition = nil
	}
	s.reader.budget.releaseSeries(len(s.series) - len(kept))
	s.series, s.held, s.cuts = kept, len(kept), nil
	s.cut()
}

// Batches is the number of batches.
func (s *Selection) Batches() int { return len(s.cuts) }

// Streamed reports whether batch i is to be read piece by piece. All others may be read side by side.
func (s *Selection) Streamed(i int) bool { return s.cuts[i].streamed }

// BatchOf is the number of the batch that series i is in.
func (s *Selection) BatchOf(i int) int {
	n, found := slices.BinarySearchFunc(s.cuts, i, func(c cut, i int) int { return cmp.Compare(c.first, i) })
	if found {
		return n
	}
	return n - 1
}

// Close gives the budget back; batches that were read stay valid until they are released.
func (s *Selection) Close() {
	s.reader.budget.releaseSeries(s.held)
	s.held = 0
	if s.alone {
		s.reader.budget.End()
	}
}

// hold charges the series to the budget and cuts them into batches.
func (s *Selection) hold(series []index.Series) error {
	if err := s.reader.budget.takeSeries(len(series)); err != nil {
		return err
	}
	s.held, s.series = len(series), series
	s.cut()
	return nil
}

const (
	// streamShare is the part of BatchRowsMax from which on a series is streamed, so that others can be read with it.
	streamShare = 4
	// batchValuesMax is the number of results (series × steps) of a streamed batch: they are all kept until its last
	// piece has been read.
	batchValuesMax = 1 << 20
)

// cut makes batches. Those of short series have at most BatchRowsMax rows. Those of long series are streamed; if they are
// evaluated together they have many series, so that few reads of a day are needed, otherwise one.
func (s *Selection) cut() {
	var (
		o          = &s.reader.opts
		perDay     = s.reader.neededADay()
		rows       int // of the batch
		all        int
		longSeries = o.BatchRowsMax
	)
	if s.reader.steps > 0 {
		longSeries = max(1, o.BatchRowsMax/streamShare)
	}
	for i := range s.series {
		n := rowCount(s.series[i].Hours)
		all += n
		long, dayRows := n > longSeries, min(n, perDay)
		if i > 0 {
			last := &s.cuts[len(s.cuts)-1]
			count := i - last.first + 1
			switch {
			case long != last.streamed:
			case !long && rows+n <= o.BatchRowsMax:
				rows += n
				continue
			case long && last.dayRows+dayRows <= o.BatchRowsMax && count*s.reader.steps <= batchValuesMax && s.reader.steps > 0:
				last.dayRows += dayRows
				continue
			}
		}
		s.cuts = append(s.cuts, cut{first: i, streamed: long, dayRows: dayRows})
		rows = n
	}
	if s.condition != nil {
		s.condition.parts = len(s.cuts) > 1
	}
	if s.reader.cache.admits(all) {
		s.cache = s.reader.cache
		s.merges = s.reader.lends && s.reader.needed == nil && s.cache.merges(all)
	}
}

// neededADay is the largest number of hours of a day that are read.
func (r *reader) neededADay() int {
	if r.needed == nil {
		return keyschema.DayHours
	}
	most, day, rows := 1, int64(-1), 0
	for _, span := range r.needed {
		for hour := span.First; hour <= span.Last && most < keyschema.DayHours; hour++ {
			if hour/keyschema.DayHours != day {
				day, rows = hour/keyschema.DayHours, 0
			}
			rows++
			most = max(most, rows)
		}
	}
	return most
}

// Read reads batch i as a whole: the head, then the table. Its columns are those of the batch's series in order, empty
// ones included. Release the batch when done.
func (s *Selection) Read(ctx context.Context, i int) (*Batch, error) {
	st, err := s.open(ctx, i)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	return st.Next(ctx)
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
