package main_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/loadtest/plan"
)

func TestPlan(t *testing.T) {
	out, err := tsdb(t, "plan", "--series", "100M", "--simulate")
	require.NoError(t, err, out)
	require.Contains(t, out, "100,000,000 series")
	require.Contains(t, out, "salts")
	require.Contains(t, out, "direct")

	out, err = tsdb(t, "plan", "--series=1.5M", "--interval=60s", "--retention=90d", "--retention.hours=400d", "--churn=5",
		"--replicas=2", "--mode=buffered", "--simulate", "--simulate.salts=8", "--seed=3", "--output=json")
	require.NoError(t, err, out)
	var r struct {
		plan.Plan
		Simulation plan.Simulation
		Balances   []plan.Balance
	}
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, int64(1_500_000), r.Load.Series)
	require.InDelta(t, 25_000, r.SamplesPerSecond, 1e-9)
	require.Len(t, r.Modes, 1)
	require.Equal(t, 2*r.Modes[0].Nodes.Cluster, r.Modes[0].Nodes.Total)
	require.Len(t, r.Balances, 1)
	require.Equal(t, 8, r.Balances[0].Salts)
	require.Equal(t, uint64(3), r.Simulation.Seed)

	for args, want := range map[string]string{
		"--series=many": "--series", "--series=-5": "--series", "--series=NaN": "--series", "--series=9999999999999999G": "--series",
		"--retention=1h": "retention of samples", "--mode=fast": "direct",
	} {
		given := []string{"plan", args}
		if want != "--series" {
			given = append(given, "--series=1M")
		}
		out, err := tsdb(t, given...)
		require.Error(t, err, args)
		require.Contains(t, out, want)
	}
}
