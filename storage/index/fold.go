package index

import (
	"context"
	"fmt"
	"time"

	"halite/keyschema"
	"halite/storage"
)

// A fold replaces a day's journal, and the segment it may have already, by a new segment. Its steps, each of which
// may be the last one before a crash:
//
//	1  the intent cell names the new generation
//	2  blocks and dictionaries are written under it, then synced
//	3  the root cell is switched to it, then synced: from here on the new segment is the day
//	4  memory lets go of the hours that the segment holds
//	5  cells of other generations and the journal's parts go, then the intent cell
//
// After a crash in 1 or 2 the old root and the journal are as they were; in 3 to 5 the root says which parts of the
// journal it contains. The intent cell makes the next Maintain sweep up what is left.

// foldDelay is how long after its end a day counts as open: most late samples come by then.
const foldDelay = time.Hour

// refoldEvery is the least time between two folds of one day: late samples trickle.
const refoldEvery = 30 * time.Minute

// Maintain folds the days that are closed, cleans up after interrupted folds, forgets days beyond retention and frees
// the memory of retired series. A day
// whose fold fails stays as it was; the others are folded all the same, and the first error is returned.
func (x *Index) Maintain(ctx context.Context) error {
	x.expire()
	var first error
	keep := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	for _, day := range x.uncleanDays() {
		keep(x.cleanDay(ctx, day))
	}
	for _, d := range x.open.all() {
		if err := ctx.Err(); err != nil {
			keep(err)
			break
		}
		if x.foldDue(d) {
			keep(x.foldOpen(ctx, d))
		}
	}
	x.maint.Lock()
	defer x.maint.Unlock()
	x.compactActive()
	return first
}

// dayEnded reports whether a day ended more than delay ago.
func (x *Index) dayEnded(day int64, delay time.Duration) bool {
	end := time.UnixMilli(keyschema.HourStartMs(firstHour(day + 1)))
	return !x.opts.Now().Before(end.Add(delay))
}

func (x *Index) foldDue(d *openDay) bool {
	x.maint.Lock()
	defer x.maint.Unlock()
	last, folded := x.foldedAt[d.day]
	return x.dayEnded(d.day, foldDelay) && (!folded || x.opts.Now().Sub(last) >= refoldEvery)
}

func (x *Index) foldOpen(ctx context.Context, d *openDay) (err error) {
	x.maint.Lock()
	defer x.maint.Unlock()
	defer func() {
		if err != nil {
			err = fmt.Errorf("index: fold day %d: %w", d.day, err)
			x.metrics.foldFailures.Inc()
		}
	}()
	if err := x.placeJournal(ctx, d); err != nil {
		return err
	}
	hours := d.snapshot()
	sources := []source{newActiveSource(x.cat, hours)}
	if c := x.closed.get(d.day); c != nil {
		s, err := x.segment(ctx, c)
		if err != nil {
			return err
		}
		sources = append(sources, closedSource{s})
	}
	// A part whose write was reported as failed may be in the table all the same, at seq; what it holds is in memory.
	return x.foldInto(ctx, d.day, sources, d.journal.seq+1, func() { x.open.release(d, hours) })
}

