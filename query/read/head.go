package read

import (
	"context"

	"halite/keyschema"
	"halite/keyschema/histchunk"
	"halite/query/column"
	"halite/query/hours"
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
	// headProperties are the known properties of the first series' samples in head.
	headProperties []column.Properties
	// pin allows samples of the head that stay in the row cache. columns hold such samples of each series; nil if there are
	// none. A series with pinned samples has none in head.
	pin     bool
	columns []column.Column
	pins    *rowcache.Pins // nil if the row cache was not used
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
	return s.readHead(ctx, first, end, false)
}

// readHead is ReadHead. If pin is set, samples may stay in the row cache. Then the batch is read as a whole.
func (s *Selection) readHead(ctx context.Context, first, end int, pin bool) (*BatchReader, error) {
	if yield := s.session.yield; yield != nil {
		if err := yield(ctx); err != nil {
			return nil, err
		}
	}
	b := &BatchReader{sel: s, first: first}
	b.series, b.owners = expand(s.series[first:end])
	b.pin = pin && s.pin && b.owners == nil && s.cutoffs(s.window) == nil
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
	if b.rowsHour = b.cachedHeadHour(); b.rowsHour > 0 {
		b.pins = b.sel.cache.NewPins()
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
	b.sel.session.figures.samples.Add(int64(b.HeadSamples()))
	if b.columns == nil {
		b.releasePins()
	}
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
		tail := column.Points{TsMs: tsMs[start:ends[i]], Values: values[start:ends[i]]}
		start = ends[i]
		n := len(keepHours(b.series[i].Hours, tail).TsMs)
		if n < len(tail.TsMs) {
			b.rowsHour, b.headProperties = 0, nil // there may be a gap now
		}
		if start-len(tail.TsMs) != kept {
			copy(tsMs[kept:], tail.TsMs[:n])
			copy(values[kept:], tail.Values[:n])
		}
		kept += n
		ends[i] = kept
	}
	if err := b.sel.session.reserve(kept - from); err != nil {
		return err
	}
	b.head.TsMs, b.head.Values, b.headEnds = tsMs[:kept], values[:kept], ends
	return b.pins.Reserve(b.sel.session.budget)
}

// appendHead appends the samples of the next series to head, and their ends to headEnds. It returns the ends.
func (b *BatchReader) appendHead(refs []uint32) (ends []int, err error) {
	if b.rowsHour > 0 {
		if ends, ok, err := b.appendHeadRows(refs); ok || err != nil {
			return ends, err
		}
		b.rowsHour, b.headProperties = 0, nil
	}
	w := keyschema.SampleWindow{MinMs: b.sel.window.MinMs, MaxMs: b.sel.window.MaxMs, NewestOnly: b.sel.latest}
	b.head.TsMs, b.head.Values, ends, err = b.sel.session.reader.opts.Head.AppendBatch(
		refs, w, b.head.TsMs, b.head.Values, b.headEnds)
	return ends, err
}

const (
	// headWindowMinMs is the part of an hour above which rows of the head are looked up in the row cache. For a shorter
	// part, decoding is as fast as the look-up.
	headWindowMinMs = 10 * 60_000
)

// cachedHeadHour returns the one of the latest two hours from which the query needs more samples. The head must hold
// samples of this hour. It returns 0 if a look-up in the row cache does not pay off.
func (b *BatchReader) cachedHeadHour() (hour int64) {
	if b.sel.cache == nil || b.sel.latest {
		return 0
	}
	r, nowMs := b.sel.session.reader, b.sel.session.reader.opts.Now().UnixMilli()
	longest := int64(headWindowMinMs)
	for candidate := keyschema.HourOf(nowMs); candidate >= keyschema.HourOf(nowMs)-1; candidate-- {
		startMs := keyschema.HourStartMs(candidate)
		minMs, maxMs := max(b.sel.window.MinMs, startMs), min(b.sel.window.MaxMs, nowMs, startMs+keyschema.HourMs-1)
		if maxMs-minMs+1 >= longest && r.opts.Head.Holds(minMs, maxMs) {
			hour, longest = candidate, maxMs-minMs+1
		}
	}
	return hour
}

