package rollup_test

import (
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"

	"halite/rollup"
	"halite/rollup/rolluptest"
)

// TestJoinToIsAppend joins random ranges of a day's buckets, some of them empty, to an earlier state. The result has the bits
// of joining one state after the other.
func TestJoinToIsAppend(t *testing.T) {
	rng := rolluptest.Seeded(t)
	for range 5000 {
		states := rolluptest.Day(rng, 0)
		for i := range states {
			if rng.IntN(4) == 0 {
				states[i] = rollup.State{Stale: rng.IntN(2) == 0}
			}
		}
		var c rollup.Columns
		c.Reset(0, rolluptest.HourMs, len(states), rollup.Fields(rng.IntN(int(rollup.FieldsAll)+1)))
		for i, s := range states {
			c.Set(i, s)
		}
		i := rng.IntN(len(states) + 1)
		j := i + rng.IntN(len(states)-i+1)
		var want, got rollup.State
		if i > 0 && rng.IntN(2) == 0 {
			want = c.Join(0, i)
			got = want
		}
		for _, b := range states[i:j] {
			want.Append(&b, c.Fields)
		}
		c.JoinTo(&got, i, j)
		require.Equal(t, rolluptest.Bits(want), rolluptest.Bits(got), "buckets %d to %d, fields %x", i, j, c.Fields)
	}
}

// TestComputeFields: the fields that a function needs equal the fields of Compute.
func TestComputeFields(t *testing.T) {
	rng := rolluptest.Seeded(t)
	for range 5000 {
		tsMs, values := rolluptest.Samples(rng, rng.IntN(120), rng.IntN(3) == 0)
		plain, rising := true, true
		for i, v := range values {
			plain = plain && !value.IsStaleNaN(v)
			rising = rising && (i == 0 || !(v < values[i-1]))
		}
		if rng.IntN(3) == 0 {
			plain, rising = false, false // the reader may not know these properties
		}
		want := rollup.Compute(tsMs, values)
		fn := rollup.Func(rng.IntN(int(rollup.Changes) + 1))
		fields := fn.Fields()
		if fields&(rollup.FieldSum|rollup.FieldMoments) != 0 {
			fields |= rollup.FieldMin | rollup.FieldMax | rollup.FieldNaNs
		}
		got := rollup.ComputeFields(tsMs, values, fields, plain, rising)
		require.Equal(t, [3]int64{want.Count, want.FirstMs, want.LastMs}, [3]int64{got.Count, got.FirstMs, got.LastMs})
		a, b := rolluptest.Only(want, fields), rolluptest.Only(got, fields)
		a.Sum, a.SumLow, b.Sum, b.SumLow = a.Total(), 0, b.Total(), 0
		if math.Abs(a.Sum-b.Sum) <= lastBit(a.Sum) {
			b.Sum = a.Sum // a low part of about half a last bit may round either way
		}
		require.Equal(t, rolluptest.Bits(a), rolluptest.Bits(b), "%s of %v", fn, values)
	}
}

// lastBit is the distance to the next float, or 0 if there is none.
func lastBit(v float64) float64 {
	if v-v != 0 {
		return 0
	}
	return math.Nextafter(math.Abs(v), math.Inf(1)) - math.Abs(v)
}
