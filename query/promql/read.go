package promql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/storage"
	"halite/storage/index"
)

// batchReader reads one batch: what the head has, then the rows, each decoded somewhere in a part; join puts them in
// order.
type batchReader struct {
	*reader
	window window
	first  int // number of the first series in the selection
	series []index.Series

	head     *buffer
	headEnds []int // end of each series' samples in head; nil if it has none at all

	prefixes []rowPrefix // of all row keys, sorted
	cache    *rowCache   // nil if it is not to be used
	merges   bool        // see Selection
	// condition is nil if nothing is known of the series between those of the batch.
	condition *condition
	epoch     uint64 // of the table when the series were selected
	// deletions are as of the moment at which the head was read.
	deletions deletions
}

// piece is a span of time of a batch.
type piece struct {
	*batchReader
	window window
	hours  [][]index.HourSpan // of each series; nil if they are all of its hours

	parts   []*buffer // that of the cache, if it is used; one a worker
	slots   []slot    // one for each series and hour, series after series, hours ascending
	bases   []int     // first slot of each series, and the end
	scratch *pieceScratch
	columns []Column // of the batch, those that are lent already made; nil if there are none
	loan    *loan

	wanted [][]index.HourSpan // hours of each series that are not in the cache; nil if it is not used
	epochs hourEpochs         // for the cache, of whole days
	// days are the blocks that may be kept, from firstDay on; found tells, series by series, which were.
	days     []dayBlocks
	firstDay int64
	found    []uint8
}

// hoursOf are the hours of a series within the piece.
func (p *piece) hoursOf(series int) []index.HourSpan {
	if p.hours == nil {
		return p.series[series].Hours
	}
	return p.hours[series]
}

// slot says where the samples of one row are; n is 0 while there are none. It is known once the row was found.
type slot struct {
	part, start, n int32
	known          bool
	traits         traits
}

// readHead copies the unflushed samples of all series, and notes what was deleted at that moment.
func (rd *batchReader) readHead(ctx context.Context) error {
	return rd.deletions.during(rd.opts.Tombstones, func() error { return rd.copyHead(ctx) })
}

func (rd *batchReader) copyHead(ctx context.Context) error {
	rd.head = rd.heads.get(0)
	if !rd.opts.Head.Holds(rd.window.mintMs, rd.window.maxtMs) {
		return nil // as if all series had been asked in vain right now
	}
	rd.headEnds = make([]int, len(rd.series))
	for i, s := range rd.series {
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if s.Ref != 0 {
			tsMs, values, err := rd.opts.Head.AppendSamples(
				s.Ref, rd.window.mintMs, rd.window.maxtMs, rd.head.tsMs, rd.head.values)
			if err != nil {
				return storageError("read head", err)
			}
			tsMs, values = keepHours(s.Hours, rd.head.len(), tsMs, values)
			if err := rd.charge(len(tsMs) - rd.head.len()); err != nil {
				return err
			}
			rd.head.tsMs, rd.head.values = tsMs, values
		}
		rd.headEnds[i] = rd.head.len()
	}
	rd.figures.samples.Add(int64(rd.head.len()))
	return nil
}

// keepHours leaves out the samples, from the given one on, of hours in which the series was not selected. They came
// after the query had begun, and older ones that came in between may be flushed already: they would be seen without them.
func keepHours(hours []index.HourSpan, from int, tsMs []int64, values []float64) ([]int64, []float64) {
	span, kept := 0, from
	for i := from; i < len(tsMs); i++ {
		hour := keyschema.HourOf(tsMs[i])
		for span < len(hours) && hours[span].Last < hour {
			span++
		}
		if span == len(hours) {
			break
		}
		if hours[span].First <= hour {
			tsMs[kept], values[kept] = tsMs[i], values[i]
			kept++
		}
	}
	return tsMs[:kept], values[:kept]
}

