package index

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/lookup"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// restore reads which days and months have segments, and the journals.
func (x *Index) restore(ctx context.Context) error {
	x.maint.Lock()
	defer x.maint.Unlock()
	damaged, err := x.restoreAll(ctx)
	if errors.Is(err, storage.ErrCorrupt) {
		x.opts.Logger.Error("a block of the index is damaged, its days are restored one by one", "err", err)
		damaged, err = x.restoreByDay(ctx)
	}
	if err != nil {
		return err
	}
	for _, day := range damaged {
		err := x.repairJournal(ctx, day)
		if errors.Is(err, storage.ErrCorrupt) {
			err = x.restoreFromRows(ctx, day, err)
		}
		if err != nil {
			return fmt.Errorf("repair the journal of day %d: %w", day, err)
		}
	}
	return nil
}

// restoreAll restores all days by one read of the roots and one of the journals. It returns the days whose journals are damaged.
func (x *Index) restoreAll(ctx context.Context) (damaged []int64, err error) {
	if err := x.findPeriods(ctx, storage.Filter{VersionsMax: 1}); err != nil {
		return nil, err
	}
	x.expireLocked()
	return x.readJournals(ctx, specialRows(segment.JournalPrefix), storage.Filter{VersionsMax: 1})
}

// restoreByDay restores the index beside damaged blocks of its table: spans of days that can be read, and each other day
// from the rows. It returns the days whose journals are damaged.
func (x *Index) restoreByDay(ctx context.Context) (damaged []int64, err error) {
	x.open.Reset()
	x.store.Closed.Reset()
	x.unclean, x.begun, x.seen = map[presence.Partition]bool{}, map[presence.Partition]uint32{},
		seenParts{days: map[int64]*seenDay{}}
	return x.restoreSpan(ctx, presence.DayOf(keyschema.HourOf(lookup.OldestMs(x.opts.Now, x.opts.Retention))),
		presence.DayOf(keyschema.HourMax))
}

// restoreSpan restores the days from first to last.
func (x *Index) restoreSpan(ctx context.Context, first, last int64) (damaged []int64, err error) {
	from, to := keyschema.HourStartMs(presence.FirstHour(first)), keyschema.HourStartMs(presence.FirstHour(last+1))
	filter := storage.Filter{FromMs: from, ToMs: to, VersionsMax: 1}
	err = x.probeSpan(ctx, filter) // a read that fails midway would leave something behind
	switch {
	case errors.Is(err, storage.ErrCorrupt) && first == last:
		return nil, x.restoreFromRows(ctx, first, err)
	case errors.Is(err, storage.ErrCorrupt):
		middle := first + (last-first)/2
		damaged, err = x.restoreSpan(ctx, first, middle)
		if err != nil {
			return nil, err
		}
		more, err := x.restoreSpan(ctx, middle+1, last)
		return append(damaged, more...), err
	case err != nil:
		return nil, err
	}
	if err := x.findPeriods(ctx, filter); err != nil {
		return nil, err
	}
	return x.readJournals(ctx, specialRows(segment.JournalPrefix), filter)
}

// probeSpan fails if the rows that restore reads cannot be read.
func (x *Index) probeSpan(ctx context.Context, filter storage.Filter) error {
	var rows storage.RowSet
	for _, prefix := range []string{segment.ManifestPrefix, segment.MonthManifestPrefix, segment.JournalPrefix} {
		rows.Ranges = append(rows.Ranges, specialRows(prefix).Ranges...)
	}
	it := x.store.SeriesTable.ReadRows(ctx, rows, storage.ReadOptions{Filter: filter})
	defer func() { _ = it.Close() }()
	for it.Next() {
	}
	return it.Err()
}

// restoreFromRows makes a day, whose index cannot be read for cause, from the rows. It stays an open day in memory until the
// damaged file is gone. If the rows cannot be read either, look-ups of the day fail.
func (x *Index) restoreFromRows(ctx context.Context, day int64, cause error) error {
	x.forgetPeriods(day)
	seq := x.farSeq()
	d := x.open.Get(day)
	if d != nil {
		d.Journal = memory.JournalState{Known: true, First: seq, Seq: seq}
		d.MarkUnwritten()
	}
	s, err := x.scanAll(ctx, day, true)
	if errors.Is(err, storage.ErrCorrupt) {
		x.opts.Logger.Error("index and rows of a day are damaged, look-ups of the day fail", "day", day, "err", cause)
		x.store.Closed.Ensure(presence.DayPartition(day)).Fail(cause)
		return nil
	}
	if err != nil {
		return err
	}
	if d == nil && s.active.SeriesCount() == 0 {
		return nil
	}
	x.opts.Logger.Error("index of a day is damaged, the day is made from the keys of its rows", "day", day, "err", cause)
	x.metrics.repairs.Inc()
	x.open.Day(day).Journal = memory.JournalState{Known: true, First: seq, Seq: seq}
	return x.takeIn(s)
}

