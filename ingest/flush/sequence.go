package flush

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
	sequenceRow       = "sequence#chunk"
	sequenceQualifier = "next"
	// claimMark begins the qualifiers of claims; claimEnd sorts after all of them.
	claimMark = 'c'
	claimEnd  = claimMark + 1
	// sequenceBlock is the number of sequence numbers in a reservation. A crash leaves the rest of a reservation unused.
	sequenceBlock = 1024
	// sequenceTriesMax bounds the tries to reserve a block, because other servers may reserve the same block
	// first.
	sequenceTriesMax = 16
)

// Sequence numbers the chunks, so that readers know the later of two chunks in a row. Each flush takes one number for all
// its rows. A number is reserved durably before its use. So later chunks get higher numbers after a crash, too.
//
// Several servers may share the row of table meta. It holds the next free number and a claim: a cell whose qualifier is the
// first number of the last reserved block. A conditional mutation reserves a block. It fails if there is a claim of the same
// number or a higher one.
type Sequence struct {
	store storage.Store
	meta  storage.Table

	mu       sync.Mutex
	next     uint64
	reserved uint64
}

// OpenSequence returns the sequence of the store with the given table meta. It fails if the row cannot be
// read.
func OpenSequence(ctx context.Context, store storage.Store, meta storage.Table) (*Sequence, error) {
	s := &Sequence{store: store, meta: meta}
	_, _, err := s.read(ctx)
	return s, err
}

// read returns the next free number and the claims.
func (s *Sequence) read(ctx context.Context) (free uint64, claims [][]byte, err error) {
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
				return 0, nil, fmt.Errorf("%w: chunk sequence of %d bytes in table %s", storage.ErrCorrupt, len(cell.Value),
					storage.TableMeta)
			default:
				free = binary.BigEndian.Uint64(cell.Value)
			}
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return 0, nil, fmt.Errorf("read the chunk sequence: %w", err)
	}
	return free, claims, nil
}

// Allocate returns the next number.
func (s *Sequence) Allocate(ctx context.Context) (uint32, error) { return s.AllocateAbove(ctx, 1, 0) }

// AllocateAbove returns the first of n consecutive numbers above the given one, which may be from another server.
func (s *Sequence) AllocateAbove(ctx context.Context, n int, above uint32) (first uint32, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next+uint64(n) > s.reserved || s.next <= uint64(above) {
		if err := s.reserve(ctx, n); err != nil {
			return 0, fmt.Errorf("reserve chunk numbers: %w", err)
		}
	}
	first = uint32(s.next)
	s.next += uint64(n)
	return first, nil
}

// TakeHighest returns a number above all numbers that any server has taken so far.
func (s *Sequence) TakeHighest(ctx context.Context) (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reserve(ctx, 1); err != nil {
		return 0, fmt.Errorf("reserve chunk numbers: %w", err)
	}
	first := max(s.next, 1) // 0 means that there is no number
	s.next = first + 1
	return uint32(first), nil
}

// reserve takes a block of at least n numbers for this process.
func (s *Sequence) reserve(ctx context.Context, n int) error {
	why := fmt.Errorf("%w: other servers took each block of chunk numbers first", storage.ErrUnavailable)
	for range sequenceTriesMax {
		free, claims, err := s.read(ctx)
		if err != nil {
			return err
		}
		end := free + uint64(n) + sequenceBlock
		if free > keyschema.ChunkSeqMax || end > keyschema.ChunkSeqMax {
			return fmt.Errorf("chunk sequence is used up: %d numbers are taken", free)
		}
		claim := binary.BigEndian.AppendUint64([]byte{claimMark}, free)
		reserve := storage.RowMutation{Entries: []storage.Entry{
			{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: claim},
			{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte(sequenceQualifier),
				Value: binary.BigEndian.AppendUint64(nil, end)},
		}}
		for _, old := range claims {
			reserve.Entries = append(reserve.Entries, storage.Entry{
				Kind: storage.DeleteCells, Family: storage.FamilyMeta, Qualifier: old,
			})
		}
		taken, err := s.meta.CheckAndApply(ctx, []byte(sequenceRow), storage.Filter{
			Families: []string{storage.FamilyMeta}, QualifierStart: claim, QualifierEnd: []byte{claimEnd},
		}, storage.RowMutation{}, reserve)
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
		// Another server was faster, or the reply was lost. If this process has reserved the block nevertheless, the block
		// stays unused.
	}
	return why
}

// RestoreSequence raises the next free chunk number above the numbers in all rows. It repairs a store whose table meta has
// lost the row of the sequence. Without it, a later chunk would get a lower number than an earlier one and would not replace
// it.
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
	s, err := OpenSequence(ctx, store, meta)
	if err != nil {
		return err
	}
	free, _, err := s.read(ctx)
	if err != nil {
		return err
	}
	rows := data.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{
		Filter: storage.Filter{Families: storage.SampleFamilies(), KeysOnly: true}})
	defer func() { _ = rows.Close() }() // Err reports errors
	for rows.Next() {
		for _, cell := range rows.Row().Cells {
			if q, err := keyschema.ParseQualifier(cell.Qualifier); err == nil {
				free = max(free, uint64(q.Seq)+1)
			}
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("look for the last chunk number: %w", err)
	}
	return meta.Apply(ctx, []storage.RowMutation{{Key: []byte(sequenceRow), Entries: []storage.Entry{{Kind: storage.SetCell,
		Family: storage.FamilyMeta, Qualifier: []byte(sequenceQualifier), Value: binary.BigEndian.AppendUint64(nil, free)}}}})
}
