package compaction

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// A compaction gives a partition a new generation. It may stop after each step, as in a crash:
//
//	1  the intent cell names the new generation
//	2  blocks and dictionaries are written under it, then synced
//	3  the manifest cell is switched to it, then synced: from this point the new segment is the partition
//	4  memory drops the hours that the segment has
//	5  cells of other generations and the records of the journal are deleted, then the intent cell
//
// After a stop in 1 or 2, the previous manifest and the journal are unchanged. After a stop in 3 to 5, the manifest says
// which records the segment contains. The intent cell makes the next Compact delete the leftovers.
//
// If several processes share the tables, a reservation takes the place of the intent. A process reserves the number of its
// generation in the manifest's row, which removes the reservation of any other process. Then it reads its input, and switches
// the manifest only if its reservation is still there. So a slow process that seemed dead does no harm. No number is reserved
// twice. Cells of a generation above the manifest's belong to a running compaction.

// generationState is the state of a process about the generations of partitions, besides their manifests.
type generationState struct {
	compactedAt map[presence.Partition]time.Time // last compaction by this process
	unclean     map[presence.Partition]bool      // partitions with cells of an interrupted compaction
	begun       map[presence.Partition]uint32    // open reservations, perhaps by other processes
	reserved    map[presence.Partition]uint32    // reservations of this process that it has not used yet
	damaged     map[presence.Partition]damagedDay
}

// reset drops the results of FindPartitions.
func (s *generationState) reset() {
	s.unclean, s.begun = map[presence.Partition]bool{}, map[presence.Partition]uint32{}
}

// expire drops partitions that ended before the oldest day.
func (s *generationState) expire(oldest int64) {
	deleteOlder(s.compactedAt, oldest)
	deleteOlder(s.damaged, oldest)
	deleteOlder(s.unclean, oldest)
}

func deleteOlder[V any](m map[presence.Partition]V, oldest int64) {
	for p := range m {
		if p.LastDay() < oldest {
			delete(m, p)
		}
	}
}

// Inputs are the inputs of a segment: the journal's records below JournalSeq, or, in a month, the generations of days.
type Inputs struct {
	JournalSeq uint32
	Days       []segment.DayVersion
}

// Replace writes the next generation of a partition from sources and switches to it. It calls release, if not nil, once
// readers see the new segment. The caller holds the lock.
func (c *Compactor) Replace(
	ctx context.Context, p presence.Partition, sources []Source, inputs Inputs, release func(),
) error {
	start := time.Now() // a duration, not a time of the data
	merge, err := NewMerge(ctx, p, sources)
	if err != nil {
		return err
	}
	gen, err := c.begin(ctx, p)
	if err != nil {
		return err
	}
	c.state.unclean[p] = true
	m, err := c.store.Write(ctx, p, gen, merge.Content())
	if err != nil {
		return err
	}
	m.JournalSeq, m.Days = inputs.JournalSeq, inputs.Days
	if err := c.opts.Sync(ctx); err != nil {
		return err
	}
	if err := c.switchManifest(ctx, p, m); err != nil {
		return err
	}
	if err := c.opts.Sync(ctx); err != nil {
		// The switch may or may not survive a crash. Both states are complete, so continue with the new one.
		c.opts.Logger.Error("index partition was compacted but not synced", "partition", p.String(), "err", err)
	}
	c.store.Closed.Install(p, m)
	if release != nil {
		release()
	}
	c.store.Cache.Drop(p)
	c.state.compactedAt[p] = c.opts.Now()
	if p.IsMonth() {
		c.opts.Metrics.Months.Inc()
	} else {
		c.opts.Metrics.Days.Inc()
	}
	c.opts.Metrics.Seconds.Add(time.Since(start).Seconds())
	c.opts.Logger.Info("index compacted", "partition", p.String(), "generation", gen, "series", m.Series,
		"metrics", m.Metrics, "blocks", len(m.Blocks))
	return c.sweep(ctx, p)
}

