package compaction

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// errFenced means that another process has taken over the partition.
var errFenced = errors.New("another server has taken over the compaction of the partition")

// reserveTriesMax bounds how often reserve tries the next number.
const reserveTriesMax = 16

func isReservation(qualifier []byte) bool {
	return len(qualifier) == 5 && qualifier[0] == segment.QualIntent
}

func reservedGen(qualifier []byte) uint32 { return binary.BigEndian.Uint32(qualifier[1:5]) }

// cellFilter passes the cell with a qualifier in a partition's manifest row.
func cellFilter(p presence.Partition, qualifier []byte) storage.Filter {
	return storage.Filter{
		QualifierStart: qualifier, QualifierEnd: append(slices.Clone(qualifier), 0), FromMs: p.CellMs(), ToMs: p.CellMs() + 1,
	}
}

// reserve reserves the partition's next generation, and removes the reservation of any other process.
func (c *Compactor) reserve(ctx context.Context, p presence.Partition) (uint32, error) {
	for range reserveTriesMax {
		gen, err := c.nextGeneration(ctx, p)
		if err != nil {
			return 0, err
		}
		qualifier := segment.GenQualifier(segment.QualIntent, gen)
		cells, err := segment.ReadCells(ctx, c.store.SeriesTable, p.CellMs(), [][]byte{segment.ManifestKey(p)},
			[]byte{segment.QualIntent}, qualifier)
		if err != nil {
			return 0, err
		}
		reserve := storage.RowMutation{Entries: []storage.Entry{generationCell(p, qualifier, gen)}}
		for _, cell := range cells {
			reserve.Entries = append(reserve.Entries, storage.Entry{
				Kind: storage.DeleteCells, Family: storage.FamilyIndex, Qualifier: cell.Qualifier,
			})
		}
		taken, err := c.store.SeriesTable.CheckAndApply(ctx, segment.ManifestKey(p), cellFilter(p, qualifier),
			storage.RowMutation{}, reserve)
		if err == nil && !taken {
			return gen, nil
		}
		// If the outcome is unknown, either process may hold the reservation, so try the next number.
		if err != nil && !errors.Is(err, storage.ErrUnavailable) {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w: cannot reserve a generation", storage.ErrUnavailable)
}

// switchReserved makes a reserved generation current, unless another process has reserved a later one.
func (c *Compactor) switchReserved(ctx context.Context, p presence.Partition, gen uint32, cell storage.Entry) error {
	held, err := c.store.SeriesTable.CheckAndApply(ctx, segment.ManifestKey(p),
		cellFilter(p, segment.GenQualifier(segment.QualIntent, gen)),
		storage.RowMutation{Entries: []storage.Entry{cell, generationCell(p, []byte{segment.QualGen}, gen)}}, storage.RowMutation{})
	switch {
	case errors.Is(err, storage.ErrUnavailable): // the switch may have taken effect
		if m, readErr := c.store.ReadManifest(ctx, p); readErr == nil && m.Gen == gen {
			return nil
		}
		return err
	case err != nil:
		return err
	case !held:
		return errFenced
	}
	return nil
}

// endReserved records that generations before gen have no cells left.
func (c *Compactor) endReserved(ctx context.Context, p presence.Partition, gen uint32) error {
	qualifier := segment.GenQualifier(segment.QualIntent, gen)
	empty := segment.ManifestCell(p, qualifier, envelope.New(envelope.FormatV1, 0))
	_, err := c.store.SeriesTable.CheckAndApply(ctx, segment.ManifestKey(p), cellFilter(p, qualifier),
		storage.RowMutation{Entries: []storage.Entry{empty}}, storage.RowMutation{})
	if err != nil {
		return err
	}
	delete(c.state.unclean, p)
	delete(c.state.begun, p)
	return nil
}

// foundReservation records an open reservation.
func (c *Compactor) foundReservation(p presence.Partition, key []byte, cell storage.Cell) {
	if !isReservation(cell.Qualifier) {
		return
	}
	if payload, err := envelope.Open(cell.Value, key, cell.Qualifier); err != nil || len(payload) > 0 {
		c.state.begun[p] = reservedGen(cell.Qualifier)
		c.state.unclean[p] = true
	}
}
