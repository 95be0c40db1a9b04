package sorted

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMergeRunsAndUnion(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 4))
		var all, a, b []string
		for range rng.IntN(8) {
			var run []string
			for range rng.IntN(10) {
				run = append(run, fmt.Sprint(rng.IntN(30)))
			}
			slices.Sort(run)
			all = append(all, run...)
		}
		want := slices.Sorted(slices.Values(all))
		require.Equal(t, fmt.Sprint(want), fmt.Sprint(MergeRuns(all, strings.Compare)))
		for range rng.IntN(10) {
			a, b = append(a, fmt.Sprint(rng.IntN(9))), append(b, fmt.Sprint(rng.IntN(9)))
		}
		slices.Sort(a)
		slices.Sort(b)
		a, b = slices.Compact(a), slices.Compact(b)
		both := slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
		require.Equal(t, fmt.Sprint(both), fmt.Sprint(Union(a, b)))
	}
}
