package pebble

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"halite/storage"
	"halite/storage/pebble/catalog"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/partition"
)

// quietDoublingsMax bounds the wait before the next attempt. DayChunkQuiet doubles with each failure of a day.
const quietDoublingsMax = 6

// dueFunc reports whether a day is due for packing.
type dueFunc func(*Table, *partition.Family, *partition.State) bool

// startDayChunks starts the background job, which Close ends.
func (s *Store) startDayChunks() {
	if s.opts.DayChunks == nil || s.opts.DayChunkInterval < 0 || s.opts.ReadOnly {
		return
	}
	s.dayChunkJobs.Add(s.opts.DayChunkInterval, s.dayChunkWake, func(ctx context.Context) {
		due := (*Table).dayChunksDue
		if s.dayChunkAll.Swap(false) {
			due = (*Table).hasUnpacked
		}
		s.writeDayChunksOf(ctx, pauseFactor, due)
	})
}

// WriteDayChunksSoon wakes the background job. The job then packs all days with enough unpacked cells, even open days.
// WriteDayChunksSoon does not wait. It does nothing in a store without that job.
func (s *Store) WriteDayChunksSoon() {
	s.dayChunkAll.Store(true)
	select {
	case s.dayChunkWake <- struct{}{}:
	default: // the job is about to start
	}
}

// WriteDayChunks packs the closed days that are due and waits for the end. It counts and logs failures; a failed day does
// not change.
func (s *Store) WriteDayChunks(ctx context.Context) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	s.writeDayChunksOf(ctx, 0, (*Table).dayChunksDue)
	return ctx.Err()
}

// writeDayChunksOf packs the days that the function due selects.
func (s *Store) writeDayChunksOf(ctx context.Context, pause int, due dueFunc) {
	if s.opts.DayChunks == nil {
		return
	}
	s.dayChunkMu.Lock()
	defer s.dayChunkMu.Unlock()
	for _, t := range s.tablesByName() {
		for _, f := range t.families {
			for _, state := range f.Days.States() {
				if ctx.Err() != nil || s.health.Writable() != nil {
					return
				}
				if !t.layout.HourKeys || f.Kind != storage.Plain || f.Mixed.Load() {
					continue
				}
				err := t.writeDay(ctx, f, state, pause, due)
				if errors.Is(err, errWritten) && !t.isClosed(state) {
					continue // it will be packed once it is closed
				}
				if err != nil && ctx.Err() == nil {
					state.FailedTimes++
					state.FailedMs = s.opts.Now().UnixMilli()
					s.dayChunkFigures.failures.Add(1)
					s.health.Report("packing a day failed; the engine retries it later", slog.LevelWarn, "table", t.record().Name,
						"family", f.Name, "day", state.Day, "err", err)
				}
			}
		}
	}
}

// writeDay packs a day if it is due.
func (t *Table) writeDay(
	ctx context.Context, f *partition.Family, state *partition.State, pause int, due dueFunc,
) error {
	if !due(t, f, state) {
		if state.Complete && state.LateBytes.Load() > 0 {
			return t.noteComplete(ctx, f, state, false)
		}
		return nil
	}
	j := dayChunkJob{t: t, f: f, state: state, h: cellkey.NewHeader(t.id, f.ID, state.Day), pause: pause}
	if err := j.run(ctx); err != nil {
		return err
	}
	state.FailedTimes = 0
	return nil
}

// dayChunksDue reports whether a day is closed and quiet and has enough unpacked cells.
func (t *Table) dayChunksDue(f *partition.Family, state *partition.State) bool {
	o := &t.store.opts
	nowMs := o.Now().UnixMilli()
	if !t.isClosed(state) || state.WroteMs.Load() > nowMs-o.DayChunkQuiet.Milliseconds() {
		return false
	}
	if n := state.FailedTimes; n > 0 && nowMs < state.FailedMs+o.DayChunkQuiet.Milliseconds()<<min(n, quietDoublingsMax) {
		return false
	}
	return t.hasUnpacked(f, state)
}

// isClosed reports whether a day has been over for Options.DayChunkAfter.
func (t *Table) isClosed(state *partition.State) bool {
	o := &t.store.opts
	return (int64(state.Day)+1)*cellkey.DayMs+o.DayChunkAfter.Milliseconds() <= o.Now().UnixMilli()
}

// hasUnpacked reports whether a day has enough unpacked cells, and is not garbage.
func (t *Table) hasUnpacked(f *partition.Family, state *partition.State) bool {
	o := &t.store.opts
	if p := t.state.Load().gc[f.Name]; ageAlone(p) && (int64(state.Day)+1)*cellkey.DayMs <= p.CutoffMs(o.GCNow()) {
		return false // garbage
	}
	if !state.Complete {
		return true
	}
	late := state.LateBytes.Load()
	if late == 0 {
		return false
	}
	h := cellkey.NewHeader(t.id, f.ID, state.Day)
	size, err := t.store.db.EstimateDiskUsage(cellkey.AppendPartitionStart(nil, h), cellkey.AppendPartitionStart(nil, h.Next()))
	return err == nil && uint64(late)*100 >= size*uint64(o.DayChunkLatePercent)
}

// noteDayChunks records durably that a day may have day chunks. The caller writes the first one afterwards.
func (t *Table) noteDayChunks(ctx context.Context, f *partition.Family, state *partition.State) error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if i := t.record().FindDayChunks(f.ID, state.Day); i < 0 {
		if err := t.putDayChunkDay(ctx, catalog.DayChunkDay{Family: f.ID, Day: state.Day}); err != nil {
			return err
		}
		if err := t.store.flush(ctx); err != nil {
			return err
		}
	}
	state.HasDayChunks.Store(true)
	return nil
}

// noteComplete records whether a packed day has few cells outside its day chunks. The record is a hint for the next process.
func (t *Table) noteComplete(ctx context.Context, f *partition.Family, state *partition.State, complete bool) error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if i := t.record().FindDayChunks(f.ID, state.Day); i < 0 || t.record().DayChunkDays[i].Complete == complete {
		return nil
	}
	return t.putDayChunkDay(ctx, catalog.DayChunkDay{Family: f.ID, Day: state.Day, Complete: complete})
}

// putDayChunkDay replaces a day's entry in the table record and removes the entries of dropped days. The caller holds the
// store's mu.
func (t *Table) putDayChunkDay(ctx context.Context, want catalog.DayChunkDay) error {
	rec := *t.record()
	rec.DayChunkCodec = t.store.opts.DayChunks.Name
	rec.DayChunkDays = slices.DeleteFunc(slices.Clone(rec.DayChunkDays), func(b catalog.DayChunkDay) bool {
		return b.Family == want.Family && b.Day == want.Day || !t.hasDay(b)
	})
	rec.DayChunkDays = append(rec.DayChunkDays, want)
	if err := t.store.putRecord(ctx, catalog.Tables, rec.Name, rec); err != nil {
		return err
	}
	t.replaceRecord(rec)
	return nil
}

// hasDay reports whether a recorded day still has cells.
func (t *Table) hasDay(b catalog.DayChunkDay) bool {
	return slices.ContainsFunc(t.families, func(f *partition.Family) bool {
		return f.ID == b.Family && f.Days.Load().State(b.Day) != nil
	})
}