// forgetPeriods forgets the segments whose roots lie beside those of a day.
func (x *Index) forgetPeriods(day int64) {
	for _, p := range []presence.Partition{presence.DayPartition(day), presence.MonthOf(day)} {
		if p.LastDay() == day {
			x.store.Closed.Forget(p)
			delete(x.unclean, p)
		}
	}
}

// findPeriods lists the days and months with a root or an intent that the filter admits, and the generations that the roots
// name.
func (x *Index) findPeriods(ctx context.Context, filter storage.Filter) error {
	rows := specialRows(segment.ManifestPrefix)
	rows.Ranges = append(rows.Ranges, specialRows(segment.MonthManifestPrefix).Ranges...)
	it := x.store.SeriesTable.ReadRows(ctx, rows, storage.ReadOptions{Filter: filter})
	defer func() { _ = it.Close() }()
	for it.Next() {
		row := it.Row()
		kind, p, _, err := segment.ParseKey(row.Key)
		if err != nil || kind != segment.QualManifest {
			return envelope.Corrupt(storage.TableSeries, row.Key, nil, segment.ErrBadKey)
		}
		for _, c := range row.Cells {
			switch string(c.Qualifier) {
			case string(rune(segment.QualManifest)):
				f := x.store.Closed.Ensure(p)
				if payload, format, err := envelope.OpenUpTo(envelope.FormatV3, c.Value, row.Key, c.Qualifier); err == nil {
					gen, _ := segment.ManifestGeneration(payload) // what is damaged shows up when it is needed
					f.Gen.Store(gen)
					f.Dropped.Store(format == envelope.FormatV3)
				}
			case string(rune(segment.QualIntent)):
				x.unclean[p] = true
			default:
				x.foundReservation(p, row.Key, c)
			}
		}
	}
	return it.Err()
}

func specialRows(prefix string) storage.RowSet {
	end := []byte(prefix)
	end[len(end)-1]++
	return storage.RowSet{Ranges: []storage.RowRange{{Start: []byte(prefix), End: end}}}
}

// readJournals takes the parts that the filter admits and no segment contains into memory. It returns the days whose journals
// are damaged.
func (x *Index) readJournals(ctx context.Context, rows storage.RowSet, filter storage.Filter) (damaged []int64, err error) {
	it := x.store.SeriesTable.ReadRows(ctx, rows, storage.ReadOptions{Filter: filter})
	defer func() { _ = it.Close() }()
	var r dayRestorer
	packer := &partPacker{}
	defer packer.close()
	for it.Next() {
		row := it.Row()
		kind, of, seq, err := segment.ParseKey(row.Key)
		if err != nil || kind != segment.QualPart && kind != segment.KindWriterPart {
			return nil, envelope.Corrupt(storage.TableSeries, row.Key, nil, segment.ErrBadKey)
		}
		day := of.FirstDay()
		if kind == segment.KindWriterPart {
			if !x.takePart(row, day, seq, packer) && !slices.Contains(damaged, day) {
				damaged = append(damaged, day)
			}
			continue
		}
		x.seen.exclusive(day)
		if r.day == nil || r.day.Day != day {
			if r, err = x.dayRestorer(ctx, day); err != nil {
				return nil, err
			}
			r.packer = packer
		}
		if seq < r.fromSeq {
			x.unclean[of] = true // contained in the segment, left over
			continue
		}
		if err := r.add(row, seq); err != nil && !slices.Contains(damaged, day) {
			x.opts.Logger.Error("index journal is damaged, the day is made anew from the data rows", "err", err)
			x.metrics.repairs.Inc()
			damaged = append(damaged, day)
		}
		if x.open.Get(day) == nil {
			x.open.Put(r.day)
		}
	}
	x.seen.settle()
	return damaged, it.Err()
}

// dayRestorer takes the parts of one day's journal.
type dayRestorer struct {
	x       *Index
	day     *memory.OpenDay
	fromSeq uint32
	reader  journalReader
	packer  *partPacker
	broken  bool
	// plain leaves out the numbers of journal rows: the part is one of several writers.
	plain bool
	// unsure marks the hours: a segment of the day may supersede the part.
	unsure bool
}

