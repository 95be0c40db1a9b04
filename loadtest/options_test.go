package loadtest

import (
	"halite/loadtest/client"
	"halite/loadtest/fleet"
	"halite/loadtest/load"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOptionFaults(t *testing.T) {
	target := client.Target{WriteURL: "http://a/w", QueryURL: "http://a"}
	hosts := fleet.Options{Hosts: 1}
	for text, o := range map[string]load.Options{
		"no series":      {},
		"the sum of":     {Fleet: hosts, LatePercent: 50, RewrittenPercent: 51},
		"is empty":       {Fleet: hosts, From: timeOf(0), To: timeOf(0)},
		"set only one":   {Fleet: hosts, Rate: 1, Interval: time.Second},
		"at most 1000":   {Fleet: hosts, Rate: 100_001},
		"SamplesMax":     {Fleet: hosts, From: timeOf(0), To: timeOf(1e9), SamplesMax: 10},
		"Duration":       {Fleet: hosts, Duration: -1},
		"RequestSamples": {Fleet: hosts, RequestSamples: -1},
	} {
		_, err := newRunner(target, Options{Load: o})
		require.ErrorContains(t, err, text)
	}
	_, err := newRunner(client.Target{}, Options{Load: load.Options{Fleet: hosts}})
	require.ErrorIs(t, err, client.ErrTarget)
}
