package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/loadtest/measure"
)

func suiteTarget(name string, ms float64, errors int64) QueryTarget {
	return QueryTarget{Target: name, CPUMs: 2 * ms, Latency: measure.Quantiles{P50Ms: ms}, Errors: errors}
}

// TestSuite compares the last target with the better peer that answers.
func TestSuite(t *testing.T) {
	t.Parallel()
	s := &Suite{Bound: 0.8, Queries: []QueryCompared{
		{Name: "sum", Class: "range", Targets: []QueryTarget{suiteTarget("a", 8, 0), suiteTarget("b", 2, 0), suiteTarget("c", 1, 0)}},
		{Name: "new", Class: "range", Targets: []QueryTarget{suiteTarget("a", 1, 0), suiteTarget("b", 0.1, 3), suiteTarget("c", 2, 0)}},
		{Name: "odd", Class: "instant", Targets: []QueryTarget{suiteTarget("a", 1, 3), suiteTarget("b", 1, 3), suiteTarget("c", 1, 3)}},
	}}
	require.False(t, s.failed(), "nobody answers the last query")
	var b strings.Builder
	p := &printer{w: &b}
	s.writeText(p)
	require.NoError(t, p.err)
	lines := strings.Split(b.String(), "\n")
	require.Equal(t, "| `new` | 1.00 | 2.00 |  |  | 2.00 | 4.00 | 2.00 | 2.00 |", lines[2])
	require.Equal(t, "| `sum` | 8.00 | 16.00 | 2.00 | 4.00 | 1.00 | 2.00 | 0.50 | 0.50 |", lines[3])
	require.Contains(t, b.String(), "| all | 2 | 1.000 | 1.000 |")
	require.Contains(t, b.String(), "1 of 3 queries take more than 0.8 times")
	require.Contains(t, b.String(), "new, range: no response from b")

	s.Queries[0].Targets[2].Errors = 1
	require.True(t, s.failed())
	require.True(t, (&Comparison{Suite: s}).Failed())
	require.False(t, (&Comparison{}).Failed())
}
