package pebble

import "context"

// BundleAll bundles all days, closed or not, complete or not and returns how many have failed so far.
func (s *Store) BundleAll(ctx context.Context) uint64 {
	s.bundleDays(ctx, 0, func(*Table, *family, *dayState) bool { return true })
	return s.bundled.failures.Load()
}

// BundledDays returns how many days were bundled.
func (s *Store) BundledDays() uint64 { return s.bundled.days.Load() }

// BundledCells returns how many cells have gone into bundles.
func (s *Store) BundledCells() uint64 { return s.bundled.cells.Load() }
