package ingest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"halite/storage"
)

const (
	sequenceRow       = "sequence#run"
	sequenceQualifier = "next"
	// sequenceBlock is how many numbers are reserved at once; those left over at a crash are never used.
	sequenceBlock = 1024
)

// sequence numbers the packed runs, so that of two runs in a row the later one is known. Each flush takes a number for
// all its rows. Numbers are reserved durably before they are used: after a crash later runs still get higher numbers.
// Guarded by Ingester.flushMu.
type sequence struct {
	store    storage.Store
	meta     storage.Table
	next     uint64
	reserved uint64
}

func openSequence(ctx context.Context, store storage.Store, meta storage.Table) (*sequence, error) {
	s := &sequence{store: store, meta: meta}
	rows := meta.ReadRows(ctx, storage.RowSet{Keys: [][]byte{[]byte(sequenceRow)}},
		storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	for rows.Next() {
		for _, cell := range rows.Row().Cells {
			if string(cell.Qualifier) != sequenceQualifier {
				continue
			}
			if len(cell.Value) != 8 {
				rows.Close()
				return nil, fmt.Errorf("%w: run sequence of %d bytes in table %s", storage.ErrCorrupt, len(cell.Value),
					storage.TableMeta)
			}
			s.reserved = binary.BigEndian.Uint64(cell.Value)
		}
	}
	err := rows.Err()
	if closeErr := rows.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("read the run sequence: %w", err)
	}
	s.next = s.reserved
	return s, nil
}

// take returns the first of n numbers in a row.
func (s *sequence) take(ctx context.Context, n int) (first uint32, err error) {
	if s.next+uint64(n) > s.reserved {
		reserved := s.next + uint64(n) + sequenceBlock
		if reserved > math.MaxUint32 {
			return 0, fmt.Errorf("run sequence is used up: %d numbers were given out", s.next)
		}
		err := s.meta.Apply(ctx, []storage.RowMutation{{Key: []byte(sequenceRow), Entries: []storage.Entry{{
			Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte(sequenceQualifier),
			Value: binary.BigEndian.AppendUint64(nil, reserved),
		}}}})
		if err == nil {
			err = s.store.Sync(ctx)
		}
		if err != nil {
			return 0, fmt.Errorf("reserve run numbers: %w", err)
		}
		s.reserved = reserved
	}
	first = uint32(s.next)
	s.next += uint64(n)
	return first, nil
}
