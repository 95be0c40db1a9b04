package main

import (
	"testing"

	"github.com/alecthomas/kingpin/v2"
	"github.com/stretchr/testify/require"
)

// TestPrometheusRetention: tools find the retention under Prometheus's name, in a form that Prometheus parses.
func TestPrometheusRetention(t *testing.T) {
	for flag, want := range map[string]string{
		"": "30d", "--storage.retention.raw=400d": "400d", "--storage.retention.raw=0s": "100y",
	} {
		app := kingpin.New("tsdb", "")
		c := addServeFlags(app.Command("serve", ""))
		args := []string{"serve"}
		if flag != "" {
			args = append(args, flag)
		}
		_, err := app.Parse(args)
		require.NoError(t, err)
		require.Equal(t, want, c.shownFlags()["storage.tsdb.retention.time"], flag)
	}
}

// TestNegativeFlags: the error names the wrong flags and no others.
func TestNegativeFlags(t *testing.T) {
	app := kingpin.New("tsdb", "")
	c := addServeFlags(app.Command("serve", ""))
	_, err := app.Parse([]string{"serve", "--ingest.max-series=-1", "--storage.aliases-max=-2", "--query.log-slower-than=-3s"})
	require.NoError(t, err)
	require.EqualError(t, c.Validate(), "--ingest.max-series must not be negative\n--query.log-slower-than must not be negative\n"+
		"--storage.aliases-max must not be negative")
}
