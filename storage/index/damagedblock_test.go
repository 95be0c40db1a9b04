package index

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/presence"
)

// damagedStore has a damaged block in a table. Reads that may need cells of its day fail.
type damagedStore struct {
	storage.Store
	table string
	day   int64
}

func (s damagedStore) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	t, err := s.Store.EnsureTable(ctx, schema)
	return s.damage(t), err
}

func (s damagedStore) Table(ctx context.Context, name string) (storage.Table, error) {
	t, err := s.Store.Table(ctx, name)
	return s.damage(t), err
}

func (s damagedStore) damage(t storage.Table) storage.Table {
	if t == nil || t.Schema().Name != s.table {
		return t
	}
	return damagedTable{t, keyschema.HourStartMs(presence.FirstHour(s.day)), keyschema.HourStartMs(presence.FirstHour(s.day + 1))}
}

type damagedTable struct {
	storage.Table
	fromMs, toMs int64
}

func (t damagedTable) ReadRows(ctx context.Context, set storage.RowSet, opts storage.ReadOptions) storage.RowIter {
	it := t.Table.ReadRows(ctx, set, opts)
	if f := opts.Filter; f.FromMs < t.toMs && (f.ToMs == 0 || f.ToMs > t.fromMs) {
		return damagedRows{it}
	}
	return it
}

type damagedRows struct{ storage.RowIter }

func (damagedRows) Next() bool { return false }
func (damagedRows) Err() error { return storage.ErrCorrupt }

// TestDamagedBlock opens the index while a block of a day, compacted or not, is damaged. All look-ups are right, and
// touches are persisted. If the data rows of the day are also damaged, look-ups of the day fail and all others are
// right.
func TestDamagedBlock(t *testing.T) {
	for day := int64(baseDay); day < baseDay+3; day++ {
		w := lateWorld(t, uint64(30+day))
		whole := w.store.Store
		w.store.Store = damagedStore{whole, storage.TableSeries, day}
		w.reopen()
		w.everything()
		for range 20 {
			w.touch(w.add(), w.hourNow()-int64(w.rng.IntN(60)))
		}
		require.True(t, w.persist())
		w.reopen()
		w.everything()

		w.store.Store = damagedStore{w.store.Store, storage.TableData, day}
		w.reopen()
		ms := keyschema.HourStartMs(presence.FirstHour(day))
		_, err := w.x.Select(t.Context(), nil, ms, ms+1)
		require.ErrorIs(t, err, storage.ErrCorrupt)
		other := keyschema.HourStartMs(presence.FirstHour(day + 1))
		if day == baseDay+2 {
			other = keyschema.HourStartMs(presence.FirstHour(day - 1))
		}
		got, err := w.x.Select(t.Context(), nil, other, other+keyschema.DayHours*keyschema.HourMs-1)
		require.NoError(t, err)
		w.same(w.expect(other, other+keyschema.DayHours*keyschema.HourMs-1, nil), got, "the other day")
		require.NoError(t, w.x.Persist(t.Context()))

		w.store.Store = whole
		w.reopen()
		require.NoError(t, w.x.Rebuild(t.Context(), baseDay-5, baseDay+5))
		w.everything()
	}
}
