package replay_test

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage/keyviz"
	"halite/storage/keyviz/diagnosis"
	"halite/storage/keyviz/replay"
)

// recorded reads an example: the load of keys by minute, and the row key that the default rule gives to the series of each line.
func recorded(t *testing.T, name string) (bad, good *keyviz.Sample) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name+".csv"))
	require.NoError(t, err)
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	rule := keyschema.DefaultRule()
	var badKeys, goodKeys []string
	var counts []float64
	var columns []int
	for _, line := range lines[1:] {
		column, err := strconv.Atoi(line[0])
		require.NoError(t, err)
		count, err := strconv.ParseFloat(line[5], 64)
		require.NoError(t, err)
		key := rule.AppendPrefix(nil, line[2], []keyschema.Tag{{Name: line[3], Value: line[4]}})
		columns, counts = append(columns, column), append(counts, count)
		badKeys, goodKeys = append(badKeys, line[1]), append(goodKeys, string(keyschema.AppendHour(key, 495_000)))
	}
	return sample(columns, badKeys, counts), sample(columns, goodKeys, counts)
}

func sample(columns []int, keys []string, counts []float64) *keyviz.Sample {
	s := &keyviz.Sample{Keys: slices.Compact(slices.Sorted(slices.Values(keys)))}
	for c := range slices.Max(columns) + 1 {
		s.TimesMs = append(s.TimesMs, int64(c)*60_000)
		s.Weights = append(s.Weights, make([]float64, len(s.Keys)))
	}
	s.TimesMs = append(s.TimesMs, int64(len(s.Weights))*60_000)
	for i, key := range keys {
		at, _ := slices.BinarySearch(s.Keys, key)
		s.Weights[columns[i]][at] += counts[i]
	}
	return s
}

// shape names the pattern of a map: a diagonal, a band or even noise.
func shape(r *replay.Result) string {
	for _, f := range diagnosis.Find(r.Map, 0) {
		if f.ID == diagnosis.SequentialWrites {
			return "diagonal"
		}
	}
	if r.MaxOverMean > 4 {
		return "band"
	}
	return "even"
}

func total(m *keyviz.Map) (sum float64) {
	for _, column := range m.Values {
		for _, n := range column {
			sum += n
		}
	}
	return sum
}

// TestBadKeys: bad keys show as bands and diagonals, and the keys of the default rule as even noise.
func TestBadKeys(t *testing.T) {
	for name, want := range map[string]string{
		"time-first": "diagonal", "sequential-id": "diagonal", "mile-first": "band", "static-key": "band",
		"domains-not-reversed": "band",
	} {
		t.Run(name, func(t *testing.T) {
			bad, good := recorded(t, name)
			before, after := replay.Replay(bad, replay.Same, 64), replay.Replay(good, replay.Same, 64)
			t.Logf("max/mean %.2f → %.2f", before.MaxOverMean, after.MaxOverMean)
			require.Equal(t, want, shape(before))
			require.Equal(t, "even", shape(after))
			require.Less(t, after.MaxOverMean, before.MaxOverMean/2)
			require.InEpsilon(t, total(before.Map), total(after.Map), 1e-9)
		})
	}
}

// TestLayouts: a layout turns good keys into bad ones, and another layout turns them back.
func TestLayouts(t *testing.T) {
	_, good := recorded(t, "time-first")
	wants := map[string]string{replay.TimeFirst: "diagonal", replay.SequentialFirst: "diagonal", replay.Static: "band"}
	for name, want := range wants {
		layout, err := replay.Named(name, good)
		require.NoError(t, err)
		r := replay.Replay(good, layout, 64)
		require.Equal(t, want, shape(r), name)
		require.InEpsilon(t, total(replay.Replay(good, replay.Same, 1).Map), total(r.Map), 1e-9)
	}
	_, err := replay.Named("random", good)
	require.ErrorIs(t, err, replay.ErrBadLayout)
	require.ErrorContains(t, err, replay.TimeFirst)

	// One salt leaves sequential numbers in their order.
	_, orders := recorded(t, "sequential-id")
	schema, err := keyschema.NewSchema([]keyschema.Rule{{Pattern: "order_total", Salts: 1}})
	require.NoError(t, err)
	r := replay.Replay(orders, replay.Rules(schema), 64)
	require.Equal(t, "diagonal", shape(r))
	require.Contains(t, r.Map.Starts[1], "order_total#00#order=")
	require.Equal(t, "no row key", replay.Rules(schema)("no row key", 0))

	empty := replay.Replay(&keyviz.Sample{TimesMs: []int64{0, 1}, Keys: []string{"a"}, Weights: [][]float64{{0}}}, replay.Same, 4)
	require.Equal(t, 1.0, empty.MaxOverMean)
}