func (rd *batchReader) charge(samples int) error { return rd.budget.Take(int64(samples) * sampleBytes) }

// readTable reads the rows of all series, days side by side as far as Concurrency allows.
func (p *piece) readTable(ctx context.Context) error {
	p.scratch = p.pools.piece()
	p.scratch.bases = cleared(p.scratch.bases, len(p.series)+1)
	p.bases = p.scratch.bases
	for i := range p.series {
		p.bases[i+1] = p.bases[i] + rowCount(p.hoursOf(i))
	}
	p.scratch.slots = cleared(p.scratch.slots, p.bases[len(p.series)])
	p.slots = p.scratch.slots
	if p.cache != nil {
		if err := p.fromCache(ctx); err != nil {
			return err
		}
	}
	if p.wanted != nil && !slices.ContainsFunc(p.wanted, func(h []index.HourSpan) bool { return len(h) > 0 }) {
		return nil
	}
	if err := p.readRows(ctx); err != nil {
		return err
	}
	if p.wanted != nil {
		p.keepMissing()
	}
	return nil
}

// readRows reads the rows that are wanted.
func (p *piece) readRows(ctx context.Context) error {
	reads := p.plan()
	if len(reads) == 0 {
		return nil
	}
	if err := p.coalesce(ctx, reads); err != nil {
		return err
	}
	workers := min(p.opts.Concurrency, len(reads))
	first := len(p.parts)
	for range workers {
		p.parts = append(p.parts, p.buffers.get(0))
	}
	if workers < 2 {
		return p.work(ctx, first, reads, new(atomic.Int64))
	}
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for i := range workers {
		group.Go(func() error { return p.work(ctx, first+i, reads, &next) })
	}
	return group.Wait()
}

// rowReader is what a worker decodes rows with.
type rowReader struct {
	row  chunk.Row
	keep rowCacheUser
}

// work takes reads one after another until none is left and decodes their rows into its part.
func (p *piece) work(ctx context.Context, part int, reads []dayRead, next *atomic.Int64) error {
	with := rowReader{keep: rowCacheUser{rowCache: p.cache, epochs: p.epochs}}
	for {
		i := int(next.Add(1)) - 1
		if i >= len(reads) {
			return nil
		}
		if err := p.readDay(ctx, part, reads[i], &with); err != nil {
			return err
		}
	}
}

// readDay reads the rows of one day.
func (p *piece) readDay(ctx context.Context, part int, read dayRead, with *rowReader) (err error) {
	ctx = p.deletions.context(ctx)
	it := p.opts.Data.ReadRows(ctx, storage.RowSet{Ranges: read.asked()}, storage.ReadOptions{Filter: storage.Filter{
		Families: []string{storage.FamilySamples}, FromMs: keyschema.HourStartMs(read.fromHour),
		ToMs: keyschema.HourStartMs(read.toHour + 1), VersionsMax: 1,
	}})
	rows, used, samples := 0, 0, 0
	scan := beginScan(&read)
	defer func() {
		scan.Used = used
		p.figures.scans.add(scan.end())
		p.figures.ranges.Add(int64(scan.Ranges))
		p.figures.rows.Add(int64(rows))
		p.figures.rowsUsed.Add(int64(used))
		p.figures.samples.Add(int64(samples))
		p.metrics.rows.Add(float64(rows))
		p.metrics.samples.Add(float64(samples))
		if closeErr := it.Close(); closeErr != nil && err == nil {
			err = storageError("close read of rows", closeErr)
		}
	}()
	for at := 0; it.Next(); rows++ {
		if rows%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		stored := it.Row()
		scan.row(stored.Key)
		for at < len(read.ranges) && bytes.Compare(stored.Key, read.ranges[at].End) >= 0 {
			at++
		}
		if read.merged != nil && (at == len(read.ranges) || bytes.Compare(stored.Key, read.ranges[at].Start) < 0) {
			continue // of a series, or an hour, that was not there when the series were selected
		}
		if at == len(read.ranges) {
			return storageError("read rows", fmt.Errorf("%w: row %q was not asked for", storage.ErrCorrupt, stored.Key))
		}
		n, err := p.addRow(part, read.owners[at], stored, with)
		if err != nil {
			return err
		}
		samples += n
		if n > 0 {
			used++
		}
	}
	if err := it.Err(); err != nil {
		return storageError("read rows", err)
	}
	return nil
}