// begin records the partition's next generation in the tables and returns its number.
func (c *Compactor) begin(ctx context.Context, p presence.Partition) (uint32, error) {
	if c.opts.Shared {
		gen, reserved := c.state.reserved[p]
		delete(c.state.reserved, p)
		if reserved {
			return gen, nil
		}
		return c.reserve(ctx, p)
	}
	gen, err := c.nextGeneration(ctx, p)
	if err != nil {
		return 0, err
	}
	return gen, c.store.SeriesTable.Apply(ctx, []storage.RowMutation{{
		Key: segment.ManifestKey(p), Entries: []storage.Entry{generationCell(p, []byte{segment.QualIntent}, gen)},
	}})
}

// switchManifest makes a generation current.
func (c *Compactor) switchManifest(ctx context.Context, p presence.Partition, m *segment.Manifest) error {
	cell := segment.ManifestCell(p, []byte{segment.QualManifest}, segment.EncodeManifest(m))
	if c.opts.Shared {
		return c.switchReserved(ctx, p, m.Gen, cell)
	}
	// A process with a writer name may have left a generation cell, which does not belong to this manifest.
	void := storage.Entry{Kind: storage.DeleteCells, Family: storage.FamilyIndex, Qualifier: []byte{segment.QualGen}}
	return c.store.SeriesTable.Apply(ctx, []storage.RowMutation{{Key: segment.ManifestKey(p), Entries: []storage.Entry{cell, void}}})
}

// generationCell is a cell of the manifest's row that holds a generation.
func generationCell(p presence.Partition, qualifier []byte, gen uint32) storage.Entry {
	return segment.ManifestCell(p, qualifier, binary.BigEndian.AppendUint32(envelope.New(envelope.FormatV1, 8), gen))
}

// ParseGeneration reads the payload of a generation cell.
func ParseGeneration(payload []byte) (uint32, error) {
	if len(payload) != 4 {
		return 0, envelope.ErrTruncated
	}
	return binary.BigEndian.Uint32(payload), nil
}

// nextGeneration returns a number above every generation that may have cells.
func (c *Compactor) nextGeneration(ctx context.Context, p presence.Partition) (uint32, error) {
	cells, err := segment.ReadCells(ctx, c.store.SeriesTable, p.CellMs(), [][]byte{segment.ManifestKey(p)}, nil, nil)
	if err != nil {
		return 0, err
	}
	gen, err := c.generationInMonth(ctx, p)
	if err != nil {
		return 0, err
	}
	if len(cells) == 0 { // the partition is new, or only its manifest was lost
		left, err := c.newestGeneration(ctx, p)
		if err != nil {
			return 0, err
		}
		gen = max(gen, left)
	}
	for _, cell := range cells {
		named, err := namedGeneration(cell)
		if err != nil { // unreadable: read the numbers from the cells
			if named, err = c.newestGeneration(ctx, p); err != nil {
				return 0, err
			}
		}
		gen = max(gen, named)
	}
	return gen + 1, nil
}

// namedGeneration returns the generation in a cell of a manifest's row, or 0.
func namedGeneration(cell segment.RawCell) (uint32, error) {
	payload, _, err := envelope.OpenUpTo(envelope.FormatV3, cell.Value, cell.Key, cell.Qualifier)
	switch {
	case err != nil || len(cell.Qualifier) == 0:
		return 0, err
	case cell.Qualifier[0] == segment.QualManifest:
		return segment.ManifestGeneration(payload)
	case isReservation(cell.Qualifier):
		return reservedGen(cell.Qualifier), nil
	case cell.Qualifier[0] == segment.QualIntent:
		return ParseGeneration(payload)
	}
	return 0, nil
}

