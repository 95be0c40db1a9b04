package store

import (
	"context"
	"fmt"
	"math"

	"halite/storage"
	"halite/storage/tombstone"
)

// PendingDeletions lists the deletions that states may not reflect yet.
func (s *Store) PendingDeletions() []*tombstone.Tombstone {
	if s.opts.Deletions == nil {
		return nil
	}
	view := s.opts.Deletions.View()
	defer view.Release()
	return DeletionsAfter(view.List(), s.Manifest.View().DeletionHorizon)
}

// DeletionsAfter returns the deletions with ids above a horizon. The list is sorted by id.
func DeletionsAfter(list []*tombstone.Tombstone, horizon uint64) []*tombstone.Tombstone {
	for len(list) > 0 && list[0].ID <= horizon {
		list = list[1:]
	}
	return list
}

// DeletionHorizon returns the last deletion that all states reflect, in every process, now and in future. Earlier
// deletions may be dropped once their rows are clean.
func (s *Store) DeletionHorizon(ctx context.Context) (id uint64, err error) {
	if err := s.Refresh(ctx); err != nil {
		return 0, err
	}
	view := s.Manifest.View()
	if view.Closed < 0 {
		return math.MaxUint64, nil // there are no states, and the first ones will be computed from clean rows
	}
	return view.DeletionHorizon, nil
}

// SettledDeletions returns the deletions that states of one of several processes may reflect. Stored states reflect some of
// them already. The others are older than Margin, so every running query sees them.
func (s *Store) SettledDeletions() *tombstone.View {
	m := s.Manifest
	m.mu.Lock()
	horizon, cutoffMs := m.record.DeletionHorizon, m.shared.cutoffMs
	m.mu.Unlock()
	return s.opts.Deletions.SnapshotIf(func(d *tombstone.Tombstone) bool { return d.ID <= horizon || d.MadeMs <= cutoffMs })
}

// AppendHorizon adds the cell with the deletion horizon of states if it is new. One of several processes always adds it,
// because another process may have stored a different horizon since then.
func (s *Store) AppendHorizon(entries []storage.Entry, cell storage.Entry, horizon, before uint64) []storage.Entry {
	switch {
	case s.opts.Shared == nil && horizon <= before:
		return entries
	case horizon == 0:
		cell = storage.Entry{Kind: storage.DeleteCells, Family: cell.Family, Qualifier: cell.Qualifier}
	}
	return append(entries, cell)
}

// During runs a change that affects reads of times from fromMs to toMs, such as a deletion. It counts as a change of their
// states.
func (s *Store) During(fromMs, toMs int64, change func() error) error {
	first, last := DayOf(fromMs), DayOf(toMs)
	if last-first >= changedDaysMax {
		return s.versions.during(nil, nil, change)
	}
	days, months := []int64{}, []int64{}
	for day := first; day <= last; day++ {
		days, months = append(days, day), appendNew(months, MonthOfDay(day))
	}
	return s.versions.during(days, months, change)
}

// DropRows removes all states of a range of rows.
func (s *Store) DropRows(ctx context.Context, rows storage.RowRange) error {
	if err := s.Table.DropRows(ctx, rows); err != nil {
		return fmt.Errorf("drop rollup states: %w", err)
	}
	return nil
}
