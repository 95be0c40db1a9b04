package job

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/rollup/store"
	"halite/storage"
	"halite/storage/storagetest"
)

// halfStore applies every other row of a write to the table of states while half is set.
type halfStore struct {
	storage.Store
	half *atomic.Bool
}

func (s halfStore) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	t, err := s.Store.EnsureTable(ctx, schema)
	return halfTable{t, s.half}, err
}

type halfTable struct {
	storage.Table
	half *atomic.Bool
}

func (t halfTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	if !t.half.Load() || t.Schema().Name != storage.TableRollup {
		return t.Table.Apply(ctx, muts)
	}
	failed := &storage.ApplyError{}
	for i := range muts {
		if i%2 == 1 {
			failed.Rows = append(failed.Rows, storage.RowError{Index: i, Err: fmt.Errorf("injected: %w", storage.ErrUnavailable)})
		} else if err := t.Table.Apply(ctx, muts[i:i+1]); err != nil {
			return err
		}
	}
	return failed
}

// TestMarksThatFailInPart: if some states cannot be marked, no row is written, and the error names each row.
func TestMarksThatFailInPart(t *testing.T) {
	clock, half := newClock(firstDay+3), new(atomic.Bool)
	now := func() time.Time { return time.UnixMilli(clock.Load()) }
	tables := halfStore{storagetest.NewModel(now), half}
	n, err := Open(t.Context(), store.Options{Tables: tables, Now: now, Shared: &store.Shared{
		HoldsLease: func() bool { return true }, Margin: time.Minute, Fresh: func(context.Context) error { return nil },
	}}, Options{Share: 1, Settle: -1})
	require.NoError(t, err)
	data, err := n.Invalidating(tables).EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	rows := func(minute uint32) (muts []storage.RowMutation) {
		hour := int64(firstDay * keyschema.DayHours)
		for i := range 4 {
			muts = append(muts, storage.RowMutation{Key: keyschema.AppendHour(sharedPrefix(i), hour), Entries: []storage.Entry{{
				Kind: storage.SetCell, Family: storage.FamilySamples, TsMs: keyschema.HourCellMs(hour),
				Qualifier: keyschema.AppendSampleQualifier(nil, minute*60_000), Value: chunk.AppendSampleValue(nil, 1),
			}}})
		}
		return muts
	}
	require.NoError(t, data.Apply(t.Context(), rows(0)))
	for worked := true; worked; {
		clock.Add(3_600_000)
		worked, err = n.Step(t.Context())
		require.NoError(t, err)
	}
	half.Store(true)
	var failed *storage.ApplyError
	require.ErrorAs(t, data.Apply(t.Context(), rows(1)), &failed)
	require.Len(t, failed.Rows, 4)
	for i, row := range failed.Rows {
		require.Equal(t, i, row.Index)
		require.ErrorIs(t, row.Err, storage.ErrUnavailable)
	}
	it := data.ReadRows(t.Context(), allRows(), storage.ReadOptions{})
	for it.Next() {
		require.Len(t, it.Row().Cells, 1, "nothing was written")
	}
	require.NoError(t, it.Close())
}