// appendHeadRows is appendHead, but it takes samples from the row cache where possible, and stores decoded rows there. It
// returns false and appends nothing if the cached rows have become invalid.
func (b *BatchReader) appendHeadRows(refs []uint32) (ends []int, ok bool, err error) {
	r, w := b.sel.session.reader, b.sel.window
	deletions := uint64(0)
	if set := r.opts.Tombstones; set != nil {
		deletions = set.NextID()
	}
	rows := b.sel.cache.HeadRows(b.rowsHour, deletions, b.pins)
	defer rows.Release()
	fromMs, found := rows.Find(b.series[len(b.headEnds):len(b.headEnds)+len(refs)], w.MinMs)
	since := headSamples{Buffer: r.rests.Get(0), ends: make([]int, 0, len(refs)), startMs: keyschema.HourStartMs(b.rowsHour)}
	defer r.rests.Put(since.Buffer)
	since.TsMs, since.Values, since.ends, err = r.opts.Head.AppendBatch(
		refs, keyschema.SampleWindow{MinMs: w.MinMs, MaxMs: w.MaxMs, FromMs: fromMs}, since.TsMs, since.Values, since.ends)
	if err != nil || !rows.Unchanged() {
		return nil, false, err
	}
	for i := range refs {
		if _, inHour, _ := since.split(i); fromMs[i] >= 0 && !rows.Compare(i, inHour, w.MaxMs) {
			return nil, false, nil
		}
	}
	rows.Extend()
	b.sel.session.figures.rowsCached.Add(int64(found))
	var put []rowcache.HeadRow
	for i := range refs {
		cached := fromMs[i] >= 0 // otherwise the head has returned all samples
		if !cached || !b.pinHeadRow(rows, i, &since) {
			b.appendHeadRow(rows, i, &since, cached)
		}
		b.headEnds = append(b.headEnds, b.head.Len())
		if _, inHour, _ := since.split(i); cached && rows.WorthCaching(i, inHour) {
			put = append(put, rowcache.HeadRow{Series: i, Since: inHour})
		}
	}
	rows.Put(put)
	return b.headEnds, true, nil
}

// headSamples are samples of the head of a few series.
type headSamples struct {
	*column.Buffer
	ends    []int
	startMs int64 // of the hour whose rows the row cache may hold
}

// split returns the samples of series i before, in and after the hour.
func (s *headSamples) split(i int) (before, inHour, after column.Points) {
	start := 0
	if i > 0 {
		start = s.ends[i-1]
	}
	inHour = column.Points{TsMs: s.TsMs[start:s.ends[i]], Values: s.Values[start:s.ends[i]]}
	if n := len(inHour.TsMs); n > 0 && inHour.TsMs[0] < s.startMs {
		before, inHour = inHour.Split(s.startMs)
	}
	if n := len(inHour.TsMs); n > 0 && inHour.TsMs[n-1] >= s.startMs+keyschema.HourMs {
		inHour, after = inHour.Split(s.startMs + keyschema.HourMs)
	}
	return before, inHour, after
}

// pinHeadRow leaves the samples of series i of rows in the row cache if it has all of them.
func (b *BatchReader) pinHeadRow(rows *rowcache.HeadRows, i int, since *headSamples) bool {
	next := len(b.headEnds)
	if _, _, selected := hours.Bounds(b.series[next].Hours, b.rowsHour, b.rowsHour); !b.pin || !selected {
		return false
	}
	if before, _, after := since.split(i); len(before.TsMs)+len(after.TsMs) > 0 {
		return false
	}
	pinned, ok := rows.Pin(i, b.sel.window)
	if !ok || pinned.Len() == 0 {
		return ok
	}
	if b.columns == nil {
		b.columns = b.sel.session.reader.columns.Columns(len(b.series))
	}
	b.columns[next].Samples = pinned
	return true
}

