package read

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
	"halite/query/column"
	"halite/query/hours"
	"halite/query/rowcache"
	"halite/storage"
	"halite/storage/index"
)

// timeSlice reads a span of time of a batch from the table.
type timeSlice struct {
	batch  *BatchReader
	window column.TimeRange
	hours  [][]index.HourSpan // hours of each series in the slice; nil if the slice has all hours
	whole  bool               // the batch has no other slices

	rows   *column.Rows
	parts  []*column.Buffer // samples of rows: first from the row cache, then of each worker
	lookup *rowcache.Lookup // nil if the row cache is not used

	// records are the histograms, start timestamps and exemplars of each row, within their whole hours; nil if only floats are
	// read.
	records      []column.Records
	recordsBytes atomic.Int64
	// spanMs and spanValues are memory for headSpan.
	spanMs     [2]int64
	spanValues [2]float64
	hourly     [][]histchunk.Sample // retired histograms of each series, from rollup states; nil if there are none
}

// hoursOf returns the hours of a series within the slice.
func (t *timeSlice) hoursOf(series int) []index.HourSpan {
	if t.hours == nil {
		return t.batch.series[series].Hours
	}
	return t.hours[series]
}

// missingOf returns the hours of a series to read from the table.
func (t *timeSlice) missingOf(series int) []index.HourSpan {
	if t.lookup == nil {
		return t.hoursOf(series)
	}
	return t.lookup.Missing(series)
}

// headOf returns the samples of a series within the slice that ReadHead has copied.
func (t *timeSlice) headOf(series int) column.Points { return t.window.Clip(t.batch.headOf(series)) }

// headSpan is headOf for a caller that needs only the bounds of samples in the row cache, which lie in one hour.
func (t *timeSlice) headSpan(series int) column.Points {
	if p := t.batch.pinnedOf(series); p != nil {
		t.spanMs = [2]int64{p.Time(0), p.Time(p.Len() - 1)}
		return column.Points{TsMs: t.spanMs[:], Values: t.spanValues[:]}
	}
	return t.headOf(series)
}

// read reads the rows of all series and joins them with the head.
func (t *timeSlice) read(ctx context.Context) (*Batch, error) {
	if t.onlyHead() {
		return t.headBatch(), nil
	}
	defer t.close()
	t.rows = t.batch.sel.session.reader.columns.Rows()
	t.rows.Reset(len(t.batch.series), t.hoursOf)
	if t.batch.sel.kinds.records() {
		t.records = make([]column.Records, len(t.rows.All))
	}
	if err := t.lookUp(ctx); err != nil {
		return nil, err
	}
	if t.lookup == nil || t.lookup.AnyMissing() {
		if err := t.readRows(ctx); err != nil {
			return nil, err
		}
		if t.lookup != nil {
			t.lookup.PutMissing()
		}
	}
	if err := t.readHourly(ctx); err != nil {
		return nil, err
	}
	return t.join()
}

// lookUp looks up rows in the row cache.
//
// The head was read before. A sample that had left the head at that moment was already in the table. So the version of its
// hour, which lookUp reads now, reflects the sample.
func (t *timeSlice) lookUp(ctx context.Context) error {
	sel := t.batch.sel
	if sel.cache == nil {
		return nil
	}
	r := sel.session.reader
	l := sel.cache.Lookup(rowcache.Request{
		Series: t.batch.series, Hours: t.hours, Range: t.window, Version: sel.version, NowMs: r.opts.Now().UnixMilli(),
		Sparse: sel.hours != nil, OldestHour: t.oldestHour, Head: t.headSpan, Steps: sel.steps, Latest: sel.latest,
		Pin:   sel.pin && t.hours == nil && sel.cutoffs(t.window) == nil,
		Merge: sel.merge, Rows: t.rows, Buffers: &r.buffers, Columns: &r.columns, Budget: sel.session.budget,
	})
	if !t.batch.Unchanged() {
		l.Release() // a later deletion may have removed samples from cached rows, but this batch must see them
		return nil
	}
	t.lookup = l
	err := l.Find(ctx)
	rows, samples := l.Found()
	sel.session.figures.samples.Add(int64(samples))
	sel.session.figures.rowsCached.Add(int64(rows))
	r.metrics.samples.Add(float64(samples))
	if part := l.TakePart(); part != nil {
		t.parts = append(t.parts, part)
	}
	return err
}

