package query_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"halite/query"
)

// TestCountHistograms counts series with native histograms among others. Operators need only the times of histograms, so they
// leave nothing to Prometheus's engine.
func TestCountHistograms(t *testing.T) {
	rng := newRandOf(t)
	compareHistograms(t, rng, func(t *testing.T, ours, theirs *query.Engine) { compareCounts(t, exprs{Rand: rng}, ours, theirs) })
}

// compareCounts sends random counts to both engines.
func compareCounts(t *testing.T, g exprs, ours, theirs *query.Engine) {
	ways := map[string]int{}
	cases := unlessShort(400, 100)
	for i := range cases {
		text := pick(g, "count", "group") + pick(g, "", " by (__name__)", " by (job)", " without (inst)") +
			"(" + pick(g, `{__name__=~".+"}`, `{__name__=~".+",job="1"}`, `{job!="1"}`, "turns", "hi", `{__name__=~"g|turns|hc"}`) +
			g.modifiers() + ")"
		run := instantCase(g, text)
		if i%2 == 0 {
			run = rangeCase(g, text)
		}
		want, got := run(theirs), run(ours)
		require.NoError(t, difference(want, got), text)
		ways[got.way]++
	}
	require.Zero(t, ways["given up"], "evaluated twice")
	require.Greater(t, ways["columnar"], int(cases)/2, "the engine evaluates only lookbacks below a millisecond")
}
