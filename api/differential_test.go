package api_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/api/internal/comparison"
)

// TestLikePrometheus sends the requests of the comparison to the whole database, with the samples in the head and then
// in the tables, and compares the answers with those recorded from Prometheus.
func TestLikePrometheus(t *testing.T) {
	b, err := os.ReadFile("testdata/prometheus.json")
	require.NoError(t, err)
	recorded, err := comparison.Read(b)
	require.NoError(t, err)
	s := newStack(t)
	s.load(t)
	check := func(t *testing.T) {
		differences := comparison.Differences(s.Handler(), recorded)
		for _, d := range differences {
			t.Error(d)
		}
		t.Logf("%d of %d requests answered as Prometheus does", len(recorded)-len(differences), len(recorded))
	}
	t.Run("head", check)
	require.NoError(t, s.ingester.Flush(context.Background()))
	t.Run("tables", check)
}