// appendHeadRow appends the samples of series i of rows to head. cached means that they may follow samples of the row cache.
func (b *BatchReader) appendHeadRow(rows *rowcache.HeadRows, i int, since *headSamples, cached bool) {
	first := b.head.Len()
	before, inHour, after := since.split(i)
	b.head.Append(before.TsMs, before.Values)
	p, at := column.PropertiesOf(before), b.head.Len()
	if cached {
		p = b.head.Join(p, rows.AppendTo(b.head, i, b.sel.window), first, at)
	}
	for _, part := range []column.Points{b.sel.window.Clip(inHour), after} {
		at = b.head.Len()
		b.head.Append(part.TsMs, part.Values)
		p = b.head.Join(p, column.PropertiesOf(part), first, at)
	}
	for len(b.headProperties) < len(b.headEnds) {
		b.headProperties = append(b.headProperties, column.Properties{}) // pinned series have none
	}
	b.headProperties = append(b.headProperties, p)
}

// keepHours removes samples of hours that the query did not select: these samples arrived after the selection. A flush may
// have moved older samples of such an hour to the table, where the query does not look for them. keepHours moves the
// remaining samples to the front of p.
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

// pinnedOf returns the samples of a series in the head if they stay in the row cache, or nil.
func (b *BatchReader) pinnedOf(series int) *column.Samples {
	if b.columns == nil || b.columns[series].Len() == 0 {
		return nil
	}
	return &b.columns[series].Samples
}

// headOf returns the samples of a series in the head.
func (b *BatchReader) headOf(series int) column.Points {
	if p := b.pinnedOf(series); p != nil {
		return column.Points{TsMs: p.Times(nil), Values: p.Values}
	}
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
	if series >= len(b.headProperties) || b.pinnedOf(series) != nil {
		return column.PropertiesOf(head)
	}
	return b.headProperties[series]
}

// Series returns the stored series of the batch. Callers do not change them.
func (b *BatchReader) Series() []index.Series { return b.series }

// HeadTimes returns the times of a series' samples in the head.
func (b *BatchReader) HeadTimes(series int) []int64 { return b.headOf(series).TsMs }

// Unchanged reports whether no deletion took effect since the read of the head. The caller first reads the versions of cached
// data. If Unchanged then returns true, cached data of these versions reflects the same deletions as the batch. A deletion
// changes versions before and after it takes effect.
func (b *BatchReader) Unchanged() bool { return b.view == nil || b.view.Current() }

// Deletions returns the deletions that all reads of the batch must apply; nil if deletions are not supported.
func (b *BatchReader) Deletions() *tombstone.View { return b.view }

// Close releases the samples read from the head.
func (b *BatchReader) Close() {
	b.sel.session.putBuffer(&b.sel.session.reader.heads, b.head)
	b.head = nil
	b.releasePins()
	b.sel.session.budget.Release(b.recordsBytes)
	b.headRecords, b.recordsBytes = nil, 0
	if b.view != nil {
		b.view.Release()
		b.view = nil
	}
}

// releasePins ends the use of samples in the row cache.
func (b *BatchReader) releasePins() {
	if b.columns != nil {
		b.sel.session.reader.columns.PutColumns(b.columns)
	}
	b.pins.Release(b.sel.session.budget)
	b.pins, b.columns = nil, nil
}

// HeadSamples returns the number of samples from the head.
func (b *BatchReader) HeadSamples() int { return b.head.Len() + b.pins.Samples() }

// RowPrefixes lists the row prefixes of the series that have hours, sorted by key.
func (b *BatchReader) RowPrefixes(hoursOf func(series int) []index.HourSpan) []RowPrefix {
	return rowPrefixes(b.sel.session.reader.opts.Schema, b.sel.window, b.sel.neighbours, b.series, hoursOf)
}
