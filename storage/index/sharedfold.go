package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"halite/storage"
	"halite/storage/index/compaction"
	"halite/storage/index/envelope"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// A compaction among several processes is fenced on the root row, so that one that was thought to be gone does no harm: it
// reserves the number of its generation there, which takes the reservation away from whoever had one, then reads what it
// compacts, and the root is switched only if the reservation still stands. A number is never reserved twice, and cells of
// later generations than the root's are somebody's who is at work.

var errFenced = errors.New("another server has begun to compact the period")

// reserveTriesMax bounds how often reserve tries the next number.
const reserveTriesMax = 16

func isReservation(qualifier []byte) bool {
	return len(qualifier) == 5 && qualifier[0] == segment.QualIntent
}

func reservedGen(qualifier []byte) uint32 { return binary.BigEndian.Uint32(qualifier[1:5]) }

// exactly passes the cell of a period's root row with that qualifier.
func exactly(p presence.Partition, qualifier []byte) storage.Filter {
	return storage.Filter{
		QualifierStart: qualifier, QualifierEnd: append(slices.Clone(qualifier), 0), FromMs: p.CellMs(), ToMs: p.CellMs() + 1,
	}
}

// reserve takes the number of the period's next generation, and the reservation of any other process.
func (x *Index) reserve(ctx context.Context, p presence.Partition) (uint32, error) {
	for range reserveTriesMax {
		gen, err := x.nextGeneration(ctx, p)
		if err != nil {
			return 0, err
		}
		qualifier := segment.GenQualifier(segment.QualIntent, gen)
		cells, err := segment.ReadCells(ctx, x.store.SeriesTable, p.CellMs(), [][]byte{segment.ManifestKey(p)},
			[]byte{segment.QualIntent}, qualifier)
		if err != nil {
			return 0, err
		}
		take := storage.RowMutation{Entries: []storage.Entry{rootCell(p, qualifier,
			appendIntent(envelope.New(envelope.FormatV1, 8), gen))}}
		for _, c := range cells {
			take.Entries = append(take.Entries, storage.Entry{
				Kind: storage.DeleteCells, Family: storage.FamilyIndex, Qualifier: c.Qualifier,
			})
		}
		taken, err := x.store.SeriesTable.CheckAndApply(ctx, segment.ManifestKey(p), exactly(p, qualifier), storage.RowMutation{}, take)
		if err == nil && !taken {
			return gen, nil
		}
		// If the outcome is unknown the number may be ours or another's: take the next.
		if err != nil && !errors.Is(err, storage.ErrUnavailable) {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w: no generation could be reserved", storage.ErrUnavailable)
}

// switchReserved makes a reserved generation the period's, unless another process has reserved a later one.
func (x *Index) switchReserved(ctx context.Context, p presence.Partition, gen uint32, cell storage.Entry) error {
	word := rootCell(p, []byte{segment.QualGen}, appendIntent(envelope.New(envelope.FormatV1, 8), gen))
	held, err := x.store.SeriesTable.CheckAndApply(ctx, segment.ManifestKey(p),
		exactly(p, segment.GenQualifier(segment.QualIntent, gen)),
		storage.RowMutation{Entries: []storage.Entry{cell, word}}, storage.RowMutation{})
	if err == nil && !held {
		return errFenced
	}
	if errors.Is(err, storage.ErrUnavailable) { // it may have happened all the same
		if r, readErr := x.store.ReadManifest(ctx, p); readErr == nil && r.Gen == gen {
			return nil
		}
	}
	return err
}

// endReserved notes that nothing is left of generations before gen. The caller holds maint.
func (x *Index) endReserved(ctx context.Context, p presence.Partition, gen uint32) error {
	qualifier := segment.GenQualifier(segment.QualIntent, gen)
	_, err := x.store.SeriesTable.CheckAndApply(ctx, segment.ManifestKey(p), exactly(p, qualifier),
		storage.RowMutation{Entries: []storage.Entry{rootCell(p, qualifier,
			envelope.New(envelope.FormatV1, 0))}}, storage.RowMutation{})
	if err != nil {
		return err
	}
	delete(x.unclean, p)
	delete(x.begun, p)
	return nil
}

// foundReservation takes note of a reservation that was not ended.
func (x *Index) foundReservation(p presence.Partition, key []byte, c storage.Cell) {
	if !isReservation(c.Qualifier) {
		return
	}
	if payload, err := envelope.Open(c.Value, key, c.Qualifier); err != nil || len(payload) > 0 {
		x.begun[p] = reservedGen(c.Qualifier)
		x.unclean[p] = true
	}
}

// Compact compacts the days that are closed, and these into months, where several processes share the index. One process at
// a time should do it; if two do, one of them works in vain. It reads the tables into an Index of its own, so that nobody
// waits for it; this Index, like those of other processes, learns of the result by Refresh.
func (x *Index) Compact(ctx context.Context) error {
	if !x.shared() {
		return nil
	}
	x.compactMu.Lock()
	defer x.compactMu.Unlock()
	f := x.collector()
	f.compactedAt = x.compactedAtShared
	days, err := f.findDays(ctx)
	if err != nil {
		return fmt.Errorf("index: compact: %w", err)
	}
	var errs []error
	keep := func(err error) {
		if err != nil && !errors.Is(err, errFenced) {
			errs = append(errs, err)
		}
	}
	for p, gen := range maps.Clone(f.begun) {
		// Of a compaction that was broken off before its switch the next one of the period cleans up.
		if c := f.store.Closed.Get(p); c != nil && c.Gen.Load() == gen {
			keep(f.clean(ctx, p))
		}
	}
	for _, c := range f.store.Closed.DaysBetween(0, presence.DayMax) {
		if c.Dropped.Load() { // by a server that had the tables for itself
			days = append(days, c.Of.FirstDay())
		}
	}
	slices.Sort(days)
	for _, day := range slices.Compact(days) {
		if ctx.Err() == nil && f.compactionDue(memory.NewOpenDay(day)) {
			keep(f.compactShared(ctx, day))
		}
	}
	keep(f.compactMonths(ctx))
	return errors.Join(errs...)
}

// findDays reads which periods have segments, and lists the days with a journal.
func (x *Index) findDays(ctx context.Context) (days []int64, err error) {
	x.maint.Lock()
	defer x.maint.Unlock()
	if err := x.findPeriods(ctx, storage.Filter{VersionsMax: 1}); err != nil {
		return nil, err
	}
	x.expireLocked()
	it := x.store.SeriesTable.ReadRows(ctx, specialRows(segment.JournalPrefix),
		storage.ReadOptions{Filter: storage.Filter{KeysOnly: true}})
	defer func() { _ = it.Close() }() // Err is asked
	for it.Next() {
		key := it.Row().Key
		_, p, _, err := segment.ParseKey(key)
		if err != nil {
			return nil, envelope.Corrupt(storage.TableSeries, key, nil, err)
		}
		if k := len(days) - 1; k < 0 || days[k] != p.FirstDay() {
			days = append(days, p.FirstDay())
		}
	}
	return days, it.Err()
}

// compactShared compacts a day's journal and segment into a new segment.
func (x *Index) compactShared(ctx context.Context, day int64) (err error) {
	x.maint.Lock()
	defer x.maint.Unlock()
	p := presence.DayPartition(day)
	defer func() {
		if err != nil {
			err = fmt.Errorf("day %d: %w", day, err)
			x.metrics.compactionFailures.Inc()
		}
	}()
	gen, err := x.reserve(ctx, p)
	if err != nil {
		return err
	}
	x.reserved[p] = gen
	defer delete(x.reserved, p)
	// From here on nobody else switches the root: what is read now is what there is.
	sources, contains, err := x.formerDay(ctx, p)
	if err != nil {
		return err
	}
	rows := specialRows(string(append(segment.AppendDay([]byte(segment.JournalPrefix), day), '#')))
	damaged, err := x.readJournals(ctx, rows, storage.Filter{VersionsMax: 1})
	if err != nil {
		return err
	}
	if len(damaged) > 0 {
		return fmt.Errorf("%w: the day's journal is damaged; the next server that reads it repairs it", storage.ErrCorrupt)
	}
	d, c := x.open.Get(day), x.store.Closed.Day(day)
	dropped := c != nil && c.Dropped.Load()
	if d == nil && !dropped {
		if x.unclean[p] {
			return x.sweep(ctx, p) // the segment contains all of the journal
		}
		return nil
	}
	var parts [][]byte
	if d != nil {
		contains.journalSeq, parts = max(contains.journalSeq, d.Journal.Seq), d.Parts
		sources = append([]compaction.Source{compaction.NewActiveSource(x.active, d.Snapshot())}, sources...)
	}
	if dropped {
		if err := x.forgetInMonth(ctx, p); err != nil {
			return err
		}
	}
	if err := x.compactInto(ctx, p, sources, contains, func() { x.open.Forget(day) }); err != nil {
		return err
	}
	if dropped {
		if err := x.fenceMonth(ctx, p); err != nil {
			return err
		}
	}
	return x.deleteParts(ctx, parts)
}

// formerDay is the segment that a day has now, as a source of its next one.
func (x *Index) formerDay(ctx context.Context, p presence.Partition) (sources []compaction.Source, contains contents, err error) {
	value, err := segment.ReadCell(ctx, x.store.SeriesTable, p.CellMs(), segment.ManifestKey(p), []byte{segment.QualManifest})
	if err != nil {
		return nil, contains, err
	}
	if value == nil {
		x.store.Closed.Forget(p)
		return nil, contains, x.forgetInMonth(ctx, p)
	}
	r, err := x.store.ReadManifest(ctx, p)
	if err != nil {
		return nil, contains, err
	}
	x.store.Closed.Install(p, r)
	s, err := x.store.Open(ctx, x.store.Closed.Get(p))
	if err != nil {
		return nil, contains, err
	}
	src, err := compaction.NewDaySource(ctx, s)
	return []compaction.Source{src}, contents{journalSeq: r.JournalSeq}, err
}
