package read

import (
	"context"

	"halite/keyschema"
	"halite/keyschema/histchunk"
	"halite/query/column"
	"halite/query/rowcache"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// BatchReader reads one batch: first the head, then rows of the table. It belongs to one goroutine.
type BatchReader struct {
	sel    *Selection
	first  int // number of the first series in the selection
	series []index.Series
	// owners maps each of series, from first on, to the series of the selection that it is a part of. It is nil if each is a
	// series of the selection.
	owners []int

	head     *column.Buffer
	headEnds []int // end of each series' samples in head; nil if the head has none at all
	rowsHour int64 // the hour whose rows of the head the row cache may hold, decoded; 0 if there is none
	// headProperties are the properties of each series' samples in head; nil if they are not known.
	headProperties []column.Properties
	// headRecords are the histograms, start timestamps and exemplars of each series in the head, from the start of the
	// window's first hour on. It is nil if only floats are read.
	headRecords  []column.Records
	recordsBytes int64 // of headRecords
	// view holds the tombstones at the moment of the read of the head. So reads see a deletion as a whole or not at all. It
	// is nil if deletions are not supported.
	view *tombstone.View

	prefixes []RowPrefix // prefixes of all row keys, sorted; nil until they are needed
	// hourly are the last hourly histograms of each series, until the slice with later samples; nil if there are none.
	hourly [][]histchunk.Sample
}

// ReadHead copies the unflushed samples of the series [first, end) of a selection. The caller closes the BatchReader.
func (s *Selection) ReadHead(ctx context.Context, first, end int) (*BatchReader, error) {
	if yield := s.session.yield; yield != nil {
		if err := yield(ctx); err != nil {
			return nil, err
		}
	}
	b := &BatchReader{sel: s, first: first}
	b.series, b.owners = expand(s.series[first:end])
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
		return nil // so that the versions of hours are read after the look-up of the series
	}
	if b.sel.kinds.records() {
		b.headRecords = make([]column.Records, len(b.series))
	}
	b.rowsHour = b.cachedHeadHour()
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
	// headBatchMax is the number of series that are copied from the head in one batch.
	headBatchMax = 1024
	// headBatchSamples is the approximate number of samples that are copied before the budget reserves their memory.
	headBatchSamples = 1 << 17
	headBatchGrowth  = 16
)

