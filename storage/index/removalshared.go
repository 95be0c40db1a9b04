package index

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/storage"
	"halite/storage/index/compaction"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// removeTriesMax bounds how often a day is written anew because another process began a compaction of it meanwhile.
const removeTriesMax = 8

// removeHoursShared is RemoveHours in an index that several processes write. The others see the result at their next Refresh.
// Hours that are announced again meanwhile stay: a writer of such an hour announces it again once its samples are stored
// (Reannounce).
//
// A process that announces another hour of the same day before its next Refresh brings a removed hour back, without samples.
func (x *Index) removeHoursShared(ctx context.Context, r HourRemoval) error {
	x.compactMu.Lock()
	defer x.compactMu.Unlock()
	f := x.collector()
	err := f.eachKnownDay(ctx, r.First, r.Last, func(day int64) error {
		if len(r.Matchers(day)) == 0 {
			return nil
		}
		err := errFenced
		again := func() bool { return errors.Is(err, errFenced) || errors.Is(err, segment.ErrStale) }
		for n := 0; again() && n < removeTriesMax; n++ {
			err = f.removeDay(ctx, day, r)
		}
		if again() {
			err = fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("index: remove hours: %w", err)
	}
	return nil
}

// FenceShared sees to it that nothing is removed any more by a RemoveHours that began before, of hours from first to last, in
// whatever process: it fails, or asks Held.
func (x *Index) FenceShared(ctx context.Context, first, last int64) error {
	x.compactMu.Lock()
	defer x.compactMu.Unlock()
	f := x.collector()
	err := f.eachKnownDay(ctx, first, last, func(day int64) error {
		_, err := f.reserve(ctx, presence.DayPartition(day))
		return err
	})
	if err != nil {
		return fmt.Errorf("index: take days away from others: %w", err)
	}
	return nil
}

// collector is an index of its own over the same tables, which notes the parts that it reads.
func (x *Index) collector() *Index {
	f := newIndex(x.opts, x.metrics)
	f.store.SeriesTable, f.store.LabelsTable, f.store.Layout = x.store.SeriesTable, x.store.LabelsTable, x.store.Layout
	f.meta = x.meta
	f.collecting = true
	return f
}

// eachKnownDay calls fn with the days of hours from first to last of which the tables know something.
func (x *Index) eachKnownDay(ctx context.Context, first, last int64, fn func(day int64) error) error {
	days, err := x.findDays(ctx)
	if err != nil {
		return err
	}
	for _, c := range x.store.Closed.DaysBetween(presence.DayOf(first), presence.DayOf(last)) {
		days = append(days, c.Of.FirstDay())
	}
	slices.Sort(days)
	for _, day := range slices.Compact(days) {
		if day < presence.DayOf(first) || day > presence.DayOf(last) {
			continue
		}
		if err := fn(day); err != nil {
			return fmt.Errorf("day %d: %w", day, err)
		}
	}
	return nil
}

// removeDay rewrites a day's segment from its journal and its former segment if they have hours without samples.
func (x *Index) removeDay(ctx context.Context, day int64, r HourRemoval) error {
	x.maint.Lock()
	defer x.maint.Unlock()
	defer x.open.Forget(day)
	// Most days of a long span have none of the series: they are looked at before they are fenced.
	var gen uint32
	for fenced := false; ; fenced = true {
		contains, err := x.readDay(ctx, day)
		if err != nil {
			return err
		}
		lost, err := x.emptyHours(ctx, day, r)
		if err != nil || len(lost) == 0 {
			return err
		}
		if fenced {
			x.reserved[presence.DayPartition(day)] = gen
			return x.removeFrom(ctx, day, r.Matchers(day), lost, contains)
		}
		if gen, err = x.reserve(ctx, presence.DayPartition(day)); err != nil {
			return err
		}
		if r.Held != nil {
			if err := r.Held(ctx); err != nil {
				return err
			}
		}
	}
}

// readDay reads all that is known of a day.
func (x *Index) readDay(ctx context.Context, day int64) (contains contents, err error) {
	x.open.Forget(day)
	if _, contains, err = x.formerDay(ctx, presence.DayPartition(day)); err != nil {
		return contains, err
	}
	rows := specialRows(string(append(segment.AppendDay([]byte(segment.JournalPrefix), day), '#')))
	damaged, err := x.readJournals(ctx, rows, storage.Filter{VersionsMax: 1})
	if err == nil && len(damaged) > 0 {
		err = fmt.Errorf("%w: the day's journal is damaged; the next server that reads it repairs it", storage.ErrCorrupt)
	}
	if d := x.open.Get(day); d != nil {
		contains.journalSeq = max(contains.journalSeq, d.Journal.Seq)
	}
	return contains, err
}

func (x *Index) removeFrom(
	ctx context.Context, day int64, matchers [][]*labels.Matcher, lost map[string]uint32, contains contents,
) error {
	p := presence.DayPartition(day)
	defer delete(x.reserved, p)
	sources, err := x.formerWithout(ctx, day, matchers, lost)
	if err != nil {
		return err
	}
	var parts [][]byte
	if d := x.open.Get(day); d != nil {
		parts, sources = d.Parts, append([]compaction.Source{compaction.NewActiveSource(x.active, d.Snapshot())}, sources...)
	}
	if err := x.compactInto(ctx, p, sources, contains, func() {}); err != nil {
		return err
	}
	if err := x.deleteParts(ctx, parts); err != nil {
		return err
	}
	return x.fenceMonth(ctx, p)
}

// fenceMonth takes the month of a day away from whoever compacts it at this moment, perhaps with the day as it was, and voids it
// if that has happened already.
func (x *Index) fenceMonth(ctx context.Context, day presence.Partition) error {
	month := presence.MonthOf(day.FirstDay())
	gen, err := x.reserve(ctx, month)
	if err != nil {
		return err
	}
	value, err := segment.ReadCell(ctx, x.store.SeriesTable, month.CellMs(), segment.ManifestKey(month),
		[]byte{segment.QualManifest})
	if err != nil || value == nil {
		return err
	}
	r, err := x.store.ReadManifest(ctx, month)
	if err != nil {
		return err
	}
	x.store.Closed.Install(month, r)
	if of := r.Days[day.FirstDay()-month.FirstDay()].Gen; of == 0 || of == x.store.Closed.Get(day).Gen.Load() {
		return nil
	}
	x.reserved[month] = gen
	defer delete(x.reserved, month)
	return x.voidMonth(ctx, month)
}

// reserveMonth takes the number of a month's next generation, and fails if what it is to be made of has changed by then: from
// now on whoever takes something out of a day fences the month.
func (x *Index) reserveMonth(ctx context.Context, month presence.Partition, former *segment.Segment,
	due []*segment.Handle) error {
	gen, err := x.reserve(ctx, month)
	if err != nil {
		return err
	}
	value, err := segment.ReadCell(ctx, x.store.SeriesTable, month.CellMs(), segment.ManifestKey(month),
		[]byte{segment.QualManifest})
	if err != nil {
		return err
	}
	if value != nil && former != nil {
		if r, err := x.store.ReadManifest(ctx, month); err != nil || r.Gen != former.Manifest.Gen {
			return errors.Join(err, errFenced)
		}
	}
	for _, d := range due {
		if r, err := x.store.ReadManifest(ctx, d.Of); err != nil || r.Gen != d.Gen.Load() {
			return errors.Join(err, errFenced)
		}
	}
	x.reserved[month] = gen
	return nil
}

// Reannounce has the next Persist tell of the hour once more, whether it was told before or not.
func (x *Index) Reannounce(ref memory.Ref, hour int64) {
	if !presence.ValidHour(hour) || !x.active.Knows(ref) {
		return
	}
	for told := false; !told; { // the day may be compacted in between
		x.MarkActive(ref, hour)
		told = x.open.Reannounce(ref, hour)
	}
}
