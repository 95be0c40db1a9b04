package memory

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/storage/index/valueid"
)

// TestOrder compares the order by ranks with the order of labels.Compare, in and beyond 128 bits.
func TestOrder(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		names := []string{"A", "B", "Z", "_", "_a", "a", "b", "c", "d", "e", "f", "g"}[:1+rng.IntN(12)]
		values := make([][]string, len(names))
		for i := range names {
			for range 1 + rng.IntN(1<<uint(rng.IntN(14))) {
				values[i] = append(values[i], fmt.Sprintf("%x", rng.Uint32()))
			}
			slices.Sort(values[i])
			values[i] = slices.Compact(values[i])
		}
		r := RankColumns{Names: names, Rows: rng.IntN(300)}
		sets := make([]labels.Labels, r.Rows)
		builders := make([]*labels.Builder, r.Rows)
		for i := range builders {
			builders[i] = labels.NewBuilder(labels.FromStrings(model.MetricNameLabel, "m"))
		}
		sparse := rng.IntN(10)
		for c, name := range names {
			column := make([]uint32, r.Rows)
			for i := range column {
				if rng.IntN(10) >= sparse {
					column[i] = 1 + rng.Uint32N(uint32(len(values[c])))
					builders[i].Set(name, values[c][column[i]-1])
				}
			}
			r.Ranks = append(r.Ranks, column)
		}
		for i, b := range builders {
			sets[i] = b.Labels()
		}
		order := r.Order()
		for i := 1; i < len(order); i++ {
			require.LessOrEqual(t, labels.Compare(sets[order[i-1]], sets[order[i]]), 0,
				"seed %d: %s before %s", seed, sets[order[i-1]], sets[order[i]])
		}
	}
}

// TestCompareRows compares rows of an active table pairwise as labels.Compare does.
func TestCompareRows(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 9))
		c := New()
		for range 60 {
			b := labels.NewBuilder(labels.FromStrings(model.MetricNameLabel, "m"))
			for _, name := range []string{"A", "Z", "_", "_a", "a", "b"} {
				b.Set(name, []string{"", "", "x", "xy", "y"}[rng.IntN(5)])
			}
			_, _, err := c.Add(b.Labels(), 0)
			require.NoError(t, err)
		}
		var v View
		v.Load(c.Table("m"))
		builder := labels.NewScratchBuilder(8)
		for a := range v.Rows {
			for b := range v.Rows {
				want := labels.Compare(v.Labels(a, &builder), v.Labels(b, &builder))
				require.Equal(t, cmp.Compare(want, 0), cmp.Compare(v.Compare(a, b), 0), "seed %d rows %d and %d", seed, a, b)
			}
		}
	}
}

// TestSortRows sorts rows of a growing table, with and without the cached order of all rows.
func TestSortRows(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 11))
		c := New()
		var scratch SortScratch
		var v View
		builder := labels.NewScratchBuilder(8)
		for range 12 {
			for range 1 + rng.IntN(1+rng.IntN(200)) {
				b := labels.NewBuilder(labels.FromStrings(model.MetricNameLabel, "m"))
				for _, name := range []string{"A", "_", "a", "b"} {
					b.Set(name, strings.Repeat("x", rng.IntN(3))+fmt.Sprint(rng.IntN(6)))
				}
				b.Set("id", fmt.Sprint(rng.IntN(1<<(rng.IntN(12)))))
				_, _, err := c.Add(b.Labels(), 0)
				require.NoError(t, err)
			}
			before := v
			if v.Load(c.Table("m")); rng.IntN(3) == 0 && before.t != nil {
				v = before // a snapshot older than the cached order
			}
			var rows []uint32
			share := rng.IntN(11)
			for row := range v.Rows {
				if rng.IntN(10) < share {
					rows = append(rows, row)
				}
			}
			got := v.SortRows(slices.Clone(rows), &scratch)
			require.True(t, slices.IsSortedFunc(got, func(a, b uint32) int {
				return labels.Compare(v.Labels(a, &builder), v.Labels(b, &builder))
			}), "seed %d", seed)
			require.ElementsMatch(t, rows, got, "seed %d", seed)
		}
	}
}

func TestColumn(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		c := newColumn(newDictionary(1, "x", new(atomic.Int64)))
		limit := []uint32{2, 200, 300, 70_000, 1 << 31}[rng.IntN(5)]
		var ids []uint32
		for n := range uint32(rng.IntN(6000)) {
			id := rng.Uint32N(limit)
			if rng.IntN(2) == 0 && n > 0 {
				id = ids[n-1]
			}
			ids = append(ids, id)
			c.append(n, id)
			limit = min(limit+rng.Uint32N(2), 1<<31)
		}
		d := c.data.Load()
		set := valueid.NewSet(400)
		set.Add(rng.Uint32N(400))
		set.Add(rng.Uint32N(400))
		var want []uint32
		for row, id := range ids {
			require.Equal(t, id, d.At(uint32(row)), "seed %d", seed)
			if set.Has(id) {
				want = append(want, uint32(row))
			}
		}
		n := uint32(len(ids))
		require.Equal(t, fmt.Sprint(want), fmt.Sprint(d.Filter(nil, 0, n, set)), "seed %d", seed)
		if n > 0 {
			from, one := rng.Uint32N(n), ids[rng.IntN(len(ids))]
			var rows []uint32
			for row := from; row < n && one != 0; row++ {
				if ids[row] == one {
					rows = append(rows, row)
				}
			}
			require.Equal(t, rows, d.Filter(nil, from, n, valueid.NewSingleton(one)), "seed %d", seed)
		}
		require.Equal(t, fmt.Sprint(want), fmt.Sprint(d.Keep(valueid.AppendRange(nil, 0, n), set)), "seed %d", seed)
	}
}

func TestDictionaryOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	d := newDictionary(1, "x", new(atomic.Int64))
	known := map[string]uint32{}
	for range 3000 {
		v := strings.Repeat(fmt.Sprint(rng.IntN(5000)), 1+rng.IntN(200)*rng.IntN(2))
		id := d.Intern(v)
		if old, ok := known[v]; ok {
			require.Equal(t, old, id)
		}
		known[v] = id
		require.Equal(t, v, d.Value(id))
		if rng.IntN(100) == 0 {
			o := d.Sorted()
			require.Len(t, o.IDs, len(known))
			for i, id := range o.IDs {
				require.Equal(t, uint32(i)+1, o.ranks[id])
				require.True(t, i == 0 || d.Value(o.IDs[i-1]) < d.Value(id))
			}
		}
	}
	require.Zero(t, d.Lookup("absent"))
}
