package index

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/compaction"
	"halite/storage/index/envelope"
	"halite/storage/index/lookup"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// A compaction replaces a day's journal, and the segment it may have already, by a new segment; a month's has no journal. Its
// steps, each of which may be the last one before a crash:
//
//	1  the intent cell names the new generation
//	2  blocks and dictionaries are written under it, then synced
//	3  the root cell is switched to it, then synced: from here on the new segment is the day
//	4  memory lets go of the hours that the segment holds
//	5  cells of other generations and the journal's parts go, then the intent cell
//
// After a crash in 1 or 2 the old root and the journal are as they were; in 3 to 5 the root says which parts of the
// journal it contains. The intent cell makes the next Maintain sweep up what is left.

// compactionDelay is how long after its end a day counts as open: most late samples come by then.
const compactionDelay = time.Hour

// recompactEvery is the least time between two compactions of one day: late samples trickle.
const recompactEvery = 30 * time.Minute

// Maintain compacts the days that are closed, and these into months, cleans up after interrupted compactions, forgets days beyond
// retention and frees the memory of retired series. A day whose compaction fails stays as it was; the others are compacted all
// the same, and the first error is returned.
func (x *Index) Maintain(ctx context.Context) error {
	x.expire()
	if x.shared() {
		x.maint.Lock()
		defer x.maint.Unlock()
		x.active.FreeRetired()
		return nil
	}
	var first error
	keep := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	for _, p := range x.uncleanPeriods() {
		keep(x.clean(ctx, p))
	}
	for _, d := range x.open.All() {
		if err := ctx.Err(); err != nil {
			keep(err)
			break
		}
		if x.compactionDue(d) {
			keep(x.compactOpen(ctx, d))
		}
	}
	keep(x.compactMonths(ctx))
	x.maint.Lock()
	defer x.maint.Unlock()
	x.active.FreeRetired()
	return first
}

// dayEnded reports whether a day ended more than delay ago.
func (x *Index) dayEnded(day int64, delay time.Duration) bool {
	end := time.UnixMilli(keyschema.HourStartMs(presence.FirstHour(day + 1)))
	return !x.opts.Now().Before(end.Add(delay))
}

func (x *Index) compactionDue(d *memory.OpenDay) bool {
	x.maint.Lock()
	defer x.maint.Unlock()
	last, compacted := x.compactedAt[presence.DayPartition(d.Day)]
	return x.dayEnded(d.Day, compactionDelay) && (!compacted || x.opts.Now().Sub(last) >= recompactEvery)
}

func (x *Index) compactOpen(ctx context.Context, d *memory.OpenDay) (err error) {
	x.maint.Lock()
	defer x.maint.Unlock()
	former, err := x.formerSegment(ctx, d.Day)
	if err != nil {
		return fmt.Errorf("index: compact day %d: %w", d.Day, err)
	}
	return x.compactOpenWith(ctx, d, former)
}

// compactOpenWith compacts a day and what its former segment holds. The caller holds maint.
func (x *Index) compactOpenWith(ctx context.Context, d *memory.OpenDay, former []compaction.Source) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("index: compact day %d: %w", d.Day, err)
			x.metrics.compactionFailures.Inc()
		}
	}()
	if err := x.placeJournal(ctx, d); err != nil {
		return err
	}
	hours := d.Snapshot()
	sources := []compaction.Source{compaction.NewActiveSource(x.active, hours)}
	sources = append(sources, former...)
	// A part whose write was reported as failed may be in the table all the same, at seq; what it holds is in memory.
	contains, parts := contents{journalSeq: d.Journal.Seq + 1}, d.Parts
	if err := x.compactInto(ctx, presence.DayPartition(d.Day), sources, contains, func() { x.open.Release(d, hours) }); err != nil {
		return err
	}
	return x.deleteParts(ctx, parts)
}

// formerSegment is the segment of a day as a source of its next one, none if it has none. A month that holds more of the
// day than that forgets it.
func (x *Index) formerSegment(ctx context.Context, day int64) ([]compaction.Source, error) {
	c := x.store.Closed.Day(day)
	if c == nil {
		return nil, x.forgetInMonth(ctx, presence.DayPartition(day))
	}
	s, err := x.store.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	if len(s.Manifest.Dropped) > 0 {
		if err := x.forgetInMonth(ctx, presence.DayPartition(day)); err != nil {
			return nil, err
		}
	}
	src, err := compaction.NewDaySource(ctx, s)
	return []compaction.Source{src}, err
}

// contents is what a root says of where its segment came from: the journal's parts below journalSeq, or, in a month,
// the generations of its days.
type contents struct {
	journalSeq uint32
	days       []segment.DayVersion
}

