package recovery

import (
	"context"
	"errors"
	"fmt"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/compaction"
	"halite/storage/index/presence"
	"halite/storage/index/rowscan"
)

// Rebuild rebuilds the index of the unix days fromDay to toDay, both inclusive. It reads the keys of the data rows, and the
// keys of the rollup rows for series without samples. A day that has ended gets a new segment, even if its old segment is
// intact. The new segment also has the active series that Rebuild can read, because their samples may not be in rows yet.
// If a segment is damaged, the caller flushes the active series first. If the day is still open, Rebuild adds the series of the
// rows to the active index.
func (r *Recovery) Rebuild(ctx context.Context, fromDay, toDay int64) error {
	for day := max(fromDay, 0); day <= min(toDay, presence.DayMax); day++ {
		if err := r.rebuildDay(ctx, day); err != nil {
			return fmt.Errorf("rebuild day %d: %w", day, err)
		}
	}
	return nil
}

func (r *Recovery) rebuildDay(ctx context.Context, day int64) error {
	r.opts.Lock.Lock()
	defer r.opts.Lock.Unlock()
	scan, err := r.scanner.All(ctx, day, rowscan.FailMissing)
	if err != nil {
		return err
	}
	open, closed := r.open.Get(day), r.store.Closed.Day(day)
	if open != nil || !r.compactor.HasEnded(day) {
		if err := r.activate(scan); err != nil {
			return err
		}
		if closed == nil {
			return nil // a later compaction writes its segment
		}
	}
	if scan.Series.SeriesCount() == 0 && closed == nil {
		return nil
	}
	if err := r.addActive(ctx, scan); err != nil {
		return err
	}
	seq, err := r.journal.End(ctx, day)
	if err != nil {
		return err
	}
	if open != nil {
		if err := r.journal.Locate(ctx, open); err != nil {
			return err
		}
		seq = open.Journal.First // the new segment lacks the records; their series are in memory
	}
	if err := r.compactor.VoidMonth(ctx, presence.MonthOf(day)); err != nil {
		return err
	}
	sources := []compaction.Source{compaction.NewActiveSource(scan.Series, scan.Day.Snapshot())}
	return r.compactor.Replace(ctx, presence.DayPartition(day), sources, compaction.Inputs{JournalSeq: seq}, nil)
}

// addActive adds the active series of a day to a scan. Rebuild repairs damaged indexes, so damage only ends this read.
func (r *Recovery) addActive(ctx context.Context, scan rowscan.Result) error {
	fromMs, toMs := dayBounds(scan.Day.Day)
	known, err := r.lookup.Select(ctx, nil, fromMs, toMs)
	if errors.Is(err, storage.ErrCorrupt) {
		r.opts.Logger.Warn("rebuild a damaged index day from data rows alone", "day", scan.Day.Day, "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, k := range known {
		if k.Ref == 0 {
			continue
		}
		ref, _, err := scan.Series.Add(k.Labels, 0)
		if err != nil {
			return err
		}
		scan.Day.MarkActive(ref, presence.HoursOf(scan.Day.Day, k.Hours))
	}
	return nil
}

// dayBounds are the first and the last millisecond of a day.
func dayBounds(day int64) (fromMs, toMs int64) {
	fromMs = keyschema.HourStartMs(presence.FirstHour(day))
	return fromMs, fromMs + keyschema.DayHours*keyschema.HourMs - 1
}