// readRows reads the missing rows, days concurrently as far as Concurrency allows.
func (t *timeSlice) readRows(ctx context.Context) error {
	r := t.batch.sel.session.reader
	concurrency := t.batch.sel.session.Concurrency(r.opts.Concurrency)
	reads := planReads(t.prefixes(), t.missingOf, t.batch.sel.hours != nil, concurrency)
	if len(reads) == 0 {
		return nil
	}
	if neighbours := t.batch.sel.neighbours; neighbours != nil && t.batch.sel.hours == nil {
		c := coalescer{
			opts: &r.opts, neighbours: neighbours, series: t.batch.series, window: t.window, hoursOf: t.hoursOf,
			missingOf: t.missingOf, cached: t.lookup != nil, values: make(map[string][]string),
		}
		for i := range reads {
			if err := c.coalesce(ctx, &reads[i]); err != nil {
				return err
			}
		}
	}
	workers := min(concurrency, len(reads))
	first := len(t.parts)
	for range workers {
		t.parts = append(t.parts, r.buffers.Get(0))
	}
	if workers < 2 {
		return t.work(ctx, first, reads, new(atomic.Int64))
	}
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for i := range workers {
		group.Go(func() error { return t.work(ctx, first+i, reads, &next) })
	}
	return group.Wait()
}

// prefixes returns the row prefixes of missing rows, or of all rows if the batch knows or needs them.
func (t *timeSlice) prefixes() []RowPrefix {
	b := t.batch
	switch {
	case b.prefixes != nil:
	case t.lookup != nil:
		return b.RowPrefixes(t.missingOf)
	default:
		b.prefixes = b.RowPrefixes(func(i int) []index.HourSpan { return b.series[i].Hours })
	}
	return b.prefixes
}

// rowDecoder is the state of a worker that decodes rows.
type rowDecoder struct {
	part  int
	row   chunk.Row
	cache *rowcache.Writer // nil if the row cache is not used

	startTimes chunk.Row
	histograms histchunk.Decoder
	exemplars  exemplar.Decoder
	chunks     []histogramChunk
}

// work takes one read at a time until none is left, and decodes its rows into its part.
func (t *timeSlice) work(ctx context.Context, part int, reads []dayRead, next *atomic.Int64) error {
	d := rowDecoder{part: part}
	if t.lookup != nil {
		d.cache = t.lookup.Writer()
	}
	for {
		i := int(next.Add(1)) - 1
		if i >= len(reads) {
			return nil
		}
		if err := t.readDay(ctx, reads[i], &d); err != nil {
			return err
		}
	}
}

// readDay reads the rows of one day.
func (t *timeSlice) readDay(ctx context.Context, read dayRead, d *rowDecoder) (err error) {
	session := t.batch.sel.session
	opts := storage.ReadOptions{Deletions: t.batch.view, Filter: storage.Filter{
		Families: t.batch.sel.kinds.families(), FromMs: keyschema.HourStartMs(read.fromHour),
		ToMs: keyschema.HourStartMs(read.toHour + 1), VersionsMax: 1,
	}}
	it := session.reader.opts.Data.ReadRows(ctx, storage.RowSet{Ranges: read.requested()}, opts)
	scan, samples := newScan(read.day, read.requested()), 0
	defer func() {
		session.countScan(scan, samples)
		if closeErr := it.Close(); closeErr != nil && err == nil {
			err = Classify("close read of rows", closeErr)
		}
	}()
	for at := 0; it.Next(); {
		if scan.Rows%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		stored := it.Row()
		scan.addRow(stored.Key)
		for at < len(read.ranges) && bytes.Compare(stored.Key, read.ranges[at].End) >= 0 {
			at++
		}
		if read.merged != nil && (at == len(read.ranges) || bytes.Compare(stored.Key, read.ranges[at].Start) < 0) {
			continue // the row is of a series or hour that did not exist when the series were selected
		}
		if at == len(read.ranges) {
			return Classify("read rows", fmt.Errorf("%w: row %q was not requested", storage.ErrCorrupt, stored.Key))
		}
		n, err := t.addRow(read.owners[at], stored, d)
		if err != nil {
			return err
		}
		samples += n
		if n > 0 {
			scan.Used++
		}
	}
	if err := it.Err(); err != nil {
		return Classify("read rows", err)
	}
	return nil
}