// generationInMonth returns the generation of a day that its month contains, or 0. No other content may get this number,
// even after the loss of the day's manifest.
func (c *Compactor) generationInMonth(ctx context.Context, p presence.Partition) (uint32, error) {
	if p.IsMonth() {
		return 0, nil
	}
	month := presence.MonthOf(p.FirstDay())
	h := c.store.Closed.Month(month)
	if h == nil {
		return 0, nil
	}
	m, err := c.store.Manifest(ctx, h)
	if errors.Is(err, storage.ErrCorrupt) {
		c.store.MarkBroken(h, err)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return m.Days[p.FirstDay()-month.FirstDay()].Gen, nil
}

// newestGeneration returns the highest generation among the cells of a partition.
func (c *Compactor) newestGeneration(ctx context.Context, p presence.Partition) (newest uint32, err error) {
	for _, t := range []storage.Table{c.store.SeriesTable, c.store.LabelsTable} {
		err := segment.EachCell(ctx, t, allRows, p, func(_, qualifier []byte) error {
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

// allRows are the rows of a whole table. A filter on the timestamp of a partition's cells makes this read short.
var allRows = storage.RowSet{Ranges: []storage.RowRange{{}}}

// sweep deletes a partition's cells of other generations than the manifest's, the records that the manifest contains, and the
// intent.
func (c *Compactor) sweep(ctx context.Context, p presence.Partition) error {
	keep, journalSeq := uint32(0), uint32(0)
	if h := c.store.Closed.Get(p); h != nil {
		m, err := c.store.Manifest(ctx, h)
		if err != nil {
			return err
		}
		keep, journalSeq = m.Gen, m.JournalSeq
	}
	var reservations [][]byte // deleted last
	for _, t := range []storage.Table{c.store.SeriesTable, c.store.LabelsTable} {
		d := segment.NewDeleter(ctx, t)
		err := segment.EachCell(ctx, t, allRows, p, func(key, qualifier []byte) error {
			gen, ok := segment.QualifierGen(qualifier)
			switch kind, _, seq, err := segment.ParseKey(key); {
			case ok && gen != keep && (gen < keep || !c.opts.Shared): // otherwise it may belong to a running compaction
				return d.Cell(key, qualifier)
			case err == nil && kind == segment.QualRecord && seq < journalSeq:
				return d.Cell(key, qualifier)
			case err == nil && kind == segment.QualManifest && isReservation(qualifier):
				reservations = append(reservations, slices.Clone(qualifier))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := d.Flush(); err != nil {
			return err
		}
	}
	if err := c.opts.Sync(ctx); err != nil { // the intent must not be deleted first
		return err
	}
	if c.opts.Shared {
		return c.endReserved(ctx, p, keep)
	}
	d := segment.NewDeleter(ctx, c.store.SeriesTable)
	for _, qualifier := range append(reservations, []byte{segment.QualIntent}) {
		if err := d.Cell(segment.ManifestKey(p), qualifier); err != nil {
			return err
		}
	}
	if err := d.Flush(); err != nil {
		return err
	}
	delete(c.state.unclean, p)
	return nil
}

// FindPartitions lists the days and months whose manifest or intent the filter passes, and the generations that the manifests
// name. The caller holds the lock.
func (c *Compactor) FindPartitions(ctx context.Context, filter storage.Filter) error {
	it := c.store.SeriesTable.ReadRows(ctx, segment.ManifestRows(), storage.ReadOptions{Filter: filter})
	defer func() { _ = it.Close() }()
	for it.Next() {
		row := it.Row()
		kind, p, _, err := segment.ParseKey(row.Key)
		if err != nil || kind != segment.QualManifest {
			return envelope.Corrupt(storage.TableSeries, row.Key, nil, segment.ErrBadKey)
		}
		for _, cell := range row.Cells {
			switch string(cell.Qualifier) {
			case string(rune(segment.QualManifest)):
				h := c.store.Closed.Ensure(p)
				if payload, format, err := envelope.OpenUpTo(envelope.FormatV3, cell.Value, row.Key, cell.Qualifier); err == nil {
					gen, _ := segment.ManifestGeneration(payload) // the first read of the partition reports the damage
					h.Gen.Store(gen)
					h.Dropped.Store(format == envelope.FormatV3)
				}
			case string(rune(segment.QualIntent)):
				c.state.unclean[p] = true
			default:
				c.foundReservation(p, row.Key, cell)
			}
		}
	}
	return it.Err()
}

// MarkUnclean notes that a partition has cells of an interrupted compaction. The caller holds the lock.
func (c *Compactor) MarkUnclean(p presence.Partition) { c.state.unclean[p] = true }

// DropPartition drops a partition from the result of FindPartitions. The caller holds the lock.
func (c *Compactor) DropPartition(p presence.Partition) {
	c.store.Closed.Remove(p)
	delete(c.state.unclean, p)
}
