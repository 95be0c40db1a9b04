package pebble

import (
	"context"

	"halite/storage/pebble/partition"
)

// WriteAllDayChunks packs all days, closed or not, complete or not and returns how many have failed so far.
func (s *Store) WriteAllDayChunks(ctx context.Context) uint64 {
	s.writeDayChunksOf(ctx, 0, func(*Table, *partition.Family, *partition.State) bool { return true })
	return s.dayChunkFigures.failures.Load()
}

// DayChunksWritten returns how many days were packed.
func (s *Store) DayChunksWritten() uint64 { return s.dayChunkFigures.days.Load() }

// DayChunkCells returns how many cells have gone into day chunks.
func (s *Store) DayChunkCells() uint64 { return s.dayChunkFigures.cells.Load() }