var errBadRowKey = errors.New("key is not the prefix of its series and an hour")

// addRow decodes a row into the worker's part. It returns the number of samples.
func (t *timeSlice) addRow(owner RowPrefix, stored storage.Row, d *rowDecoder) (int, error) {
	prefix, hour, ok := keyschema.CutHour(stored.Key)
	if !ok || !bytes.Equal(prefix, owner.Prefix) {
		return 0, Classify("read rows", fmt.Errorf("%w: row %q: %w", storage.ErrCorrupt, stored.Key, errBadRowKey))
	}
	at := t.rows.At(owner.Series, t.hoursOf(owner.Series), hour)
	if at < 0 {
		// The series did not have the hour when it was selected, so the row is newer than the query.
		return 0, nil
	}
	if t.rows.All[at].Found {
		return 0, nil // the row is in the cache, but lies between two rows that are not
	}
	d.row.Reset(keyschema.HourStartMs(hour))
	for _, cell := range stored.Cells {
		if t.records != nil && cell.Family != storage.FamilySamples {
			continue
		}
		if err := d.row.Add(cell.Qualifier, cell.Value); err != nil {
			return 0, Classify("read rows", fmt.Errorf("%w: row %q: %w", storage.ErrCorrupt, stored.Key, err))
		}
	}
	records := 0
	if t.records != nil {
		var err error
		if records, err = t.addRecords(at, hour, stored, d); err != nil {
			return 0, err
		}
	}
	var all column.Points
	all.TsMs, all.Values = d.row.Columns()
	properties := column.PropertiesOf(all)
	if d.cache != nil {
		d.cache.Put(owner.Series, hour, all, properties)
	}
	c := t.window.Clip(all)
	if err := t.batch.sel.session.reserve(len(c.TsMs)); err != nil {
		return 0, err
	}
	to := t.parts[d.part]
	t.rows.All[at] = column.Row{
		Part: int32(d.part), Start: int32(to.Len()), N: int32(len(c.TsMs)), Found: true, Properties: properties,
	}
	to.Append(c.TsMs, c.Values)
	return len(c.TsMs) + records, nil
}

// close releases the rows. join has passed on the memory that the batch needs.
func (t *timeSlice) close() {
	session := t.batch.sel.session
	for _, b := range t.parts {
		session.putBuffer(&session.reader.buffers, b)
	}
	if t.lookup != nil {
		t.lookup.Release()
	}
	session.budget.Release(t.recordsBytes.Swap(0))
	session.reader.columns.PutRows(t.rows)
	t.parts, t.lookup, t.rows = nil, nil, nil
}

// narrow restricts the series to the hours from first to last.
func (t *timeSlice) narrow(first, last int64) {
	series := t.batch.series
	t.hours = make([][]index.HourSpan, len(series))
	arena := make([]index.HourSpan, 0, len(series))
	for i := range series {
		start := len(arena)
		spans := series[i].Hours
		for _, s := range spans[hours.Search(spans, first):] {
			if s.First > last {
				break
			}
			arena = append(arena, index.HourSpan{First: max(s.First, first), Last: min(s.Last, last)})
		}
		t.hours[i] = arena[start:len(arena):len(arena)]
	}
}