// compactInto writes a period's next generation from sources and switches to it. The caller holds maint; release is called
// once readers see the new segment.
func (x *Index) compactInto(
	ctx context.Context, p presence.Partition, sources []compaction.Source, contains contents, release func(),
) error {
	start := time.Now() // a duration, not a time of the data
	m, err := compaction.NewMerge(ctx, p, sources)
	if err != nil {
		return err
	}
	gen, err := x.begin(ctx, p)
	if err != nil {
		return err
	}
	x.unclean[p] = true
	r, err := x.store.Write(ctx, p, gen, m.Content())
	if err != nil {
		return err
	}
	r.JournalSeq, r.Days = contains.journalSeq, contains.days
	if err := x.opts.Store.Sync(ctx); err != nil {
		return err
	}
	if err := x.switchRoot(ctx, p, r); err != nil {
		return err
	}
	if err := x.opts.Store.Sync(ctx); err != nil {
		// Whether the switch survives a crash is unknown, but both states are whole: go on with the new one.
		x.opts.Logger.Error("index period switched but not synced", "period", p.String(), "err", err)
	}
	x.store.Closed.Install(p, r)
	release()
	x.store.Cache.Drop(p)
	x.compactedAt[p] = x.opts.Now()
	if p.IsMonth() {
		x.metrics.monthCompactions.Inc()
	} else {
		x.metrics.compactions.Inc()
	}
	x.metrics.compactionSeconds.Add(time.Since(start).Seconds())
	x.opts.Logger.Info("index compacted", "period", p.String(), "generation", gen, "series", r.Series,
		"metrics", r.Metrics, "blocks", len(r.Blocks))
	return x.sweep(ctx, p)
}

func appendIntent(dst []byte, gen uint32) []byte {
	return append(dst, byte(gen>>24), byte(gen>>16), byte(gen>>8), byte(gen))
}

func parseIntent(payload []byte) (uint32, error) {
	if len(payload) != 4 {
		return 0, envelope.ErrTruncated
	}
	return uint32(payload[0])<<24 | uint32(payload[1])<<16 | uint32(payload[2])<<8 | uint32(payload[3]), nil
}

// begin returns the number of the period's next generation after it has left word of it. The caller holds maint.
func (x *Index) begin(ctx context.Context, p presence.Partition) (uint32, error) {
	if x.shared() {
		gen, reserved := x.reserved[p]
		delete(x.reserved, p)
		if reserved {
			return gen, nil
		}
		return x.reserve(ctx, p)
	}
	gen, err := x.nextGeneration(ctx, p)
	if err != nil {
		return 0, err
	}
	intent := rootCell(p, []byte{segment.QualIntent}, appendIntent(envelope.New(envelope.FormatV1, 8), gen))
	return gen, x.store.SeriesTable.Apply(ctx,
		[]storage.RowMutation{{Key: segment.ManifestKey(p), Entries: []storage.Entry{intent}}})
}

// switchRoot makes a generation the period's.
func (x *Index) switchRoot(ctx context.Context, p presence.Partition, r *segment.Manifest) error {
	cell := rootCell(p, []byte{segment.QualManifest}, segment.EncodeManifest(r))
	if x.shared() {
		return x.switchReserved(ctx, p, r.Gen, cell)
	}
	// What several writers may have left there once is not this root's.
	void := storage.Entry{Kind: storage.DeleteCells, Family: storage.FamilyIndex, Qualifier: []byte{segment.QualGen}}
	return x.store.SeriesTable.Apply(ctx, []storage.RowMutation{{Key: segment.ManifestKey(p), Entries: []storage.Entry{cell, void}}})
}

// rootCell is a sealed cell of the period's root row.
func rootCell(p presence.Partition, qualifier, blob []byte) storage.Entry {
	return storage.Entry{
		Kind: storage.SetCell, Family: storage.FamilyIndex, Qualifier: qualifier,
		TsMs: p.CellMs(), Value: envelope.Seal(blob, segment.ManifestKey(p), qualifier),
	}
}

// nextGeneration is above every generation of which cells may exist.
func (x *Index) nextGeneration(ctx context.Context, p presence.Partition) (uint32, error) {
	cells, err := segment.ReadCells(ctx, x.store.SeriesTable, p.CellMs(), [][]byte{segment.ManifestKey(p)}, nil, nil)
	if err != nil {
		return 0, err
	}
	gen, err := x.generationInMonth(ctx, p)
	if err == nil && len(cells) == 0 { // the period is new, or its root was lost and its other cells are still there
		var left uint32
		left, err = x.newestGeneration(ctx, p)
		gen = max(gen, left)
	}
	if err != nil {
		return 0, err
	}
	for _, c := range cells {
		payload, _, err := envelope.OpenUpTo(envelope.FormatV3, c.Value, c.Key, c.Qualifier)
		var of uint32
		switch {
		case err != nil || len(c.Qualifier) == 0:
		case c.Qualifier[0] == segment.QualManifest:
			of, err = segment.ManifestGeneration(payload)
		case isReservation(c.Qualifier):
			of = reservedGen(c.Qualifier)
		case c.Qualifier[0] == segment.QualIntent:
			of, err = parseIntent(payload)
		}
		if err != nil { // unreadable: ask the cells themselves
			of, err = x.newestGeneration(ctx, p)
			if err != nil {
				return 0, err
			}
		}
		gen = max(gen, of)
	}
	return gen + 1, nil
}

