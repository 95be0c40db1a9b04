package tables

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/pebble"
)

func openTestStore(t *testing.T) storage.Store {
	t.Helper()
	store, err := pebble.Open(pebble.Options{Dir: "db", FS: vfs.NewMem()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

const testHour = 490_000

// rulesFrom makes rules for a* by pairs of hour and salts.
func rulesFrom(pairs ...int64) []keyschema.Rule {
	rules := []keyschema.Rule{}
	for i := 0; i < len(pairs); i += 2 {
		rules = append(rules, keyschema.Rule{Pattern: "a*", FromHour: pairs[i], Salts: int(pairs[i+1])})
	}
	return rules
}

// putRow makes a store hold a row of samples.
func putRow(t *testing.T, store storage.Store) {
	t.Helper()
	data, err := store.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	require.NoError(t, data.Apply(t.Context(), []storage.RowMutation{{Key: []byte("abc#00##9510000"), Entries: []storage.Entry{
		{Kind: storage.SetCell, Family: storage.FamilySamples, Qualifier: []byte{1}, TsMs: 1, Value: []byte{1}},
	}}}))
}

// start handles rules as a server does at its start.
func start(t *testing.T, store storage.Store, wanted []keyschema.Rule, hour int64) (*keyschema.Schema, error) {
	t.Helper()
	schema, err := LoadSchema(t.Context(), store, wanted, hour)
	if err != nil || wanted == nil {
		return schema, err
	}
	change := SchemaChange{Store: store, Schema: schema, Stray: func(context.Context, int64) ([]string, error) { return nil, nil }}
	return schema, change.Apply(t.Context(), wanted, hour)
}

func TestSchemaIsRememberedAndOnlyGrows(t *testing.T) {
	store := openTestStore(t)
	salts := func(wanted []keyschema.Rule, hours ...int64) (out []int) {
		t.Helper()
		schema, err := start(t, store, wanted, testHour)
		require.NoError(t, err)
		for _, hour := range hours {
			out = append(out, schema.RuleAt("abc", hour).Salts)
		}
		return out
	}
	refused := func(want string, wanted []keyschema.Rule) {
		t.Helper()
		_, err := start(t, store, wanted, testHour)
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, []int{16}, salts(nil, testHour))
	require.Equal(t, []int{4}, salts(rulesFrom(0, 4), testHour), "an empty store takes any rules")
	require.Equal(t, []int{4}, salts(nil, testHour), "without a file the stored rules hold")
	putRow(t, store)
	require.Equal(t, []int{4, 64}, salts(rulesFrom(0, 4, 500_000, 64), testHour, 500_000))
	refused("must start after hour 490000", rulesFrom(0, 4, 400_000, 64))
	refused(`"a*" from hour 0 is in force`, rulesFrom())
	refused("salts -1", rulesFrom(600_000, -1))
	require.Equal(t, []int{4, 64}, salts(nil, testHour, 500_000), "a refused rule changes nothing")
}

// TestRulesWithoutAnHour: on a store with samples a new rule begins with the next hour, and keeps this hour at later
// starts. Earlier rules stay.
func TestRulesWithoutAnHour(t *testing.T) {
	store, next := openTestStore(t), keyschema.NextHour
	putRow(t, store)
	for _, c := range []struct {
		why    string
		hour   int64
		wanted []keyschema.Rule
		salts  map[int64]int // by hour
	}{
		{"a new rule", testHour, rulesFrom(next, 4), map[int64]int{0: 16, testHour: 16, testHour + 1: 4, testHour + 99: 4}},
		{"the same file later", testHour + 9, rulesFrom(next, 4), map[int64]int{testHour: 16, testHour + 1: 4, testHour + 99: 4}},
		{"other salts", testHour + 9, rulesFrom(next, 8), map[int64]int{testHour: 16, testHour + 9: 4, testHour + 10: 8}},
		{"back before it begins", testHour + 9, rulesFrom(next, 4),
			map[int64]int{testHour: 16, testHour + 9: 4, testHour + 99: 4}},
		{"back after it began", testHour + 12, rulesFrom(next, 8), map[int64]int{testHour + 12: 4, testHour + 13: 8}},
		{"no file", testHour + 20, nil, map[int64]int{testHour: 16, testHour + 12: 4, testHour + 13: 8}},
		{"an hour in the file", testHour + 20, rulesFrom(testHour+1, 4, testHour+13, 8),
			map[int64]int{testHour + 12: 4, testHour + 13: 8}},
		{"a rule after them", testHour + 20, rulesFrom(testHour+1, 4, testHour+13, 8, next, 32),
			map[int64]int{testHour + 13: 8, testHour + 20: 8, testHour + 21: 32}},
	} {
		schema, err := start(t, store, c.wanted, c.hour)
		require.NoError(t, err, c.why)
		for hour, salts := range c.salts {
			require.Equal(t, salts, schema.RuleAt("abc", hour).Salts, "%s: hour %d", c.why, hour)
		}
	}
	_, err := start(t, store, []keyschema.Rule{{Pattern: "a*", FromHour: 0, Salts: 4}}, testHour+30)
	require.ErrorContains(t, err, "without from_hour it begins with the next hour")
}

// TestLimitsHoldAtOnce: a start changes retention and limits of series at once, independently of schema rules.
func TestLimitsHoldAtOnce(t *testing.T) {
	store, most := openTestStore(t), 7
	putRow(t, store)
	wanted := append(rulesFrom(keyschema.NextHour, 4), keyschema.Rule{Pattern: "b", MaxSeries: &most})
	schema, err := LoadSchema(t.Context(), store, wanted, testHour)
	require.NoError(t, err)
	require.Equal(t, most, schema.SeriesLimit("b").Max)
	require.Equal(t, 16, schema.RuleAt("abc", testHour+1).Salts, "not before the samples of coming hours are known")
	change := SchemaChange{Store: store, Schema: schema, Stray: func(_ context.Context, fromMs int64) ([]string, error) {
		require.Equal(t, keyschema.HourStartMs(testHour+1), fromMs)
		return []string{"early"}, nil
	}}
	require.ErrorContains(t, change.Apply(t.Context(), wanted, testHour), `metric "early" already has samples after hour 490000`)
	require.Equal(t, 16, schema.RuleAt("abc", testHour+1).Salts)
	require.NoError(t, change.Apply(t.Context(), wanted[1:], testHour), "no rule of keys changes, so no sample is early")
}
