package head_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/ingest/head"
	"halite/keyschema"
)

// TestTailsOfAnyIntervals appends samples at a fixed interval for a while, then skips or repeats some, sends late ones, or adds
// jitter. After each sample the head must hold the same samples as a map.
func TestTailsOfAnyIntervals(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 3))
		h := newHead(t, head.Options{Stripes: 1, RowBytesMax: 1 << 16}, 1)
		hourMs := int64(baseMs) + int64(rng.IntN(3))*keyschema.HourMs
		stepMs, oddOf := int64(1+rng.IntN(20_000)), 1+rng.IntN(60)
		want := map[int64]uint64{}
		atMs := hourMs + rng.Int64N(stepMs)
		for n := 0; n < 90 && atMs < hourMs+keyschema.HourMs; n++ {
			value := randomValue(rng)
			require.NoError(t, (&writer{}).append(h, 0, []head.Sample{{Ref: 1, TsMs: atMs, Value: value}}))
			want[atMs] = math.Float64bits(value)
			tsMs, values, err := h.AppendSamples(1, 0, math.MaxInt64, nil, nil)
			require.NoError(t, err)
			require.True(t, slices.IsSorted(tsMs))
			got := map[int64]uint64{}
			for i, ms := range tsMs {
				got[ms] = math.Float64bits(values[i])
			}
			require.Equal(t, want, got, "seed %d, sample %d", seed, n)
			requireAccount(t, h)
			if rng.IntN(oddOf) > 0 {
				atMs += stepMs
				continue
			}
			switch rng.IntN(4) {
			case 0: // some are missing
				atMs += stepMs * int64(2+rng.IntN(3))
			case 1: // the same again
			case 2: // an earlier one
				atMs = max(hourMs, atMs-stepMs*rng.Int64N(20))
			case 3:
				atMs += 1 + rng.Int64N(2*stepMs)
			}
		}
	}
}

// TestFixedIntervalTailsTakeLess checks that twelve samples at a fixed interval need no offsets, whatever the interval. If
// one sample breaks the interval, each of them needs an offset.
func TestFixedIntervalTailsTakeLess(t *testing.T) {
	for _, stepMs := range []int64{1, 15_000, 300_000} {
		t.Run(fmt.Sprint(stepMs, " ms"), func(t *testing.T) {
			bytesOf := func(lastMs int64) int64 {
				h := newHead(t, head.Options{Stripes: 1, RowBytesMax: 1 << 16}, 1)
				for n := range int64(12) {
					atMs := baseMs + n*stepMs
					if n == 11 {
						atMs += lastMs
					}
					require.NoError(t, (&writer{}).append(h, 0, []head.Sample{{Ref: 1, TsMs: atMs}}))
				}
				requireAccount(t, h)
				return h.Bytes()
			}
			require.Equal(t, int64(48+12*8+8), bytesOf(0))
			require.Equal(t, int64(48+12*11), bytesOf(1))
		})
	}
}
