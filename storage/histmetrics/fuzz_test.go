package histmetrics_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/histmetrics"
	"halite/storage/storagetest"
)

// FuzzCell opens a set with any key and value of a cell. Open refuses the cell as damaged, or the set has its hours.
func FuzzCell(f *testing.F) {
	f.Add("m", []byte{0, 0, 0, 1, 0, 0, 0, 2})
	f.Add("gr%C3%B6%C3%9Fe", []byte{0, 7, 0x32, 1, 0, 7, 0x32, 24})
	f.Add("%", []byte{0, 0, 0, 1, 0, 0, 0, 2})
	f.Add("m", []byte{0, 0, 0, 2, 0, 0, 0, 1})
	f.Add("m", []byte{})
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		if len(key) > storage.KeyBytesMax/2 || len(value) > 1<<10 {
			return
		}
		meta, err := storagetest.NewModel(time.Now).EnsureTable(t.Context(), storage.MetaSchema())
		require.NoError(t, err)
		require.NoError(t, meta.Apply(t.Context(), []storage.RowMutation{{Key: []byte("histograms#" + key), Entries: []storage.Entry{
			{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte("hours"), Value: value},
		}}}))
		set, err := histmetrics.Open(t.Context(), meta)
		if err != nil {
			require.True(t, errors.Is(err, storage.ErrCorrupt), err)
			return
		}
		metric, err := keyschema.Unescape([]byte(key))
		require.NoError(t, err)
		require.True(t, set.Has(metric, 0, keyschema.HourMax))
		require.Len(t, value, 8)
	})
}