func (x *Index) dayRestorer(ctx context.Context, day int64) (dayRestorer, error) {
	r := dayRestorer{x: x, day: memory.NewOpenDay(day), reader: journalReader{active: x.active}}
	r.day.Journal.Known = true
	if c := x.store.Closed.Day(day); c != nil {
		root, err := x.store.Manifest(ctx, c)
		switch {
		case errors.Is(err, storage.ErrCorrupt):
			// Reads of the day fail until it is rebuilt. Which parts the segment contains is unknown: take all of them.
			x.opts.Logger.Error("index day is damaged, reads of it fail until it is rebuilt", "day", day, "err", err)
		case err != nil:
			return r, err
		default:
			r.fromSeq = root.JournalSeq
		}
	}
	return r, nil
}

// add takes in a part; after a damaged one the rest cannot be understood.
func (r *dayRestorer) add(row storage.Row, seq uint32) error {
	if r.day.Journal.Seq == 0 {
		r.day.Journal.First = seq
	}
	r.day.Journal.Seq = seq + 1
	if r.broken {
		return nil
	}
	err := r.take(row)
	if err == nil {
		r.day.Journal.Rows = uint32(len(r.reader.rows))
		return nil
	}
	r.broken = true
	return err
}

func (r *dayRestorer) take(row storage.Row) error {
	i := slices.IndexFunc(row.Cells, func(c storage.Cell) bool { return string(c.Qualifier) == string(rune(segment.QualPart)) })
	if i < 0 {
		return envelope.Corrupt(storage.TableSeries, row.Key, []byte{segment.QualPart}, envelope.ErrMissing)
	}
	stored, format, err := envelope.OpenUpTo(envelope.FormatV2, row.Cells[i].Value, row.Key, []byte{segment.QualPart})
	var payload []byte
	if err == nil {
		payload, err = r.packer.payload(stored, format)
	}
	if err != nil {
		return envelope.Corrupt(storage.TableSeries, row.Key, []byte{segment.QualPart}, err)
	}
	p, err := parsePart(payload)
	if err == nil && r.plain && p.base != 0 {
		err = errPartGap
	}
	if err == nil {
		err = r.reader.add(p, presence.FirstHour(r.day.Day), func(ref memory.Ref, row, hours uint32) {
			if r.plain {
				row = 0
			} else {
				row++
			}
			r.day.Restore(ref, row, hours, r.unsure)
			r.x.active.RaiseLastHour(ref, lastTouched(r.day.Day, hours))
		})
	}
	if err != nil {
		return envelope.Corrupt(storage.TableSeries, row.Key, []byte{segment.QualPart}, err)
	}
	return nil
}

// repairJournal joins what the data rows say with what could be read, and writes a journal that takes the place of the
// damaged one. If that is interrupted the damaged part is still there and the next Open repairs again.
func (x *Index) repairJournal(ctx context.Context, day int64) error {
	d := x.open.Day(day)
	s, err := x.scanData(ctx, day, true)
	if err != nil {
		return err
	}
	if err := x.takeIn(s); err != nil {
		return err
	}
	d.MarkUnwritten()
	end := d.Journal.Seq
	d.Journal = memory.JournalState{Known: true, First: end, Seq: end}
	if err := x.persistDay(ctx, d); err != nil {
		return err
	}
	if err := x.opts.Store.Sync(ctx); err != nil {
		return err
	}
	if err := x.deleteParts(ctx, d.Parts); err != nil {
		return err
	}
	d.Parts = nil
	return x.deleteJournal(ctx, day, end)
}

// deleteJournal removes the parts below seq.
func (x *Index) deleteJournal(ctx context.Context, day int64, seq uint32) error {
	it := x.store.SeriesTable.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{
		Start: segment.JournalKey(day, 0), End: segment.JournalKey(day, seq),
	}}}, storage.ReadOptions{Filter: placeFilter(presence.DayPartition(day))})
	defer func() { _ = it.Close() }()
	d := deleter{ctx: ctx, table: x.store.SeriesTable}
	for it.Next() {
		row := it.Row()
		for _, c := range row.Cells {
			if err := d.cell(row.Key, c.Qualifier); err != nil {
				return err
			}
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	return d.flush()
}

// lastTouched is the last of a day's hours.
func lastTouched(day int64, hours uint32) int64 {
	return min(presence.FirstHour(day)+int64(max(1, bits.Len32(hours)))-1, keyschema.HourMax)
}
