package retention_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/pebble"
	"halite/storage/retention"
)

// today is the current day of the tests. Their clock shows noon.
const today = 19_800

func now() time.Time { return time.UnixMilli(today*storage.DayMs + storage.DayMs/2) }

func openStore(t testing.TB, fs vfs.FS) storage.Store {
	t.Helper()
	s, err := pebble.Open(pebble.Options{Dir: "/db", FS: fs, Now: now, MemtableBytes: 64 << 10, CacheBytes: 1 << 20})
	require.NoError(t, err)
	return s
}

// agesOf resolves rules that keep samples of metrics for some days. Other metrics are kept for longest days.
func agesOf(t testing.TB, longest int, days map[string]int) *keyschema.RetentionByMetric {
	t.Helper()
	day := keyschema.Age(24 * time.Hour)
	var rules []keyschema.Rule
	for pattern, n := range days {
		age := keyschema.Age(n) * day
		rules = append(rules, keyschema.Rule{Pattern: pattern, Retention: &keyschema.RuleRetention{Raw: &age, Hours: &age}})
	}
	s, err := keyschema.NewSchema(rules)
	require.NoError(t, err)
	r, err := s.Retention(keyschema.RetentionByTier{keyschema.Age(longest) * day, keyschema.Age(longest) * day, 0})
	require.NoError(t, err)
	return r
}

var metrics = []string{"debug_a", "debug_b", "keep", "x_debug", "ü"}

// fill writes ten days of rows and states for several series of each metric.
func fill(t testing.TB, s storage.Store, ages *keyschema.RetentionByMetric) {
	t.Helper()
	ctx := context.Background()
	longest := ages.Longest()
	data, err := s.EnsureTable(ctx, storage.DataSchema(time.Duration(longest[keyschema.Raw])))
	require.NoError(t, err)
	states, err := s.EnsureTable(ctx, storage.RollupSchema(time.Duration(longest[keyschema.Hours]), 0))
	require.NoError(t, err)
	rule := keyschema.DefaultRule()
	for day := int64(today - 9); day <= today; day++ {
		var rows, cells []storage.RowMutation
		for _, metric := range metrics {
			for i := range 4 {
				prefix := rule.AppendPrefix(nil, metric, []keyschema.Tag{{Name: "i", Value: fmt.Sprint(i)}})
				for hour := day * 24; hour < day*24+24; hour += 5 {
					value := binary.BigEndian.AppendUint64(make([]byte, 0, 40), uint64(hour)*2654435761)
					rows = append(rows, storage.RowMutation{Key: keyschema.AppendHour(prefix[:len(prefix):len(prefix)], hour),
						Entries: []storage.Entry{{Kind: storage.SetCell, Family: storage.FamilySamples, Qualifier: []byte{1},
							TsMs: keyschema.HourCellMs(hour), Value: append(value, metric...)}}})
				}
				cells = append(cells, storage.RowMutation{Key: append(prefix[:len(prefix):len(prefix)], "99349"...),
					Entries: []storage.Entry{
						{Kind: storage.SetCell, Family: storage.FamilyHours, Qualifier: []byte{byte(day % 31), 's'},
							TsMs: (day+1)*storage.DayMs - 1, Value: []byte(metric)},
						{Kind: storage.SetCell, Family: storage.FamilyDays, Qualifier: []byte{byte(day % 31)},
							TsMs: (today+12)*storage.DayMs - 1, Value: []byte(metric)},
					}})
			}
		}
		require.NoError(t, data.Apply(ctx, rows))
		require.NoError(t, states.Apply(ctx, cells))
	}
	require.NoError(t, s.Sync(ctx))
}

// cells lists all cells of a family, by metric and day.
func cells(t testing.TB, s storage.Store, table, family string) map[string]map[int64]int {
	t.Helper()
	out := map[string]map[int64]int{}
	forEachCell(t, s, table, family, func(metric string, c storage.Cell) {
		if out[metric] == nil {
			out[metric] = map[int64]int{}
		}
		out[metric][c.TsMs/storage.DayMs]++
	})
	return out
}

func forEachCell(t testing.TB, s storage.Store, table, family string, visit func(metric string, c storage.Cell)) {
	t.Helper()
	tb, err := s.Table(context.Background(), table)
	require.NoError(t, err)
	it := tb.ReadRows(context.Background(), storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{
		Filter: storage.Filter{Families: []string{family}}})
	for it.Next() {
		metric, err := keyschema.MetricOf(it.Row().Key)
		require.NoError(t, err)
		for _, c := range it.Row().Cells {
			visit(metric, c)
		}
	}
	require.NoError(t, it.Err())
	require.NoError(t, it.Close())
}

// checksum returns the checksum of all cells of a family.
func checksum(t testing.TB, s storage.Store, table, family string) uint64 {
	t.Helper()
	sum := fnv.New64a()
	forEachCell(t, s, table, family, func(metric string, c storage.Cell) {
		fmt.Fprintf(sum, "%s %x %d %x\n", metric, c.Qualifier, c.TsMs, c.Value)
	})
	return sum.Sum64()
}

func newSweeper(t testing.TB, s storage.Store, ages *keyschema.RetentionByMetric) *retention.Sweeper {
	t.Helper()
	sweeper, err := retention.New(retention.Options{Store: s, Retention: keyschema.NewRetention(ages), Now: now,
		Grace: -1, Share: 1, RangesMax: 2})
	require.NoError(t, err)
	return sweeper
}
