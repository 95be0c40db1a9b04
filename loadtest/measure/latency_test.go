package measure

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBuckets(t *testing.T) {
	last := -1
	for _, us := range []uint64{0, 1, 63, 64, 127, 128, 129, 255, 256, 1000, 1e6, 1e9, 1e12, 1 << 40} {
		bucket := bucketOf(us)
		require.Greater(t, bucket, last-1)
		require.InEpsilon(t, float64(us)+1, bucketMiddle(bucket)+1, 0.008, "%d µs", us)
		last = bucket
	}
	for us := uint64(1); us < 100_000; us++ {
		require.LessOrEqual(t, bucketOf(us)-bucketOf(us-1), 1, "a bucket is skipped at %d µs", us)
	}
	require.Less(t, bucketOf(math.MaxUint64), bucketsMax)
}

func TestQuantilesAgainstSorted(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var one, two Histogram
	var all []time.Duration
	for i := range 20_000 {
		d := time.Duration(math.Exp(r.NormFloat64()*2) * 1e6)
		all = append(all, d)
		if i%3 == 0 {
			one.Observe(d)
		} else {
			two.Observe(d)
		}
	}
	one.Merge(&two)
	slices.Sort(all)
	q := one.Quantiles()
	require.Equal(t, uint64(len(all)), q.Count)
	require.Equal(t, float64(all[len(all)-1])/1e6, q.MaxMs)
	for _, c := range []struct{ share, got float64 }{{0.5, q.P50Ms}, {0.95, q.P95Ms}, {0.99, q.P99Ms}} {
		want := float64(all[int(math.Ceil(c.share*float64(len(all))))-1]) / 1e6
		require.InEpsilon(t, want, c.got, 0.016, "quantile %g", c.share)
	}
	require.Equal(t, Quantiles{}, new(Histogram).Quantiles())
}
