package retention_test

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/retention"
	"halite/storage/storagetest"
)

// kindsAges keeps histograms of most metrics for 5 days, and histograms of debug_* for 2.
func kindsAges(t testing.TB) *keyschema.RetentionByMetric {
	t.Helper()
	day, two, three := keyschema.AgeMin, 2*keyschema.AgeMin, 3*keyschema.AgeMin
	s, err := keyschema.NewSchema([]keyschema.Rule{
		{Pattern: "debug_*", Retention: &keyschema.RuleRetention{Histograms: &two}},
		{Pattern: "x_*", Retention: &keyschema.RuleRetention{Raw: &three}},
	})
	require.NoError(t, err)
	r, err := s.Retention(keyschema.RetentionByTier{8 * day, 0, 0, 5 * day})
	require.NoError(t, err)
	return r
}

// fillKinds writes ten days of cells of all kinds. debug_b has only histograms, keep has floats on even days only.
func fillKinds(t testing.TB, s storage.Store, ages *keyschema.RetentionByMetric) storage.Table {
	t.Helper()
	longest := ages.Longest()
	data, err := s.EnsureTable(t.Context(), storage.DataSchema(time.Duration(longest[keyschema.Raw])))
	require.NoError(t, err)
	rule := keyschema.DefaultRule()
	var rows []storage.RowMutation
	for day := int64(today - 9); day <= today; day++ {
		for _, metric := range metrics {
			prefix := rule.AppendPrefix(nil, metric, []keyschema.Tag{{Name: "i", Value: "0"}})
			row := storage.RowMutation{Key: keyschema.AppendHour(prefix, day*24+20)}
			for kind, family := range storage.SampleFamilies() {
				if hasFloats := metric != "debug_b" && (metric != "keep" || day%2 == 0); kind == 0 && !hasFloats {
					continue
				}
				row.Entries = append(row.Entries, storage.Entry{Kind: storage.SetCell, Family: family, Qualifier: []byte{1},
					TsMs: keyschema.HourCellMs(day*24 + 20), Value: []byte(metric)})
			}
			rows = append(rows, row)
		}
	}
	require.NoError(t, data.Apply(t.Context(), rows))
	require.NoError(t, s.Sync(t.Context()))
	return data
}

// wantKinds demands that each metric has the days of each kind that its ages keep.
func wantKinds(t *testing.T, s storage.Store, ages *keyschema.RetentionByMetric) {
	t.Helper()
	nowMs := now().UnixMilli()
	for _, family := range storage.SampleFamilies() {
		got := cells(t, s, storage.TableData, family)
		for _, metric := range metrics {
			of := ages.ForMetric(metric)
			raw := of[keyschema.Raw].CutoffMs(nowMs) / storage.DayMs
			histograms := of[keyschema.NativeHistograms].CutoffMs(nowMs) / storage.DayMs
			for day := int64(today - 9); day <= today; day++ {
				floats := metric != "debug_b" && (metric != "keep" || day%2 == 0)
				kept := day >= raw
				switch {
				case family == storage.FamilySamples:
					kept = kept && floats
				case family == storage.FamilyHistograms || !floats:
					kept = day >= histograms
				}
				require.Equal(t, kept, got[metric][day] > 0, "family %s of %s of day %d", family, metric, day-today)
			}
		}
	}
}

// TestSweepHistograms drops histograms by their own age. Exemplars and start times go with their samples.
func TestSweepHistograms(t *testing.T) {
	for name, open := range map[string]func() storage.Store{
		"pebble": func() storage.Store { return openStore(t, vfs.NewMem()) },
		"any":    func() storage.Store { return storagetest.NewModel(now) }, // which does not know its days
	} {
		t.Run(name, func(t *testing.T) {
			ctx, s := context.Background(), open()
			ages := kindsAges(t)
			fillKinds(t, s, ages)
			freed, err := newSweeper(t, s, ages).Sweep(ctx)
			require.NoError(t, err)
			require.Positive(t, freed.Ranges)
			if name == "any" { // a multi-day window keeps exemplars of a metric with floats on some of its days
				return
			}
			require.NoError(t, s.CollectGarbage(ctx))
			got := cells(t, s, storage.TableData, storage.FamilyHistograms)
			require.Len(t, got["keep"], 6)
			require.Len(t, got["debug_a"], 3)
			require.Len(t, got["x_debug"], 4)
			require.Len(t, cells(t, s, storage.TableData, storage.FamilySamples)["debug_a"], 9)
			require.Len(t, cells(t, s, storage.TableData, storage.FamilyExemplars)["debug_a"], 9)
			require.Len(t, cells(t, s, storage.TableData, storage.FamilyExemplars)["debug_b"], 3)
			require.Len(t, cells(t, s, storage.TableData, storage.FamilyStartTimes)["debug_b"], 3)
			wantKinds(t, s, ages)
			again, err := newSweeper(t, s, ages).Sweep(ctx)
			require.NoError(t, err)
			require.Zero(t, again)
			require.NoError(t, s.Close())
		})
	}
}

// TestCostsOfHistograms lists histograms as a separate tier.
func TestCostsOfHistograms(t *testing.T) {
	s, ages := openStore(t, vfs.NewMem()), kindsAges(t)
	fillKinds(t, s, ages)
	five, long := 5*keyschema.AgeMin, 9*keyschema.AgeMin
	try := retention.Change{}
	try.Retention[keyschema.Raw] = &five
	costs, err := retention.Costs(t.Context(), s, ages, now(), try)
	require.NoError(t, err)
	var got []retention.Cost
	for _, c := range costs {
		if c.Tier == "histograms" {
			got = append(got, c)
		}
	}
	require.Len(t, got, 3)
	require.Equal(t, "x_*", got[1].Pattern)
	require.Equal(t, 2*keyschema.AgeMin, got[0].NewAge)
	require.Equal(t, five, got[1].NewAge, "as long as samples")
	require.Equal(t, five, got[2].NewAge)
	require.Positive(t, got[0].HiddenBytes)
	try = retention.Change{}
	try.Retention[keyschema.NativeHistograms] = &long
	_, err = retention.Costs(t.Context(), s, ages, now(), try)
	require.ErrorIs(t, err, retention.ErrBadChange)
	require.NoError(t, s.Close())
}
