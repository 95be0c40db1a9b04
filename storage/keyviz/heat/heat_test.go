package heat_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/storage/keyviz/heat"
	"halite/storage/storagetest/seeds"
)

// randomColumn has up to ranges ranges of up to 20 metrics with 4 salts.
func randomColumn(r *rand.Rand, ranges int) *heat.Column {
	starts := []string{""}
	for range r.IntN(ranges) {
		starts = append(starts, fmt.Sprintf("m%02d#%02d#a=%d,", r.IntN(20), r.IntN(4), r.IntN(50)))
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	c := &heat.Column{StartMs: 60_000 * r.Int64N(1000), SpanMs: 60_000, Starts: starts, Counts: make([]heat.Counts, len(starts))}
	for i := range c.Counts {
		for m := range c.Counts[i] {
			c.Counts[i][m] = float64(r.IntN(1000))
		}
	}
	return c
}

func requireSame(t testing.TB, want, got heat.Counts) {
	t.Helper()
	for m := range want {
		require.InEpsilon(t, want[m]+1, got[m]+1, 1e-6, heat.Metric(m))
	}
}

// TestTotalsStay: sums of columns with other ranges, merges, and the durable form do not change the total.
func TestTotalsStay(t *testing.T) {
	codec, err := heat.NewCodec()
	require.NoError(t, err)
	first, count := seeds.Range(t, seeds.Default{Full: 20, Short: 5})
	for seed := first; seed < first+count; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		sum, want := randomColumn(r, 100), heat.Counts{}
		want = sum.Total()
		for range 10 {
			next := randomColumn(r, 100)
			total := next.Total()
			want.Add(&total, 1)
			sum.Add(next)
			require.NoError(t, sum.Validate())
			requireSame(t, want, sum.Total())
			sum.Reduce(1 + r.IntN(200))
			require.NoError(t, sum.Validate())
			requireSame(t, want, sum.Total())
			if sum, err = codec.Parse(codec.Append(nil, sum)); err != nil {
				t.Fatal(err)
			}
			requireSame(t, want, sum.Total())
		}
	}
}

func TestSpread(t *testing.T) {
	var got []string
	put := func(i, at int, share float64) { got = append(got, fmt.Sprintf("%d→%d:%.2f", i, at, share)) }
	heat.Spread([]string{"", "b", "f"}, []string{"", "b", "c", "d", "f"}, put)
	require.Equal(t, []string{"0→0:1.00", "1→1:0.33", "1→2:0.33", "1→3:0.33", "2→4:1.00"}, got)
	got = nil
	heat.Spread([]string{"", "b", "c"}, []string{"", "x"}, put)
	require.Equal(t, []string{"0→0:1.00", "1→0:1.00", "2→0:0.50", "2→1:0.50"}, got)
}

func TestBorderAndSeparator(t *testing.T) {
	for _, c := range []struct {
		before, key string
		want        heat.Border
	}{
		{"", "up#00#", heat.BorderMetric}, {"up#00#a=1,", "up#00#a=2,", heat.BorderNone}, {"up#00#", "up#01#", heat.BorderSalt},
		{"up#00#", "up2#00#", heat.BorderMetric}, {"&a&up#00#", "&b&up#00#", heat.BorderTenant}, {"&a&up#", "up#", heat.BorderTenant},
		{"&a&up#", "&a&vp#", heat.BorderMetric},
	} {
		require.Equal(t, c.want, heat.BorderOf(c.before, c.key), "%s to %s", c.before, c.key)
	}
	for _, c := range [][3]string{
		{"a#00#x=1#", "b#00#x=1#", "b#"}, {"a#00#x=1#", "a#01#x=1#", "a#01#"}, {"a#00#x=1,y=2#", "a#00#x=2,y=2#", "a#00#x=2,"},
		{"a#00#x=1#", "a#00#x=2#", "a#00#x=2#"}, {"a", "ab", "ab"},
	} {
		key := heat.Separator(c[0], c[1])
		require.Equal(t, c[2], key)
		require.Greater(t, key, c[0])
		require.LessOrEqual(t, key, c[1])
	}
}

// TestRowsKeepHotRanges: a hot range keeps its row, cold ones merge, and no row has two metrics.
func TestRowsKeepHotRanges(t *testing.T) {
	var starts []string
	var load []float64
	for i := range 1000 {
		starts = append(starts, fmt.Sprintf("m%d#00#a=%03d,", i/500, i%500))
		load = append(load, 1)
	}
	load[123], load[777] = 5000, 9000
	rows := heat.Rows(starts, load, 20)
	require.LessOrEqual(t, len(rows), 20)
	require.Contains(t, rows, 123)
	require.Contains(t, rows, 124)
	require.Contains(t, rows, 777)
	require.Contains(t, rows, 778)
	require.Contains(t, rows, 500)
	require.Equal(t, []int{0}, heat.Rows(starts, load, 1))
}

var rewrite = flag.Bool("rewrite", false, "rewrite the golden file")

func golden() *heat.Column {
	c := &heat.Column{
		StartMs: 1_700_000_040_000, SpanMs: 60_000, Starts: []string{"", "up#00#", "up#01#a=1,"}, Counts: make([]heat.Counts, 3),
	}
	for i := range c.Counts {
		c.Counts[i][heat.WriteCells], c.Counts[i][heat.ReadNanosMax] = float64(10*i), 1.5
	}
	return c
}

// TestGolden: a stored column stays readable.
func TestGolden(t *testing.T) {
	codec, err := heat.NewCodec()
	require.NoError(t, err)
	path := filepath.Join("testdata", "column.bin")
	if *rewrite {
		require.NoError(t, os.WriteFile(path, codec.Append(nil, golden()), 0o644))
	}
	src, err := os.ReadFile(path)
	require.NoError(t, err)
	c, err := codec.Parse(src)
	require.NoError(t, err)
	require.Equal(t, golden(), c)
}

func TestBadColumns(t *testing.T) {
	codec, err := heat.NewCodec()
	require.NoError(t, err)
	good := codec.Append(nil, golden())
	for _, src := range [][]byte{nil, {1}, {2, 0}, good[:len(good)-1], append(slices.Clone(good), 0), {1, 0, 0, 0}} {
		_, err := codec.Parse(src)
		require.ErrorIs(t, err, heat.ErrCorrupt, "%x", src)
	}
	for _, change := range []func(c *heat.Column){
		func(c *heat.Column) { c.Starts[1] = "z" }, func(c *heat.Column) { c.Starts[0] = "a" }, func(c *heat.Column) { c.SpanMs = 0 },
		func(c *heat.Column) { c.Counts[0][0] = -1 },
	} {
		c := golden()
		change(c)
		_, err := codec.Parse(codec.Append(nil, c))
		require.ErrorIs(t, err, heat.ErrCorrupt)
	}
	_, err = heat.ParseMetric("cpu")
	require.ErrorContains(t, err, "write_cells")
}

// FuzzParse: bytes are refused, or the parsed column survives a round trip.
func FuzzParse(f *testing.F) {
	codec, err := heat.NewCodec()
	require.NoError(f, err)
	f.Add(codec.Append(nil, golden()))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := codec.Parse(src)
		if err != nil {
			require.ErrorIs(t, err, heat.ErrCorrupt)
			return
		}
		again, err := codec.Parse(codec.Append(nil, c))
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}
