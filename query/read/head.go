package read

import (
	"context"

	"halite/keyschema"
	"halite/keyschema/histchunk"
	"halite/query/column"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// BatchReader reads one batch: first the head, then rows of the table. It belongs to one goroutine.
type BatchReader struct {
	sel    *Selection
	first  int // number of the first series in the selection
	series []index.Series

	head     *column.Buffer
	headEnds []int // end of each series' samples in head; nil if the head has none at all
	// headRecords are the histograms, start timestamps and exemplars that the head had of each series, from the start of the
	// window's first hour on; nil if only floats are read.
	headRecords  []column.Records
	recordsBytes int64 // of headRecords
	// view holds the tombstones from the moment at which the head was read, so that reads see a deletion as a whole or not
	// at all. It is nil if nothing can be deleted.
	view *tombstone.View

	prefixes []RowPrefix // of all row keys, sorted; nil until they are needed
	// hourly are the last hourly histograms of each series, until the slice with samples after them; nil if there are none.
	hourly [][]histchunk.Sample
}

// ReadHead copies the unflushed samples of the series [first, end) of a selection. Close the BatchReader when done.
func (s *Selection) ReadHead(ctx context.Context, first, end int) (*BatchReader, error) {
	b := &BatchReader{sel: s, first: first, series: s.series[first:end]}
	read := func() error { return b.copyHead(ctx) }
	var err error
	if set := s.session.reader.opts.Tombstones; set != nil {
		b.view, err = set.Read(read)
	} else {
		err = read()
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *BatchReader) copyHead(ctx context.Context) error {
	r, window := b.sel.session.reader, b.sel.window
	b.head = r.heads.Get(0)
	if !r.opts.Head.Holds(window.MinMs, window.MaxMs) {
		return nil // so the versions of hours are read after the look-up of the series
	}
	if b.sel.kinds.records() {
		b.headRecords = make([]column.Records, len(b.series))
	}
	refs := make([]uint32, 0, min(len(b.series), headBatchMax))
	b.headEnds = make([]int, 0, len(b.series))
	for first, n := 0, 1; first < len(b.series); {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		refs = refs[:0]
		for i := first; i < min(first+n, len(b.series)); i++ {
			if b.headRecords != nil && b.series[i].Ref != 0 {
				if err := b.copyHeadRecords(i); err != nil {
					return err
				}
			}
			refs = append(refs, uint32(b.series[i].Ref))
		}
		before := b.head.Len()
		if err := b.copyHeadSamples(refs); err != nil {
			return err
		}
		first, n = first+n, nextHeadBatch(n, b.head.Len()-before)
	}
	b.sel.session.figures.samples.Add(int64(b.head.Len()))
	return nil
}

const (
	// headBatchMax is the number of series that are copied from the head at once.
	headBatchMax = 1024
	// headBatchSamples is the approximate number of samples that are copied before the budget reserves their memory.
	headBatchSamples = 1 << 17
	headBatchGrowth  = 16
)

// nextHeadBatch returns the number of series of the next copy, given the number of the last one and of its samples.
func nextHeadBatch(series, samples int) int {
	return max(1, min(headBatchMax, series*headBatchGrowth, headBatchSamples*series/max(1, samples)))
}

// copyHeadSamples copies the samples of the next series.
func (b *BatchReader) copyHeadSamples(refs []uint32) (err error) {
	next, from := len(b.headEnds), b.head.Len()
	if !b.sel.kinds.has(keyschema.Floats) {
		for range refs {
			b.headEnds = append(b.headEnds, from)
		}
		return nil
	}
	w := b.sel.window
	tsMs, values, ends, err := b.sel.session.reader.opts.Head.AppendBatch(
		refs, w.MinMs, w.MaxMs, b.sel.latest, b.head.TsMs, b.head.Values, b.headEnds)
	if err != nil {
		return Classify("read head", err)
	}
	kept, start := from, from
	for i := next; i < len(ends); i++ {
		of := column.Points{TsMs: tsMs[start:ends[i]], Values: values[start:ends[i]]}
		start = ends[i]
		n := len(keepHours(b.series[i].Hours, of).TsMs)
		if start-len(of.TsMs) != kept {
			copy(tsMs[kept:], of.TsMs[:n])
			copy(values[kept:], of.Values[:n])
		}
		kept += n
		ends[i] = kept
	}
	if err := b.sel.session.reserve(kept - from); err != nil {
		return err
	}
	b.head.TsMs, b.head.Values, b.headEnds = tsMs[:kept], values[:kept], ends
	return nil
}

// keepHours removes samples whose hour was not selected. They came after the query had begun. Older samples of that hour may have
// been flushed since, and would be missing. The remaining samples are moved to the front of p.
func keepHours(hours []index.HourSpan, p column.Points) column.Points {
	if len(p.TsMs) == 0 {
		return p
	}
	span, kept := 0, 0
	first, last := keyschema.HourOf(p.TsMs[0]), keyschema.HourOf(p.TsMs[len(p.TsMs)-1])
	if len(hours) == 1 && hours[0].First <= first && last <= hours[0].Last {
		return p
	}
	for i := range p.TsMs {
		hour := keyschema.HourOf(p.TsMs[i])
		for span < len(hours) && hours[span].Last < hour {
			span++
		}
		if span == len(hours) {
			break
		}
		if hours[span].First <= hour {
			p.TsMs[kept], p.Values[kept] = p.TsMs[i], p.Values[i]
			kept++
		}
	}
	return column.Points{TsMs: p.TsMs[:kept], Values: p.Values[:kept]}
}

// headOf returns the samples that the head had of a series.
func (b *BatchReader) headOf(series int) column.Points {
	if b.headEnds == nil {
		return column.Points{}
	}
	start := 0
	if series > 0 {
		start = b.headEnds[series-1]
	}
	end := b.headEnds[series]
	return column.Points{TsMs: b.head.TsMs[start:end], Values: b.head.Values[start:end]}
}

// Series returns the series of the batch. They must not be changed.
func (b *BatchReader) Series() []index.Series { return b.series }

// HeadTimes returns the times of the samples that the head had of a series.
func (b *BatchReader) HeadTimes(series int) []int64 { return b.headOf(series).TsMs }

// Unchanged reports whether nothing was deleted since the head was read. Call it after reading the versions of cached data. If it
// returns true, cached data of these versions reflects the same deletions as the batch, because a deletion changes versions
// before and after it takes effect.
func (b *BatchReader) Unchanged() bool { return b.view == nil || b.view.Current() }

// Deletions returns the deletions that all reads of the batch have to see; nil if nothing can be deleted.
func (b *BatchReader) Deletions() *tombstone.View { return b.view }

// Close releases the samples read from the head.
func (b *BatchReader) Close() {
	b.sel.session.putBuffer(&b.sel.session.reader.heads, b.head)
	b.head = nil
	b.sel.session.budget.Release(b.recordsBytes)
	b.headRecords, b.recordsBytes = nil, 0
	if b.view != nil {
		b.view.Release()
		b.view = nil
	}
}

// HeadSamples returns the number of samples that the head had.
func (b *BatchReader) HeadSamples() int { return b.head.Len() }

// RowPrefixes lists the row prefixes of the series that have hours, sorted by key.
func (b *BatchReader) RowPrefixes(hoursOf func(series int) []index.HourSpan) []RowPrefix {
	return rowPrefixes(b.sel.session.reader.opts.Schema, b.sel.window, b.sel.neighbours, b.series, hoursOf)
}
