package column

import (
	"github.com/prometheus/prometheus/model/labels"

	"halite/storage/index"
)

// SampleBytes is the memory of one sample in a column.
const SampleBytes = 16

// Column is the samples of one series, or a time slice of them. Callers do not change them, and do not use them after the
// batch is released.
type Column struct {
	Labels labels.Labels
	// Series gives access to all labels. Labels may be projected: then Group identifies the projected label set.
	Series *index.Series
	Group  uint32
	Samples
	// Segments follow Samples in time if the samples are not contiguous in memory. No segment is empty. Len, Time, Times and
	// similar methods cover Samples only. Only a batch that is read as a whole has such columns.
	Segments []Samples
	// Records are the histograms, start timestamps and exemplars of the series. It is nil if only floats are read.
	Records *Records
}

// Append appends samples to a column, as a segment unless the column is empty.
func (c *Column) Append(p Points, t Properties) {
	if c.Len() == 0 {
		c.Set(p, t)
		return
	}
	var last Samples
	last.Set(p, t)
	c.Segments = append(c.Segments, last)
}
