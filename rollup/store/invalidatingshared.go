package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"halite/storage"
)

// lastLate returns the last day whose rows need marks, because some process may soon consider it closed.
func (s *Store) lastLate() int64 {
	return DayOf(s.opts.Now().Add(-s.opts.CloseDelay/3).UnixMilli()) - 1
}

// invalidateShared is invalidate for one of several processes.
func (s *Store) invalidateShared(ctx context.Context, keys rowKeys, write func(ctx context.Context) error) error {
	dirty := dirtyHoursOf(keys, s.lastLate())
	if len(dirty) == 0 {
		return write(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Shared.Limit())
	defer cancel()
	if err := s.markDirtyShared(ctx, dirty); err != nil {
		return fmt.Errorf("mark rollup states as dirty: %w", err)
	}
	return write(ctx)
}

// markDirtyShared marks states and records their days. For a day with many dirty series or no states, it only records
// the day.
func (s *Store) markDirtyShared(ctx context.Context, dirty []dirtyHours) error {
	counts := map[int64]int{}
	for i := range dirty {
		counts[dirty[i].day]++
	}
	m, view, now := s.Manifest.shared, s.Manifest.View(), s.opts.Now()
	whole := map[int64]bool{}
	for day, n := range counts {
		whole[day] = n > s.opts.MarksMax || day > view.Closed || view.Days[day] == WorkWhole
		work := WorkPart
		if whole[day] {
			work = WorkWhole
		}
		if err := m.recordDirty(ctx, day, work, now, s.opts.Shared.Limit()); err != nil {
			return err
		}
	}
	var muts []storage.RowMutation
	for i := range dirty {
		if d := &dirty[i]; !whole[d.day] || d.gone != 0 {
			muts = append(muts, timedMark(d, now))
		}
	}
	s.metrics.marks.Add(float64(len(muts)))
	return ApplyAll(ctx, s.Table, muts)
}

// timedMark returns a mutation with a unique mark: no other process or time makes it.
func timedMark(d *dirtyHours, now time.Time) storage.RowMutation {
	m := markMutation(d)
	for i := range m.Entries {
		q := binary.BigEndian.AppendUint64(m.Entries[i].Qualifier, uint64(now.UnixMilli()))
		m.Entries[i].Qualifier = binary.BigEndian.AppendUint32(q, rand.Uint32())
	}
	return m
}