// foldInto writes a day's next generation from sources and switches to it. It contains the journal's parts below
// journalSeq. The caller holds maint; release is called once readers see the new segment.
func (x *Index) foldInto(
	ctx context.Context, day int64, sources []source, journalSeq uint32, release func(),
) error {
	start := time.Now() // a duration, not a time of the data
	gen, err := x.nextGeneration(ctx, day)
	if err != nil {
		return err
	}
	m, err := newMerge(ctx, sources)
	if err != nil {
		return err
	}
	if err := x.applyRootCell(ctx, day, qualIntent, appendIntent(newBlob(8), gen)); err != nil {
		return err
	}
	x.unclean[day] = true
	w := &dayWriter{x: x, day: day, gen: gen, m: m}
	r, err := w.write(ctx)
	if err != nil {
		return err
	}
	r.journalSeq = journalSeq
	if err := x.opts.Store.Sync(ctx); err != nil {
		return err
	}
	if err := x.applyRootCell(ctx, day, qualRoot, appendRoot(newBlob(1024), r)); err != nil {
		return err
	}
	if err := x.opts.Store.Sync(ctx); err != nil {
		// Whether the switch survives a crash is unknown, but both states are whole: go on with the new one.
		x.opts.Logger.Error("catalogue day switched but not synced", "day", day, "err", err)
	}
	x.closed.install(day, r)
	release()
	x.cache.dropDay(day)
	x.foldedAt[day] = x.opts.Now()
	x.metrics.folds.Inc()
	x.metrics.foldSeconds.Add(time.Since(start).Seconds())
	x.opts.Logger.Info("catalogue day folded", "day", day, "generation", gen, "series", r.series,
		"metrics", r.metrics, "blocks", len(r.blocks))
	return x.sweep(ctx, day)
}

func appendIntent(dst []byte, gen uint32) []byte {
	return append(dst, byte(gen>>24), byte(gen>>16), byte(gen>>8), byte(gen))
}

func parseIntent(payload []byte) (uint32, error) {
	if len(payload) != 4 {
		return 0, errTruncated
	}
	return uint32(payload[0])<<24 | uint32(payload[1])<<16 | uint32(payload[2])<<8 | uint32(payload[3]), nil
}

// applyRootCell seals and writes a cell of the day's root row.
func (x *Index) applyRootCell(ctx context.Context, day int64, kind byte, blob []byte) error {
	key, qualifier := rootKey(day), []byte{kind}
	return x.series.Apply(ctx, []storage.RowMutation{{Key: key, Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilyCatalogue, Qualifier: qualifier,
		TsMs: dayCellMs(day), Value: seal(blob, key, qualifier),
	}}}})
}

// nextGeneration is above every generation of which cells may exist.
func (x *Index) nextGeneration(ctx context.Context, day int64) (uint32, error) {
	cells, err := readCells(ctx, x.series, dayCellMs(day), [][]byte{rootKey(day)}, nil, nil)
	if err != nil {
		return 0, err
	}
	gen := uint32(0)
	for _, c := range cells {
		payload, err := unseal(c.value, c.key, c.qualifier)
		var of uint32
		switch {
		case err != nil || len(c.qualifier) == 0:
		case c.qualifier[0] == qualRoot:
			var r *root
			if r, err = parseRoot(payload); err == nil {
				of = r.gen
			}
		case c.qualifier[0] == qualIntent:
			of, err = parseIntent(payload)
		}
		if err != nil { // unreadable: ask the cells themselves
			of, err = x.newestGeneration(ctx, day)
			if err != nil {
				return 0, err
			}
		}
		gen = max(gen, of)
	}
	return gen + 1, nil
}