// generationInMonth is the generation of a day that its month contains, 0 if none: a number that a month knows must not
// be given to other contents, not even after the day's root was lost.
func (x *Index) generationInMonth(ctx context.Context, p presence.Partition) (uint32, error) {
	if p.IsMonth() {
		return 0, nil
	}
	of := presence.MonthOf(p.FirstDay())
	m := x.store.Closed.Month(of)
	if m == nil {
		return 0, nil
	}
	r, err := x.store.Manifest(ctx, m)
	if errors.Is(err, storage.ErrCorrupt) {
		x.store.MarkBroken(m, err)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return r.Days[p.FirstDay()-of.FirstDay()].Gen, nil
}

// newestGeneration looks through the period's cells.
func (x *Index) newestGeneration(ctx context.Context, p presence.Partition) (uint32, error) {
	newest := uint32(0)
	for _, t := range []storage.Table{x.store.SeriesTable, x.store.LabelsTable} {
		err := eachCell(ctx, t, p, func(_, qualifier []byte) error {
			if gen, ok := segment.QualifierGen(qualifier); ok {
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

// placeFilter passes the places of a period's cells.
func placeFilter(p presence.Partition) storage.Filter {
	return storage.Filter{FromMs: p.CellMs(), ToMs: p.CellMs() + 1, KeysOnly: true}
}

// eachCell calls fn with the place of each cell of a period; the slices are valid during the call only.
func eachCell(ctx context.Context, t storage.Table, p presence.Partition, fn func(key, qualifier []byte) error) error {
	it := t.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{Filter: placeFilter(p)})
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

// sweep removes a period's cells of other generations than the root's, the journal's parts that the root contains, and the
// intent. The caller holds maint.
func (x *Index) sweep(ctx context.Context, p presence.Partition) error {
	keep, journalSeq := uint32(0), uint32(0)
	if c := x.store.Closed.Get(p); c != nil {
		r, err := x.store.Manifest(ctx, c)
		if err != nil {
			return err
		}
		keep, journalSeq = r.Gen, r.JournalSeq
	}
	var words [][]byte // of compactions begun, which go last
	for _, t := range []storage.Table{x.store.SeriesTable, x.store.LabelsTable} {
		d := deleter{ctx: ctx, table: t}
		err := eachCell(ctx, t, p, func(key, qualifier []byte) error {
			gen, ok := segment.QualifierGen(qualifier)
			switch kind, _, seq, err := segment.ParseKey(key); {
			case ok && gen != keep && (gen < keep || !x.shared()): // another server may be at work on a later one
				return d.cell(key, qualifier)
			case err == nil && kind == segment.QualPart && seq < journalSeq:
				return d.cell(key, qualifier)
			case err == nil && kind == segment.QualManifest && isReservation(qualifier):
				words = append(words, slices.Clone(qualifier))
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
	if x.shared() {
		return x.endReserved(ctx, p, keep)
	}
	d := deleter{ctx: ctx, table: x.store.SeriesTable}
	for _, qualifier := range append(words, []byte{segment.QualIntent}) {
		if err := d.cell(segment.ManifestKey(p), qualifier); err != nil {
			return err
		}
	}
	if err := d.flush(); err != nil {
		return err
	}
	delete(x.unclean, p)
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
		Kind: storage.DeleteCells, Family: storage.FamilyIndex, Qualifier: append([]byte(nil), qualifier...),
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

func (x *Index) uncleanPeriods() []presence.Partition {
	x.maint.Lock()
	defer x.maint.Unlock()
	return slices.Collect(maps.Keys(x.unclean))
}

// clean sweeps a period whose compaction was interrupted.
func (x *Index) clean(ctx context.Context, p presence.Partition) error {
	x.maint.Lock()
	defer x.maint.Unlock()
	if err := x.sweep(ctx, p); err != nil {
		return fmt.Errorf("index: clean up %v: %w", p, err)
	}
	return nil
}

// expire forgets the days that ended before retention; the tables collect their cells by age.
func (x *Index) expire() {
	x.maint.Lock()
	defer x.maint.Unlock()
	x.expireLocked()
}

func (x *Index) expireLocked() {
	oldest := presence.DayOf(keyschema.HourOf(lookup.OldestMs(x.opts.Now, x.opts.Retention)))
	for _, d := range x.open.Between(0, oldest-1) {
		x.open.Forget(d.Day)
	}
	for _, d := range append(x.store.Closed.DaysBetween(0, oldest-1), x.store.Closed.AllMonths()...) {
		if d.Of.LastDay() < oldest {
			x.store.Closed.Forget(d.Of)
			x.store.Cache.Drop(d.Of)
		}
	}
	for p := range x.compactedAt {
		if p.LastDay() < oldest {
			delete(x.compactedAt, p)
		}
	}
	for p := range x.damaged {
		if p.LastDay() < oldest {
			delete(x.damaged, p)
		}
	}
	x.metrics.damagedDays.Set(float64(len(x.damaged)))
	maps.DeleteFunc(x.seen.days, func(day int64, _ *seenDay) bool { return day < oldest })
	for p := range x.unclean {
		if p.LastDay() < oldest {
			delete(x.unclean, p)
		}
	}
}
