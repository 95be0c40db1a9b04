package pebble

import (
	"context"

	"halite/storage/pebble/partition"
)

// WriteAllDayChunks packs all days, including open and incomplete ones. It returns the number of days that have failed since
// Open.
func (s *Store) WriteAllDayChunks(ctx context.Context) uint64 {
	s.writeDayChunksOf(ctx, 0, func(*Table, *partition.Family, *partition.State) bool { return true })
	return s.dayChunkFigures.failures.Load()
}

// DayChunksWritten returns the number of packed days.
func (s *Store) DayChunksWritten() uint64 { return s.dayChunkFigures.days.Load() }

// DayChunkCells returns the number of cells that were written to day chunks.
func (s *Store) DayChunkCells() uint64 { return s.dayChunkFigures.cells.Load() }
