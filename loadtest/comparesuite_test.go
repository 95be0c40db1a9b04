package loadtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"halite/loadtest/measure"
	"halite/loadtest/report"
)

func roundOf(targets ...report.QueryTarget) report.QueryCompared {
	return report.QueryCompared{Name: "sum", Targets: targets}
}

// TestShortQueries checks which queries get further rounds: one slow target is enough for none.
func TestShortQueries(t *testing.T) {
	t.Parallel()
	fast := report.QueryTarget{Latency: measure.Quantiles{P50Ms: 1}}
	slow := report.QueryTarget{Latency: measure.Quantiles{P50Ms: 2 * shortMs}}
	one, two := roundOf(fast, fast), roundOf(fast, slow)
	require.True(t, short(&one))
	require.False(t, short(&two))
}

// TestMedianRound checks that each target keeps its own median, and that no error of another round is lost.
func TestMedianRound(t *testing.T) {
	t.Parallel()
	first := roundOf(report.QueryTarget{Target: "a", CPUMs: 90}, report.QueryTarget{Target: "b", CPUMs: 90, Errors: 1})
	out := medianRound(first, []report.QueryCompared{
		roundOf(report.QueryTarget{Target: "a", CPUMs: 3}, report.QueryTarget{Target: "b", CPUMs: 4}),
		roundOf(report.QueryTarget{Target: "a", CPUMs: 1}, report.QueryTarget{Target: "b", CPUMs: 5, Errors: 2, Difference: "x"}),
		roundOf(report.QueryTarget{Target: "a", CPUMs: 2}, report.QueryTarget{Target: "b", CPUMs: 60}),
	})
	require.Equal(t, roundOf(report.QueryTarget{Target: "a", CPUMs: 2},
		report.QueryTarget{Target: "b", CPUMs: 5, Errors: 3, Difference: "x"}), out)
	require.Equal(t, float64(90), medianRound(roundOf(report.QueryTarget{CPUMs: 90}), nil).Targets[0].CPUMs)
}
