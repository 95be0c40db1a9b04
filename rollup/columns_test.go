package rollup

import (
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"
)

// TestJoinToIsAppend joins random ranges of a day's buckets, some of them empty, to what came before: the bits are those
// of joining one state after the other.
func TestJoinToIsAppend(t *testing.T) {
	rng := seeded(t)
	for range 5000 {
		states := day(rng, 0)
		for i := range states {
			if rng.IntN(4) == 0 {
				states[i] = State{Stale: rng.IntN(2) == 0}
			}
		}
		var c Columns
		c.Reset(0, hourMs, len(states), Fields(rng.IntN(int(FieldsAll)+1)))
		for i, s := range states {
			c.Set(i, s)
		}
		i := rng.IntN(len(states) + 1)
		j := i + rng.IntN(len(states)-i+1)
		var want, got State
		if i > 0 && rng.IntN(2) == 0 {
			want = c.Join(0, i)
			got = want
		}
		for _, b := range states[i:j] {
			want.Append(&b, c.Fields)
		}
		c.JoinTo(&got, i, j)
		require.Equal(t, bitsOf(want), bitsOf(got), "buckets %d to %d, fields %x", i, j, c.Fields)
	}
}

// TestComputeFields: what a function needs of samples is what all fields of them say.
func TestComputeFields(t *testing.T) {
	rng := seeded(t)
	for range 5000 {
		tsMs, values := column(rng, rng.IntN(120), rng.IntN(3) == 0)
		plain, rising := true, true
		for i, v := range values {
			plain = plain && !value.IsStaleNaN(v)
			rising = rising && (i == 0 || !(v < values[i-1]))
		}
		if rng.IntN(3) == 0 {
			plain, rising = false, false // not known
		}
		want := Compute(tsMs, values)
		fn := Func(rng.IntN(int(functionsAll)))
		fields := fn.Fields()
		if fields&(FieldSum|FieldMoments) != 0 {
			fields |= FieldMin | FieldMax | FieldNaNs
		}
		got := ComputeFields(tsMs, values, fields, plain, rising)
		require.Equal(t, [3]int64{want.Count, want.FirstMs, want.LastMs}, [3]int64{got.Count, got.FirstMs, got.LastMs})
		a, b := only(want, fields), only(got, fields)
		a.Sum, a.SumLow, b.Sum, b.SumLow = a.Total(), 0, b.Total(), 0
		if math.Abs(a.Sum-b.Sum) <= lastBit(a.Sum) {
			b.Sum = a.Sum // of what a stored sum lacks few bits are kept: if that is about half a last bit, it may go either way
		}
		require.Equal(t, bitsOf(a), bitsOf(b), "%s of %v", fn, values)
	}
}

// lastBit is the distance to the next number, 0 if there is none.
func lastBit(v float64) float64 {
	if v-v != 0 {
		return 0
	}
	return math.Nextafter(math.Abs(v), math.Inf(1)) - math.Abs(v)
}
