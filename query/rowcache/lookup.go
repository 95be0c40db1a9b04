package rowcache

import (
	"context"
	"slices"

	"halite/keyschema"
	"halite/query/budget"
	"halite/query/column"
	"halite/query/hours"
	"halite/storage/index"
)

// Request describes the rows that a query reads.
type Request struct {
	Series []index.Series
	// Hours are the hours to read of each series; nil means Series[i].Hours.
	Hours [][]index.HourSpan
	// Range bounds the samples.
	Range column.TimeRange
	// Version is the value of Cache.Version before the series were selected.
	Version uint64
	NowMs   int64
	// Sparse says that the query reads only some hours of the range. Then the cache takes no blocks of hours.
	Sparse bool
	// OldestHour returns the first hour of a series whose rows are all selected. Retention may hide older rows.
	OldestHour func(series int) int64
	// Head returns the samples of a series that the head has within the range. If they are in one hour, the first and the
	// last series suffice. The result is valid until the next call.
	Head func(series int) column.Points
	// Steps is the number of values that the query computes for each series. Latest says that it needs only the last sample of a
	// series. Both decide what Find prefetches.
	Steps  int
	Latest bool
	// Pin allows columns whose samples stay in the memory of the cache. Merge also caches rows that were found one by one as one
	// entry.
	Pin, Merge bool

	Rows    *column.Rows // filled by Find
	Buffers *column.BufferPool
	Columns *column.Pool
	Budget  *budget.Budget
}

// Lookup finds the rows of a request in the cache. Later it puts rows into the cache. A Lookup belongs to one goroutine.
// Each of its Writers also belongs to one goroutine.
type Lookup struct {
	Request
	cache    *Cache
	keys     keyMaker
	versions hourVersions // of whole days
	// days are the blocks of hours that may be cached, from firstDay on. foundBlocks has bits for the blocks found, by series and
	// day.
	days        []dayBlocks
	firstDay    int64
	foundBlocks []uint8
	missing     [][]index.HourSpan // of each series

	part    *column.Buffer  // samples that were copied
	columns []column.Column // columns of pinned samples are complete; nil if nothing may be pinned
	pins    *Pins

	// The following fields are about the current series.
	series int
	number uint64 // the beginning of the keys of the series
	known  bool   // the series has a number
	wanted []index.HourSpan

	hits     []hit
	samples  int // of all hits
	merging  merging
	prefetch prefetch

	rowsFound, rowsTried int
}

// Lookup begins a look-up and takes the versions of the hours, so that it finds no row that is written later. The caller
// releases it.
func (c *Cache) Lookup(r Request) *Lookup {
	l, ok := c.lookups.Get().(*Lookup)
	if !ok {
		l = new(Lookup)
	}
	*l = Lookup{
		Request: r, cache: c, keys: keyMaker{cache: c, buf: l.keys.buf}, foundBlocks: l.foundBlocks, missing: l.missing,
		hits: l.hits[:0], merging: merging{list: l.merging.list[:0]},
	}
	first, last := l.hourBounds()
	if last >= 0 {
		l.firstDay = first / keyschema.DayHours
		l.versions = c.watch.versionsOf(
			l.firstDay*keyschema.DayHours, last-last%keyschema.DayHours+keyschema.DayHours-1)
		l.days = l.dayBlocksOf(first, last)
	}
	l.foundBlocks = column.Cleared(l.foundBlocks, len(l.Series)*len(l.days))
	l.missing = column.Cleared(l.missing, len(l.Series))
	return l
}

// Release ends the look-up. It frees memory and pins that nothing has taken.
func (l *Lookup) Release() {
	l.pins.Release(l.Budget)
	if l.columns != nil {
		l.Columns.PutColumns(l.columns)
	}
	if l.part != nil {
		l.Budget.Release(int64(l.part.Len()) * column.SampleBytes)
		l.Buffers.Put(l.part)
	}
	cache := l.cache
	clear(l.missing)
	l.Request, l.columns, l.pins, l.part, l.wanted, l.days, l.versions = Request{}, nil, nil, nil, nil, nil, hourVersions{}
	if cap(l.hits) <= pooledMax {
		cache.lookups.Put(l)
	}
}