// addRow decodes a row into a part and notes where. It returns the number of samples.
func (p *piece) addRow(part int, owner rowPrefix, stored storage.Row, with *rowReader) (int, error) {
	hour, err := hourOf(stored.Key, owner.prefix)
	if err != nil {
		return 0, storageError("read rows", fmt.Errorf("%w: row %q: %w", storage.ErrCorrupt, stored.Key, err))
	}
	at := p.slotOf(owner.series, hour)
	if at < 0 {
		// The hour was not the series' when it was selected: whatever it has now came later than the query.
		return 0, nil
	}
	if p.slots[at].known {
		return 0, nil // it lies between two that were not in the cache
	}
	row := &with.row
	row.Reset(keyschema.HourStartMs(hour))
	for _, cell := range stored.Cells {
		if err := row.Add(cell.Qualifier, cell.Value); err != nil {
			return 0, storageError("read rows", fmt.Errorf("%w: row %q: %w", storage.ErrCorrupt, stored.Key, err))
		}
	}
	var all columns
	all.tsMs, all.values = row.Columns()
	traits := traitsOf(all)
	if p.cache != nil && !p.keptTogether(hour) {
		with.keep.keep(&p.series[owner.series], hour, all, traits)
	}
	c := p.window.clip(all)
	tsMs, values := c.tsMs, c.values
	if err := p.charge(len(tsMs)); err != nil {
		return 0, err
	}
	to := p.parts[part]
	p.slots[at] = slot{part: int32(part), start: int32(to.len()), n: int32(len(tsMs)), known: true, traits: traits}
	to.append(tsMs, values)
	return len(tsMs), nil
}

var errBadRowHour = errors.New("key does not end in an hour")

// hourOf reads the reversed hour behind the prefix of a row key.
func hourOf(key, prefix []byte) (int64, error) {
	if bytes.HasPrefix(key, prefix) {
		if hour, ok := keyschema.ParseHour(key[len(prefix):]); ok {
			return hour, nil
		}
	}
	return 0, errBadRowHour
}

// slotOf is the slot of a series' hour, -1 if the series was not selected for that hour.
func (p *piece) slotOf(series int, hour int64) int {
	at := p.bases[series]
	for _, span := range p.hoursOf(series) {
		if hour < span.First {
			return -1
		}
		if hour <= span.Last {
			return at + int(hour-span.First)
		}
		at += int(span.Last - span.First + 1)
	}
	return -1
}

// close gives back what was read of the table; what join has passed on is charged apart.
func (p *piece) close() {
	for _, b := range p.parts {
		p.giveBack(&p.buffers, b)
	}
	p.parts = nil
	if p.columns != nil {
		p.repay(p.loan)
		p.pools.putColumns(p.columns)
		p.columns, p.loan = nil, nil
	}
	if p.scratch != nil {
		p.pools.putPiece(p.scratch)
		p.scratch, p.slots, p.bases, p.wanted, p.found = nil, nil, nil, nil, nil
	}
}

// close gives back what was read of the head.
func (rd *batchReader) close() {
	rd.giveBack(&rd.heads, rd.head)
	rd.head = nil
	rd.deletions.release()
}

// giveBack ends the use of a buffer whose samples are charged.
func (r *reader) giveBack(to *bufferPool, b *buffer) {
	if b != nil {
		r.budget.Release(int64(b.len()) * sampleBytes)
		to.put(b)
	}
}
