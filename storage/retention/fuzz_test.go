package retention_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/retention"
	"halite/storage/storagetest"
)

// noted returns a store with one cell in the row of the package.
func noted(t *testing.T, qualifier string, value []byte) storage.Store {
	store := storagetest.NewModel(now)
	meta, err := store.EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	require.NoError(t, meta.Apply(t.Context(), []storage.RowMutation{{Key: []byte("retention"), Entries: []storage.Entry{
		{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte(qualifier), Value: value}}}}))
	return store
}

// brief writes a row of two metrics on each of ten days.
func brief(t *testing.T, store storage.Store) {
	data, err := store.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	rule := keyschema.DefaultRule()
	var rows []storage.RowMutation
	for day := int64(today - 9); day <= today; day++ {
		for _, metric := range []string{"debug_a", "keep"} {
			rows = append(rows, storage.RowMutation{Key: keyschema.AppendHour(rule.AppendPrefix(nil, metric, nil), day*24),
				Entries: []storage.Entry{{Kind: storage.SetCell, Family: storage.FamilySamples, Qualifier: []byte{1},
					TsMs: keyschema.HourCellMs(day * 24), Value: []byte(metric)}}})
		}
	}
	require.NoError(t, data.Apply(t.Context(), rows))
}

const sweptOf = `{"rules":[{"pattern":"debug_*","raw":"3d","hours":"3d","days":"0","histograms":"3d"},` +
	`{"pattern":"*","raw":"30d","hours":"30d","days":"0","histograms":"30d"}],"days":{"raw":{"debug_*":%d}}}`

// FuzzSwept stores any progress of a sweep. A sweep then drops no data within its retention. It drops all other data, except
// data that was dropped according to the progress.
func FuzzSwept(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(sweptOf, today-5)))
	f.Add([]byte(fmt.Sprintf(sweptOf, int64(1)<<62)))
	f.Add([]byte(fmt.Sprintf(sweptOf, -7)))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`{"days":{"raw":null}}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, value []byte) {
		store := noted(t, "swept", value)
		brief(t, store)
		ages := agesOf(t, 30, map[string]int{"debug_*": 3})
		sweep := func() {
			s, err := retention.New(retention.Options{Store: store, Retention: keyschema.NewRetention(ages), Now: now,
				Grace: -1, Share: 1})
			require.NoError(t, err)
			_, err = s.Sweep(t.Context())
			require.NoError(t, err)
		}
		sweep()
		found := cells(t, store, storage.TableData, storage.FamilySamples)
		require.Len(t, found["keep"], 10)
		due := 0
		for day := int64(today - 9); day <= today; day++ {
			if day >= today-3 {
				require.Equal(t, 1, found["debug_a"][day], "day %d", day)
			} else {
				due += found["debug_a"][day]
			}
		}
		require.True(t, due == 0 || bytes.Contains(value, []byte("debug_*")), "%d rows are left after %q",
			due, value)
		sweep()
		require.Equal(t, found, cells(t, store, storage.TableData, storage.FamilySamples),
			"the second sweep reads the progress of the first")
	})
}

// TestDaysToComeWereNotSwept checks that a sweep logs impossible progress and ignores it.
func TestDaysToComeWereNotSwept(t *testing.T) {
	for value, says := range map[string]string{
		fmt.Sprintf(sweptOf, today+1):    "were swept up to day",
		`{"version":2}`:                  "version 2",
		`{`:                              "unexpected end",
		fmt.Sprintf(sweptOf, today-7):    "",
		fmt.Sprintf(sweptOf, -today):     "",
		strings.Repeat(" ", 2<<20):       "2097152 bytes",
		`{"rules":null,"days":{"x":{}}}`: "",
	} {
		store, log := noted(t, "swept", []byte(value)), new(bytes.Buffer)
		brief(t, store)
		ages := keyschema.NewRetention(agesOf(t, 30, map[string]int{"debug_*": 3}))
		s, err := retention.New(retention.Options{Store: store, Retention: ages,
			Now: now, Grace: -1, Logger: slog.New(slog.NewTextHandler(log, nil))})
		require.NoError(t, err)
		freed, err := s.Sweep(t.Context())
		require.NoError(t, err)
		want := int64(6)
		if strings.Contains(value, fmt.Sprint(today-7)) {
			want = 4
		}
		require.Equal(t, want, freed.Rows, value)
		require.Contains(t, log.String(), says)
		require.Equal(t, says != "", strings.Contains(log.String(), `table meta, row \"retention\", qualifier \"swept\"`), log)
	}
}

// FuzzServerRetention checks that ServerRetention returns the stored retention, or an error that names the cell.
func FuzzServerRetention(f *testing.F) {
	f.Add([]byte(`{"pattern":"*","raw":"30d","hours":"400d","days":"0"}`))
	f.Add([]byte(`{"pattern":"*","raw":"30d","hours":"400d","days":"0","histograms":"7d"}`))
	f.Add([]byte(`{"raw":"106751d"}`))
	f.Add([]byte(`{"raw":"-1d"}`))
	f.Add([]byte(`{"version":7}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, value []byte) {
		store := noted(t, "ages", value)
		ages, found, err := retention.ServerRetention(t.Context(), store)
		if err != nil {
			if known := errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrSchemaMismatch); !known ||
				!strings.Contains(err.Error(), `table meta, row "retention", qualifier "ages"`) {
				t.Fatal(err)
			}
			return
		}
		for _, age := range ages {
			require.False(t, !found || age < 0 || time.Duration(age)%time.Millisecond != 0, "%d", age)
		}
		require.NoError(t, retention.StoreServerRetention(t.Context(), store, ages))
		again, found, err := retention.ServerRetention(t.Context(), store)
		require.True(t, found && err == nil)
		require.Equal(t, ages, again)
	})
}