// pooledMax is the number of hits up to which the memory of a look-up is reused.
const pooledMax = 1 << 16

// Find looks all rows up. It copies their samples into the part, or pins them. Call it once.
func (l *Lookup) Find(ctx context.Context) error {
	defer func() { l.cache.count(l.rowsFound, l.rowsTried) }()
	if l.Pin {
		l.columns, l.pins = l.Columns.Columns(len(l.Series)), l.cache.NewPins()
		if l.Merge {
			l.merging.nowHour, l.merging.on, l.merging.found = keyschema.HourOf(l.NowMs), true, true
		}
	}
	err := l.findAll(ctx)
	l.putMerged()
	return err
}

func (l *Lookup) findAll(ctx context.Context) error {
	l.cache.table.mu.RLock()
	defer l.cache.table.mu.RUnlock()
	l.hits = slices.Grow(l.hits, len(l.Rows.All))
	for i := range l.Series {
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if i%prefetchSeries == 0 {
			l.prefetchSlots(i, min(i+prefetchSeries, len(l.Series)))
		}
		l.missing[i] = l.findRows(i)
	}
	l.part = l.Buffers.Get(l.samples)
	return l.readHits(l.part)
}

// Missing returns the hours of a series that the caller reads from the table.
func (l *Lookup) Missing(series int) []index.HourSpan { return l.missing[series] }

// AnyMissing reports whether the caller has to read the table.
func (l *Lookup) AnyMissing() bool {
	return slices.ContainsFunc(l.missing, func(h []index.HourSpan) bool { return len(h) > 0 })
}

// Found returns the numbers of rows and samples that were found.
func (l *Lookup) Found() (rows, samples int) {
	if l.part == nil {
		return 0, 0
	}
	return l.rowsFound, l.part.Len() + l.pins.Samples()
}

// TakePart passes on the copied samples, as part 0 of the rows.
func (l *Lookup) TakePart() *column.Buffer {
	part := l.part
	l.part = nil
	return part
}

// TakeColumns returns the columns and their pins, and the caller then owns both. Both are nil without Request.Pin. Columns of
// pinned samples are complete, except that unfinished series lack their last samples. unfinished is ascending.
func (l *Lookup) TakeColumns() (columns []column.Column, pins *Pins, unfinished []int) {
	columns, pins = l.columns, l.pins
	l.columns, l.pins = nil, nil
	return columns, pins, pins.unfinishedSeries()
}

// hoursOf returns the hours to read of a series.
func (l *Lookup) hoursOf(series int) []index.HourSpan {
	if l.Hours == nil {
		return l.Series[series].Hours
	}
	return l.Hours[series]
}

// hourBounds returns the first and the last hour of all series. last is negative if the series have no hours.
func (l *Lookup) hourBounds() (first, last int64) {
	first, last = keyschema.HourMax, -1
	for i := range l.Series {
		if hours := l.hoursOf(i); len(hours) > 0 {
			first, last = min(first, hours[0].First), max(last, hours[len(hours)-1].Last)
		}
	}
	return first, last
}

func (l *Lookup) reserve(samples int) error {
	return l.Budget.Reserve(int64(samples) * column.SampleBytes)
}

// Writer puts rows into the cache. It belongs to one goroutine.
type Writer struct {
	lookup *Lookup
	keys   keyMaker
}

// Writer returns a writer of rows that the look-up has not found.
func (l *Lookup) Writer() *Writer { return &Writer{lookup: l, keys: keyMaker{cache: l.cache}} }

// Put caches a whole row, unless its hour becomes a part of a block.
func (w *Writer) Put(series int, hour int64, row column.Points, p column.Properties) {
	l := w.lookup
	if l.cachedInBlock(hour) {
		return
	}
	startMs := keyschema.HourStartMs(hour)
	if n := len(row.TsMs); n == 0 || row.TsMs[0] >= startMs && row.TsMs[n-1] < startMs+keyschema.HourMs {
		b := l.oneHour(hour)
		w.keys.put(&l.Series[series], &b, row, p)
	}
}

