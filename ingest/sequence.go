package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"halite/keyschema"
	"halite/storage"
)

const (
	sequenceRow       = "sequence#run"
	sequenceQualifier = "next"
	// claimMark begins the qualifiers of claims; claimEnd is behind all of them.
	claimMark = 'c'
	claimEnd  = claimMark + 1
	// sequenceBlock is how many numbers are reserved at once; those left over at a crash are never used.
	sequenceBlock = 1024
	// sequenceTriesMax bounds how often a block is asked for: other servers may want the same one.
	sequenceTriesMax = 16
)

// sequence numbers the chunks, so that of two chunks in a row the later one is known. Each flush takes a number for
// all its rows. Numbers are reserved durably before they are used: after a crash later runs still get higher numbers.
//
// Several servers may share the row. It holds the next free number, and for the block reserved last a cell whose
// qualifier is its first number, the claim. A block is reserved by a conditional mutation that fails if there is a claim
// of that number or a higher one.
type sequence struct {
	store storage.Store
	meta  storage.Table

	mu       sync.Mutex
	next     uint64
	reserved uint64
}

func openSequence(ctx context.Context, store storage.Store, meta storage.Table) (*sequence, error) {
	s := &sequence{store: store, meta: meta}
	_, _, err := s.read(ctx)
	return s, err
}

// read returns the next free number and the claims that are there.
func (s *sequence) read(ctx context.Context) (free uint64, claims [][]byte, err error) {
	rows := s.meta.ReadRows(ctx, storage.RowSet{Keys: [][]byte{[]byte(sequenceRow)}},
		storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	for rows.Next() {
		for _, cell := range rows.Row().Cells {
			switch {
			case len(cell.Qualifier) > 0 && cell.Qualifier[0] == claimMark:
				claims = append(claims, append([]byte(nil), cell.Qualifier...))
			case string(cell.Qualifier) != sequenceQualifier:
			case len(cell.Value) != 8:
				rows.Close()
				return 0, nil, fmt.Errorf("%w: run sequence of %d bytes in table %s", storage.ErrCorrupt, len(cell.Value),
					storage.TableMeta)
			default:
				free = binary.BigEndian.Uint64(cell.Value)
			}
		}
	}
	err = rows.Err()
	if closeErr := rows.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return 0, nil, fmt.Errorf("read the run sequence: %w", err)
	}
	return free, claims, nil
}

// take returns the first of n numbers in a row.
func (s *sequence) take(ctx context.Context, n int) (first uint32, err error) {
	return s.takeAbove(ctx, n, 0)
}

// takeAbove is take of numbers above one that was given out, perhaps by another server.
func (s *sequence) takeAbove(ctx context.Context, n int, above uint32) (first uint32, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next+uint64(n) > s.reserved || s.next <= uint64(above) {
		if err := s.reserve(ctx, n); err != nil {
			return 0, fmt.Errorf("reserve run numbers: %w", err)
		}
	}
	first = uint32(s.next)
	s.next += uint64(n)
	return first, nil
}

// fresh returns a number above all that were given out before, by whatever server.
func (s *sequence) fresh(ctx context.Context) (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reserve(ctx, 1); err != nil {
		return 0, fmt.Errorf("reserve run numbers: %w", err)
	}
	first := max(s.next, 1) // 0 is none
	s.next = first + 1
	return uint32(first), nil
}

// reserve takes a block of at least n numbers for this process.
func (s *sequence) reserve(ctx context.Context, n int) error {
	why := fmt.Errorf("%w: other servers took each block of run numbers first", storage.ErrUnavailable)
	for range sequenceTriesMax {
		free, claims, err := s.read(ctx)
		if err != nil {
			return err
		}
		end := free + uint64(n) + sequenceBlock
		if free > keyschema.ChunkSeqMax || end > keyschema.ChunkSeqMax {
			return fmt.Errorf("run sequence is used up: %d numbers were given out", free)
		}
		claim := binary.BigEndian.AppendUint64([]byte{claimMark}, free)
		take := storage.RowMutation{Entries: []storage.Entry{
			{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: claim},
			{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte(sequenceQualifier),
				Value: binary.BigEndian.AppendUint64(nil, end)},
		}}
		for _, old := range claims {
			take.Entries = append(take.Entries, storage.Entry{
				Kind: storage.DeleteCells, Family: storage.FamilyMeta, Qualifier: old,
			})
		}
		taken, err := s.meta.CheckAndApply(ctx, []byte(sequenceRow), storage.Filter{
			Families: []string{storage.FamilyMeta}, QualifierStart: claim, QualifierEnd: []byte{claimEnd},
		}, storage.RowMutation{}, take)
		switch {
		case err == nil && !taken:
			if err := s.store.Sync(ctx); err != nil {
				return err
			}
			s.next, s.reserved = free, end
			return nil
		case err != nil && !errors.Is(err, storage.ErrUnavailable):
			return err
		case err != nil:
			why = err
		}
		// Another server was faster, or the answer was lost: look again. A block that was ours is left unused then.
	}
	return why
}

// RestoreSequence raises the next free run number above those of all rows, for a store whose table meta has lost its row of the
// sequence. Otherwise a later run would get a lower number than an earlier one, and would not replace it.
func RestoreSequence(ctx context.Context, store storage.Store) error {
	meta, err := store.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return err
	}
	data, err := store.Table(ctx, storage.TableData)
	if errors.Is(err, storage.ErrNoTable) {
		return nil
	}
	if err != nil {
		return err
	}
	s, err := openSequence(ctx, store, meta)
	if err != nil {
		return err
	}
	free, _, err := s.read(ctx)
	if err != nil {
		return err
	}
	rows := data.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{
		Filter: storage.Filter{Families: []string{storage.FamilySamples}, KeysOnly: true}})
	defer func() { _ = rows.Close() }() // Err has told
	for rows.Next() {
		for _, cell := range rows.Row().Cells {
			if q, err := keyschema.ParseQualifier(cell.Qualifier); err == nil {
				free = max(free, uint64(q.Seq)+1)
			}
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("look for the last run number: %w", err)
	}
	return meta.Apply(ctx, []storage.RowMutation{{Key: []byte(sequenceRow), Entries: []storage.Entry{{Kind: storage.SetCell,
		Family: storage.FamilyMeta, Qualifier: []byte(sequenceQualifier), Value: binary.BigEndian.AppendUint64(nil, free)}}}})
}
