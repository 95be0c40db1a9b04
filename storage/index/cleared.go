package index

import (
	"context"
	"encoding/binary"
	"fmt"

	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// clearedHours are hours that a removal has cleared in memory and the journal of a day still knows.
type clearedHours struct {
	runs []segment.HourRun // by journal row, in no order
	// unnumbered says that some stand in parts whose series have no numbers.
	unnumbered bool
}

// writeCleared has a day's journal say which of its hours were cleared. Later parts may bring them back.
func (x *Index) writeCleared(ctx context.Context, d *memory.OpenDay) error {
	c := x.cleared[d.Day]
	if c == nil || len(c.runs) == 0 {
		return nil
	}
	if err := x.placeJournal(ctx, d); err != nil {
		return err
	}
	c.runs = segment.SortRuns(c.runs)
	key, qualifier := segment.JournalKey(d.Day, d.Journal.Seq), []byte{segment.QualPart}
	blob := binary.AppendUvarint(envelope.New(envelope.FormatV3, 64), uint64(d.Journal.Rows))
	blob = envelope.Seal(segment.AppendRuns(blob, c.runs), key, qualifier)
	if err := x.store.SeriesTable.Apply(ctx, []storage.RowMutation{{Key: key, Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilyIndex, Qualifier: qualifier, TsMs: presence.DayCellMs(d.Day), Value: blob,
	}}}}); err != nil {
		return err // the next part is written under the same number, and this one before it
	}
	x.metrics.parts.Inc()
	x.metrics.partBytes.Add(float64(len(blob)))
	d.Journal.Seq++
	if c.runs = nil; !c.unnumbered {
		delete(x.cleared, d.Day)
	}
	return nil
}

// clear takes in a part of a journal that writeCleared has written.
func (r *dayRestorer) clear(payload []byte) error {
	if r.plain {
		return envelope.ErrFormat // its series have no numbers
	}
	base, runs, err := parseCleared(payload)
	if err != nil {
		return err
	}
	if int(base) != len(r.reader.rows) {
		return fmt.Errorf("%w: it speaks of %d series, they are %d", errPartGap, base, len(r.reader.rows))
	}
	for _, run := range runs {
		for row := run.Row; row < run.End(); row++ {
			ref := r.reader.rows[row]
			r.day.ClearHours(ref, run.Hours)
		}
	}
	return nil
}

// parseCleared reads the payload of a part that clears hours of the series numbered below base.
func parseCleared(payload []byte) (base uint32, runs []segment.HourRun, err error) {
	c := &envelope.Decoder{Rest: payload}
	base = c.Number(1<<32 - 1)
	runs = segment.ReadRuns(c, uint64(base))
	return base, runs, c.End()
}