// nextHeadBatch returns the number of series of the next copy, given the number of series and samples of the last copy.
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
	ends, err := b.appendHead(refs)
	if err != nil {
		return Classify("read head", err)
	}
	tsMs, values := b.head.TsMs, b.head.Values
	kept, start := from, from
	for i := next; i < len(ends); i++ {
		of := column.Points{TsMs: tsMs[start:ends[i]], Values: values[start:ends[i]]}
		start = ends[i]
		n := len(keepHours(b.series[i].Hours, of).TsMs)
		if n < len(of.TsMs) {
			b.rowsHour, b.headProperties = 0, nil // there may be a gap now
		}
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

// appendHead appends the samples of the next series to head, and their ends to headEnds. It returns the ends.
func (b *BatchReader) appendHead(refs []uint32) (ends []int, err error) {
	if b.rowsHour > 0 {
		if ends, ok, err := b.appendHeadRows(refs); ok || err != nil {
			return ends, err
		}
		b.rowsHour, b.headProperties = 0, nil
	}
	w := b.sel.window
	b.head.TsMs, b.head.Values, ends, err = b.sel.session.reader.opts.Head.AppendBatch(
		refs, w.MinMs, w.MaxMs, b.sel.latest, nil, b.head.TsMs, b.head.Values, b.headEnds)
	return ends, err
}

const (
	// headWindowMinMs is the part of an hour above which rows of the head are looked up in the row cache. A shorter part is
	// decoded as fast.
	headWindowMinMs = 10 * 60_000
	// headRowSamples is the number of decoded samples above which a row goes into the row cache.
	headRowSamples = 36
)

// cachedHeadHour returns the one of the latest two hours from which the query needs more samples, if the head holds some of
// it. It returns 0 if a look-up in the row cache does not pay off.
func (b *BatchReader) cachedHeadHour() (hour int64) {
	if b.sel.cache == nil || b.sel.latest {
		return 0
	}
	r, nowMs := b.sel.session.reader, b.sel.session.reader.opts.Now().UnixMilli()
	longest := int64(headWindowMinMs)
	for of := keyschema.HourOf(nowMs); of >= keyschema.HourOf(nowMs)-1; of-- {
		startMs := keyschema.HourStartMs(of)
		minMs, maxMs := max(b.sel.window.MinMs, startMs), min(b.sel.window.MaxMs, nowMs, startMs+keyschema.HourMs-1)
		if maxMs-minMs+1 >= longest && r.opts.Head.Holds(minMs, maxMs) {
			hour, longest = of, maxMs-minMs+1
		}
	}
	return hour
}

// appendHeadRows is appendHead, but it takes samples from the row cache where possible, and stores decoded rows there. It
// returns false, and appends nothing, if the cached rows became invalid meanwhile.
func (b *BatchReader) appendHeadRows(refs []uint32) (ends []int, ok bool, err error) {
	r, w, startMs := b.sel.session.reader, b.sel.window, keyschema.HourStartMs(b.rowsHour)
	deletions := uint64(0)
	if set := r.opts.Tombstones; set != nil {
		deletions = set.NextID()
	}
	rows := b.sel.cache.HeadRows(b.rowsHour, deletions)
	defer rows.Release()
	series := b.series[len(b.headEnds) : len(b.headEnds)+len(refs)]
	fromMs, found := rows.Find(series)
	rest := r.rests.Get(0)
	defer r.rests.Put(rest)
	restEnds := make([]int, 0, len(refs))
	// The cache stores whole rows, so the row is read from the start of its hour.
	rest.TsMs, rest.Values, restEnds, err = r.opts.Head.AppendBatch(
		refs, min(w.MinMs, startMs), w.MaxMs, false, fromMs, rest.TsMs, rest.Values, restEnds)
	if err != nil || !rows.Unchanged() {
		return nil, false, err
	}
	b.sel.session.figures.rowsCached.Add(int64(found))
	ends = b.headEnds
	var put []rowcache.HeadRow
	start := 0
	for i, end := range restEnds {
		first := b.head.Len()
		before, from := column.Points{TsMs: rest.TsMs[start:end], Values: rest.Values[start:end]}.Split(startMs)
		start = end
		b.head.Append(before.TsMs, before.Values)
		p, at := column.PropertiesOf(before), b.head.Len()
		grows := fromMs[i] >= 0 // otherwise the head has returned all samples
		if grows {
			p = b.head.Join(p, rows.AppendTo(b.head, i, w), first, at)
			at = b.head.Len()
		}
		inWindow := w.Clip(from)
		b.head.Append(inWindow.TsMs, inWindow.Values)
		ends = append(ends, b.head.Len())
		b.headProperties = append(b.headProperties, b.head.Join(p, column.PropertiesOf(inWindow), first, at))
		if of, _ := from.Split(startMs + keyschema.HourMs); grows && len(of.TsMs) >= headRowSamples {
			put = append(put, rowcache.HeadRow{Series: &series[i], Points: rows.Extended(i, of)})
		}
	}
	rows.Put(put)
	return ends, true, nil
}

// keepHours removes samples whose hour was not selected, because they came after the query had begun. Older samples of that
// hour may have been flushed since, and would be missing. It moves the remaining samples to the front of p.
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

// headOf returns the samples of a series in the head.
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

// propertiesOf returns the properties of a series' samples in the head.
func (b *BatchReader) propertiesOf(series int, head column.Points) column.Properties {
	if b.headProperties == nil {
		return column.PropertiesOf(head)
	}
	return b.headProperties[series]
}

// Series returns the stored series of the batch. Callers do not change them.
func (b *BatchReader) Series() []index.Series { return b.series }

// HeadTimes returns the times of a series' samples in the head.
func (b *BatchReader) HeadTimes(series int) []int64 { return b.headOf(series).TsMs }

// Unchanged reports whether nothing was deleted since the read of the head. The caller calls it after it has read the
// versions of cached data. If it returns true, cached data of these versions reflects the same deletions as the batch,
// because a deletion changes versions before and after it takes effect.
func (b *BatchReader) Unchanged() bool { return b.view == nil || b.view.Current() }

// Deletions returns the deletions that all reads of the batch must apply; nil if deletions are not supported.
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

// HeadSamples returns the number of samples from the head.
func (b *BatchReader) HeadSamples() int { return b.head.Len() }

// RowPrefixes lists the row prefixes of the series that have hours, sorted by key.
func (b *BatchReader) RowPrefixes(hoursOf func(series int) []index.HourSpan) []RowPrefix {
	return rowPrefixes(b.sel.session.reader.opts.Schema, b.sel.window, b.sel.neighbours, b.series, hoursOf)
}
