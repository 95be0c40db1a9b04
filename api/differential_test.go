package api_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/api/internal/comparison"
	"halite/query"
)

// TestLikePrometheus sends the requests of the comparison to the whole database: first with all samples in the head, then in
// the tables. The responses must equal the recorded responses of Prometheus.
func TestLikePrometheus(t *testing.T) {
	b, err := os.ReadFile("testdata/prometheus.json")
	require.NoError(t, err)
	recorded, err := comparison.Read(b)
	require.NoError(t, err)
	s := newStack(t)
	s.load(t)
	server := s.Server
	check := func(t *testing.T) {
		differences := comparison.Differences(server.Handler(), recorded)
		for _, d := range differences {
			t.Error(d)
		}
		t.Logf("%d of %d requests answered as Prometheus does", len(recorded)-len(differences), len(recorded))
	}
	t.Run("head", check)
	require.NoError(t, s.ingester.Flush(context.Background()))
	t.Run("tables", check)
	server = s.server(t, query.Options{Changes: s.ingester})
	t.Run("first", check)
	t.Run("cached", check)
}
