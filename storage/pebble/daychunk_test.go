package pebble_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/keyschema/daychunk"
	"halite/storage"
	"halite/storage/pebble"
	"halite/storage/pebble/daycells"
	"halite/storage/storagetest"
)

// dayChunkCodec is the codec of chunks.
func dayChunkCodec() *daycells.Codec {
	return &daycells.Codec{Name: daychunk.Format, Append: daychunk.Append,
		NewDecoder: func() daycells.Decoder { return new(daychunk.Decoder) }}
}

// eager is a store that packs all days, including open ones, after some of its writes.
type eager struct {
	*pebble.Store
	t      testing.TB
	every  uint64
	writes *atomic.Uint64
}

type eagerTable struct {
	storage.SpanTable
	s *eager
}

func newEager(t testing.TB, s *pebble.Store, every uint64) *eager {
	return &eager{Store: s, t: t, every: every, writes: new(atomic.Uint64)}
}

func (s *eager) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	table, err := s.Store.EnsureTable(ctx, schema)
	if err != nil {
		return nil, err
	}
	return eagerTable{table.(storage.SpanTable), s}, nil
}

func (s *eager) Table(ctx context.Context, name string) (storage.Table, error) {
	table, err := s.Store.Table(ctx, name)
	if err != nil {
		return nil, err
	}
	return eagerTable{table.(storage.SpanTable), s}, nil
}

func (s *eager) wrote() {
	if s.writes.Add(1)%s.every == 0 {
		s.WriteAllDayChunks(context.Background())
	}
}

func (t eagerTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	defer t.s.wrote()
	return t.SpanTable.Apply(ctx, muts)
}

func (t eagerTable) Load(ctx context.Context, muts []storage.RowMutation) error {
	defer t.s.wrote()
	return t.SpanTable.Load(ctx, muts)
}

func (t eagerTable) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (bool, error) {
	defer t.s.wrote()
	return t.SpanTable.CheckAndApply(ctx, key, cond, then, otherwise)
}

func (t eagerTable) DropRows(ctx context.Context, r storage.RowRange) error {
	defer t.s.wrote()
	return t.SpanTable.DropRows(ctx, r)
}

func (t eagerTable) DropCells(ctx context.Context, span storage.CellSpan) error {
	defer t.s.wrote()
	return t.SpanTable.DropCells(ctx, span)
}

// TestContractDayChunks runs the suite on stores that pack after every write, and after every third.
func TestContractDayChunks(t *testing.T) {
	intervals := []uint64{1, 3}
	if testing.Short() {
		intervals = intervals[1:]
	}
	for _, every := range intervals {
		t.Run(map[uint64]string{1: "each", 3: "third"}[every], func(t *testing.T) {
			systems := map[storage.Store]vfs.FS{}
			var days atomic.Uint64
			open := func(t testing.TB, fs vfs.FS, now func() time.Time) storage.Store {
				inner, err := pebble.Open(pebble.Options{Dir: "/data", FS: fs, Now: now, MemtableBytes: 256 << 10,
					DayChunks: dayChunkCodec(), DayChunkSpanBytes: map[uint64]int64{1: 1, 3: 0}[every]})
				require.NoError(t, err)
				s := newEager(t, inner, every)
				systems[s] = fs
				t.Cleanup(func() { days.Add(inner.DayChunksWritten()) })
				return s
			}
			daysMin := uint64(1000)
			if testing.Short() {
				daysMin = 100
			}
			t.Cleanup(func() { require.Greater(t, days.Load(), daysMin, "days were packed") })
			storagetest.Run(t, func(t testing.TB, now func() time.Time) storage.Store {
				return open(t, vfs.NewMem(), now)
			}, storagetest.Caps{
				Reopen: func(t testing.TB, s storage.Store, now func() time.Time) storage.Store {
					require.NoError(t, s.Close())
					return open(t, systems[s], now)
				},
				Compact: func(t testing.TB, s storage.Store) {
					require.NoError(t, s.(*eager).Compact(t.Context()))
				},
				StepsMax: 200,
			})
		})
	}
}
