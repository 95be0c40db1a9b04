package index

import (
	"context"
	"fmt"
	"slices"
	"time"

	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// Several processes may share an index. What a day's journal holds is then a set of facts (this series has samples in
// these hours) to which each process adds parts that stand for themselves, under its own name; nothing is ever numbered
// across parts. Facts may be told twice and in any order. They leave the journal only after they are in a segment, which
// one process at a time sees to (Compact); the others notice by the generation in the root row (Refresh).

// NewWriter returns a random name for Options.Writer.
func NewWriter() string { return segment.NewWriter() }

func (x *Index) shared() bool { return x.opts.Writer != "" }

// nextPartKey is the row of this process's next part of a day. A number is used once, whatever becomes of its write: a
// write that failed may yet take effect. The caller holds maint.
func (x *Index) nextPartKey(day int64) []byte {
	seq := x.written[day]
	x.written[day]++
	return segment.WriterPartKey(day, x.opts.Writer, seq)
}

// IsPersisted reports whether the index's tables hold that the series has samples in the hour. A false may be out of date;
// MarkActive and Persist make it true, unless the day was compacted meanwhile.
func (x *Index) IsPersisted(ref memory.Ref, hour int64) bool {
	d := x.open.Get(presence.DayOf(hour))
	return d != nil && d.IsPersisted(ref, presence.HourBit(hour))
}

// takePart takes a part with a writer into memory. It returns false if the part is damaged; its key is among the day's
// parts then. The caller holds maint.
func (x *Index) takePart(row storage.Row, day int64, seq uint32, packer *partPacker) (ok bool) {
	d := x.open.Day(day)
	x.seen.add(day, segment.ParseWriter(row.Key), seq)
	err := x.readPart(d, row, packer)
	if err != nil {
		x.opts.Logger.Error("index journal is damaged, the day is made anew from the data rows", "err", err)
		x.metrics.repairs.Inc()
	}
	if err != nil || x.collecting {
		d.Parts = append(d.Parts, slices.Clone(row.Key))
	}
	return err == nil
}

// readPart adds the facts of a part to a day.
func (x *Index) readPart(d *memory.OpenDay, row storage.Row, packer *partPacker) error {
	r := dayRestorer{x: x, day: d, reader: journalReader{active: x.active}, packer: packer, plain: true}
	r.unsure = x.store.Closed.Day(d.Day) != nil
	return r.take(row)
}

// deleteParts removes journal rows.
func (x *Index) deleteParts(ctx context.Context, keys [][]byte) error {
	d := deleter{ctx: ctx, table: x.store.SeriesTable}
	for _, key := range keys {
		if err := d.cell(key, []byte{segment.QualPart}); err != nil {
			return err
		}
	}
	return d.flush()
}

// Refresh takes in what other processes have written since the last call: series and hours become visible, and days that
// were compacted are read from their segments. Without Options.Writer there are no others and it does nothing.
func (x *Index) Refresh(ctx context.Context) error {
	if !x.shared() {
		return nil
	}
	x.refreshMu.Lock()
	defer x.refreshMu.Unlock()
	changed, damaged, err := x.look(ctx)
	for _, p := range changed {
		if err != nil {
			break
		}
		err = x.follow(ctx, p)
	}
	for _, day := range damaged {
		if err == nil {
			err = x.repairShared(ctx, day)
		}
	}
	if err != nil {
		return fmt.Errorf("index: look for what other servers have written: %w", err)
	}
	return nil
}

// look reads the parts that were not seen yet and lists the periods with another generation than the one known. Roots
// come before parts in the table, so that a part that has gone into a newer generation is missed at most until the next
// look, which sees the generation.
func (x *Index) look(ctx context.Context) (changed []presence.Partition, damaged []int64, err error) {
	ranges := append(specialRows(segment.ManifestPrefix).Ranges, specialRows(segment.MonthManifestPrefix).Ranges...)
	x.maint.Lock()
	ranges = append(ranges, x.seen.unseen()...)
	x.maint.Unlock()
	it := x.store.SeriesTable.ReadRows(ctx, storage.RowSet{Ranges: ranges}, storage.ReadOptions{Filter: storage.Filter{
		QualifierStart: []byte{segment.QualGen}, QualifierEnd: []byte{segment.QualPart + 1}, VersionsMax: 1,
	}})
	defer func() { _ = it.Close() }() // Err is asked
	packer := &partPacker{}
	defer packer.close()
	for it.Next() {
		row := it.Row()
		kind, p, seq, err := segment.ParseKey(row.Key)
		switch {
		case err != nil:
			return changed, damaged, envelope.Corrupt(storage.TableSeries, row.Key, nil, err)
		case kind == segment.QualManifest && x.isNews(p, row):
			changed = append(changed, p)
		case kind == segment.KindWriterPart:
			x.maint.Lock()
			ok := x.takePart(row, p.FirstDay(), seq, packer)
			x.maint.Unlock()
			if !ok && !slices.Contains(damaged, p.FirstDay()) {
				damaged = append(damaged, p.FirstDay())
			}
		}
	}
	x.maint.Lock()
	x.seen.settle()
	x.maint.Unlock()
	return changed, damaged, it.Err()
}

// isNews reports whether a root row names another generation than the one in use, or one that could not be followed.
func (x *Index) isNews(p presence.Partition, row storage.Row) bool {
	if _, behind := x.behind[p]; behind {
		return true
	}
	for _, c := range row.Cells {
		if string(c.Qualifier) != string(rune(segment.QualGen)) {
			continue
		}
		payload, err := envelope.Open(c.Value, row.Key, c.Qualifier)
		if err != nil {
			return true
		}
		gen, err := parseIntent(payload)
		known := x.store.Closed.Get(p)
		return err != nil || known == nil || known.Gen.Load() != gen
	}
	return false
}

// followTriesMax bounds how often follow reads a day again because it was compacted meanwhile; compactions are minutes apart.
const followTriesMax = 3

// follow makes a period's new segment visible and lets go of the hours in memory that are in it.
func (x *Index) follow(ctx context.Context, p presence.Partition) (err error) {
	x.maint.Lock()
	defer x.maint.Unlock()
	x.behind[p] = struct{}{}
	defer func() {
		if err == nil {
			delete(x.behind, p)
		}
	}()
	for range followTriesMax {
		r, err := x.store.ReadManifest(ctx, p)
		if err != nil {
			return err
		}
		x.store.Closed.Install(p, r)
		x.store.Cache.Drop(p)
		if p.IsMonth() {
			return nil
		}
		// The day is its segment and the parts that are left. A part that was removed before it could be read here is in the
		// segment if that is still the same afterwards.
		left, damaged, err := x.readLeft(ctx, p.FirstDay())
		if err == nil && damaged {
			err = x.repairJournal(ctx, p.FirstDay())
		}
		if err != nil {
			return err
		}
		again, err := x.store.ReadManifest(ctx, p)
		if err != nil {
			return err
		}
		if again.Gen == r.Gen {
			if d := x.open.Get(p.FirstDay()); d != nil {
				x.open.KeepJournal(d, left)
			}
			return nil
		}
	}
	return nil // what memory holds besides is right; the next look lets go of it
}

// readLeft reads all parts with a writer that a day has, into memory and into a day of its own.
func (x *Index) readLeft(ctx context.Context, day int64) (left *memory.OpenDay, damaged bool, err error) {
	left = memory.NewOpenDay(day)
	prefix := segment.AppendDay([]byte(segment.JournalPrefix), day)
	prefix = append(prefix, '#', segment.WriterMark)
	it := x.store.SeriesTable.ReadRows(ctx, specialRows(string(prefix)), storage.ReadOptions{Filter: storage.Filter{VersionsMax: 1}})
	defer func() { _ = it.Close() }() // Err is asked
	packer := &partPacker{}
	defer packer.close()
	for it.Next() {
		row := it.Row()
		_, _, seq, err := segment.ParseKey(row.Key)
		if err != nil {
			return nil, false, envelope.Corrupt(storage.TableSeries, row.Key, nil, err)
		}
		if !x.takePart(row, day, seq, packer) {
			damaged = true
			continue
		}
		if err := x.readPart(left, row, packer); err != nil {
			return nil, false, err
		}
	}
	return left, damaged, it.Err()
}

// repairShared makes a day with a damaged part anew from the data rows. Others may do the same.
func (x *Index) repairShared(ctx context.Context, day int64) error {
	x.maint.Lock()
	defer x.maint.Unlock()
	return x.repairJournal(ctx, day)
}

// replacedTimeout bounds the look at a root that replaced takes.
const replacedTimeout = 10 * time.Second

// replaced tells a reader who misses a cell whether another process has compacted the period meanwhile.
func (x *Index) replaced(f *segment.Handle, gen uint32) bool {
	if !x.shared() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), replacedTimeout)
	defer cancel()
	r, err := x.store.ReadManifest(ctx, f.Of)
	if err != nil || r.Gen == gen {
		return false
	}
	f.Manifest.Store(r) // the generation in use stays, so that Refresh lets go of what memory holds besides
	return true
}
