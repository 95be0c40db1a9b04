package retention_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
)

// TestFreedBytes drops many small metrics next to a large one. The sweep reports approximately their space, although each
// block of the files holds several metrics.
func TestFreedBytes(t *testing.T) {
	ctx, s := t.Context(), openStore(t, vfs.NewMem())
	defer func() { require.NoError(t, s.Close()) }()
	ages := agesOf(t, 0, map[string]int{"debug_*": 2})
	data, err := s.EnsureTable(ctx, storage.DataSchema(0))
	require.NoError(t, err)
	_, err = s.EnsureTable(ctx, storage.RollupSchema(0, 0))
	require.NoError(t, err)
	source, rule, want := rand.NewChaCha8([32]byte{}), keyschema.DefaultRule(), int64(0)
	for day := int64(today - 9); day <= today; day++ {
		var rows []storage.RowMutation
		add := func(metric string, series, sizeBytes int) {
			value := make([]byte, sizeBytes)
			_, _ = source.Read(value) // never fails
			prefix := rule.AppendPrefix(nil, metric, []keyschema.Tag{{Name: "i", Value: fmt.Sprint(series)}})
			rows = append(rows, storage.RowMutation{Key: keyschema.AppendHour(prefix, day*24), Entries: []storage.Entry{{
				Kind: storage.SetCell, Family: storage.FamilySamples, Qualifier: []byte{1}, TsMs: keyschema.HourCellMs(day * 24),
				Value: value,
			}}})
		}
		for n := range 25 {
			for series := range 4 {
				add(fmt.Sprint("debug_", n), series, 1000)
			}
			if day < today-2 {
				want += 4000
			}
		}
		for series := range 200 {
			add("keep", series, 2000)
		}
		require.NoError(t, data.Apply(ctx, rows))
	}
	require.NoError(t, s.Sync(ctx))
	spans := data.(storage.SpanTable)
	require.NoError(t, spans.Reclaim(ctx, storage.CellSpan{
		Family: storage.FamilySamples, Rows: []storage.RowRange{{}}, ToDay: today + 1,
	}))
	freed, err := newSweeper(t, s, ages).Sweep(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 7*100, freed.Rows)
	require.InEpsilon(t, want, freed.Bytes, 0.25)
}