// PutMissing caches an empty row for each missing row that the table does not have either.
func (l *Lookup) PutMissing() {
	w := l.Writer()
	none := column.PropertiesOf(column.Points{})
	for i := range l.missing {
		for _, span := range l.missing[i] {
			for hour := span.First; hour <= span.Last; hour++ {
				if !l.Rows.All[l.Rows.At(i, l.hoursOf(i), hour)].Found {
					w.Put(i, hour, column.Points{}, none)
				}
			}
		}
	}
}

// PutBlocks caches the blocks of hours that were read as a whole. columns has the samples of all series.
func (l *Lookup) PutBlocks(columns []column.Column) {
	if !slices.ContainsFunc(l.days, func(d dayBlocks) bool {
		return slices.ContainsFunc(d.quarters[:], func(q block) bool { return q.cacheable() })
	}) {
		return
	}
	for i := range columns {
		if c := &columns[i]; len(c.Segments) == 0 && (c.TsMs != nil || c.Len() == 0) { // pinned samples are cached already
			l.putBlocksOf(i, column.Points{TsMs: c.TsMs, Values: c.Values}, l.Head(i))
		}
	}
}

// putBlocksOf caches the blocks of a series, given its samples.
func (l *Lookup) putBlocksOf(series int, c, head column.Points) {
	oldest := l.OldestHour(series)
	l.forEachNewBlock(series, func(d *dayBlocks, found uint8) bool {
		if d.day.firstHour >= oldest && d.day.cacheable() && l.putBlock(series, &d.day, c, head) {
			return true
		}
		for i := range d.quarters {
			if q := &d.quarters[i]; q.firstHour >= oldest && q.cacheable() && found&(quarterFound<<i) == 0 {
				l.putQuarter(series, q, c, head)
			}
		}
		return true
	})
}

// forEachNewBlock visits the days of a series that the look-up did not find as a whole, until visit returns false.
func (l *Lookup) forEachNewBlock(series int, visit func(d *dayBlocks, found uint8) bool) {
	spans := l.hoursOf(series)
	for n := range l.days {
		d, found := &l.days[n], l.foundBlocks[series*len(l.days)+n]
		if at := hours.Search(spans, d.day.firstHour); at == len(spans) || spans[at].First > d.day.lastHour() {
			continue
		}
		if found&dayFound == 0 && !visit(d, found) {
			return
		}
	}
}

// AnyToPut reports whether PutBlocks would cache a block of a series.
func (l *Lookup) AnyToPut(series int) (any bool) {
	l.forEachNewBlock(series, func(d *dayBlocks, found uint8) bool {
		any = d.day.cacheable()
		for i := range d.quarters {
			any = any || d.quarters[i].cacheable() && found&(quarterFound<<i) == 0
		}
		return !any
	})
	return any
}

// putBlock caches a block of a series, unless the head has some of its samples. It returns false if the block is too large.
func (l *Lookup) putBlock(series int, b *block, c, head column.Points) (ok bool) {
	rows, ok := b.clip(c, head)
	return !ok || l.keys.put(&l.Series[series], b, rows, column.PropertiesOf(rows))
}

// putQuarter caches a block, or its rows one by one if it is too large.
func (l *Lookup) putQuarter(series int, q *block, c, head column.Points) {
	if l.putBlock(series, q, c, head) {
		return
	}
	for hour := q.firstHour; hour <= q.lastHour(); hour++ {
		one := l.oneHour(hour)
		l.putBlock(series, &one, c, head)
	}
}

// clip returns the part of a column that lies in the block. ok is false if the head has some of its samples.
func (b *block) clip(c, head column.Points) (_ column.Points, ok bool) {
	r := hoursRange(index.HourSpan{First: b.firstHour, Last: b.lastHour()})
	if len(r.Clip(head).TsMs) > 0 {
		return column.Points{}, false
	}
	return r.Clip(c), true
}