// newestGeneration looks through the day's cells.
func (x *Index) newestGeneration(ctx context.Context, day int64) (uint32, error) {
	newest := uint32(0)
	for _, t := range []storage.Table{x.series, x.labels} {
		err := eachDayCell(ctx, t, day, func(_, qualifier []byte) error {
			if gen, ok := qualifierGen(qualifier); ok {
				newest = max(newest, gen)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return newest, nil
}

// dayFilter passes the places of a day's cells.
func dayFilter(day int64) storage.Filter {
	return storage.Filter{FromMs: dayCellMs(day), ToMs: dayCellMs(day) + 1, KeysOnly: true}
}

// eachDayCell calls fn with the place of each cell of a day; the slices are valid during the call only.
func eachDayCell(ctx context.Context, t storage.Table, day int64, fn func(key, qualifier []byte) error) error {
	it := t.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{Filter: dayFilter(day)})
	defer func() { _ = it.Close() }()
	for it.Next() {
		row := it.Row()
		for _, c := range row.Cells {
			if err := fn(row.Key, c.Qualifier); err != nil {
				return err
			}
		}
	}
	return it.Err()
}

// sweep removes a day's cells of other generations than the root's, the journal's parts that the root contains, and the
// intent. The caller holds maint.
func (x *Index) sweep(ctx context.Context, day int64) error {
	keep, journalSeq := uint32(0), uint32(0)
	if c := x.closed.get(day); c != nil {
		r, err := x.root(ctx, c)
		if err != nil {
			return err
		}
		keep, journalSeq = r.gen, r.journalSeq
	}
	for _, t := range []storage.Table{x.series, x.labels} {
		d := deleter{ctx: ctx, table: t}
		err := eachDayCell(ctx, t, day, func(key, qualifier []byte) error {
			if gen, ok := qualifierGen(qualifier); ok && gen != keep {
				return d.cell(key, qualifier)
			}
			if kind, _, seq, err := parseSpecial(key); err == nil && kind == qualPart && seq < journalSeq {
				return d.cell(key, qualifier)
			}
			return nil
		})
		if err == nil {
			err = d.flush()
		}
		if err != nil {
			return err
		}
	}
	if err := x.opts.Store.Sync(ctx); err != nil { // the intent must not go before what it stands for
		return err
	}
	d := deleter{ctx: ctx, table: x.series}
	if err := d.cell(rootKey(day), []byte{qualIntent}); err != nil {
		return err
	}
	if err := d.flush(); err != nil {
		return err
	}
	delete(x.unclean, day)
	return nil
}

// deleter gathers deletions of cells. Readers hold no iterator over what it deletes, except the one that calls it,
// which sees the table as it was.
type deleter struct {
	ctx   context.Context
	table storage.Table
	muts  []storage.RowMutation
	count int
}

func (d *deleter) cell(key, qualifier []byte) error {
	k := len(d.muts) - 1
	if k < 0 || string(d.muts[k].Key) != string(key) {
		d.muts = append(d.muts, storage.RowMutation{Key: append([]byte(nil), key...)})
		k++
	}
	d.muts[k].Entries = append(d.muts[k].Entries, storage.Entry{
		Kind: storage.DeleteCells, Family: storage.FamilyCatalogue, Qualifier: append([]byte(nil), qualifier...),
	})
	if d.count++; d.count < 4096 {
		return nil
	}
	return d.flush()
}

func (d *deleter) flush() error {
	if len(d.muts) == 0 {
		return nil
	}
	err := d.table.Apply(d.ctx, d.muts)
	d.muts, d.count = nil, 0
	return err
}

func (x *Index) uncleanDays() []int64 {
	x.maint.Lock()
	defer x.maint.Unlock()
	var out []int64
	for day := range x.unclean {
		out = append(out, day)
	}
	return out
}

// cleanDay sweeps a day whose fold was interrupted.
func (x *Index) cleanDay(ctx context.Context, day int64) error {
	x.maint.Lock()
	defer x.maint.Unlock()
	if err := x.sweep(ctx, day); err != nil {
		return fmt.Errorf("index: clean up day %d: %w", day, err)
	}
	return nil
}

// oldestMs is the oldest time that is answered.
func (x *Index) oldestMs() int64 {
	if x.opts.Retention <= 0 {
		return 0
	}
	return max(0, x.opts.Now().Add(-x.opts.Retention).UnixMilli())
}

// expire forgets the days that ended before retention; the tables collect their cells by age.
func (x *Index) expire() {
	x.maint.Lock()
	defer x.maint.Unlock()
	x.expireLocked()
}

func (x *Index) expireLocked() {
	oldest := dayOf(keyschema.HourOf(x.oldestMs()))
	for _, d := range x.open.between(0, oldest-1) {
		x.open.forget(d.day)
	}
	for _, d := range x.closed.between(0, oldest-1) {
		x.closed.forget(d.day)
		x.cache.dropDay(d.day)
	}
	for day := range x.foldedAt {
		if day < oldest {
			delete(x.foldedAt, day)
		}
	}
	for day := range x.unclean {
		if day < oldest {
			delete(x.unclean, day)
		}
	}
}
