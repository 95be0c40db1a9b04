package main

import (
	"testing"

	"github.com/alecthomas/kingpin/v2"
	"github.com/stretchr/testify/require"
)

// TestNegativeFlags: the error names the wrong flags and no others.
func TestNegativeFlags(t *testing.T) {
	app := kingpin.New("tsdb", "")
	c := addServeFlags(app.Command("serve", ""))
	_, err := app.Parse([]string{"serve", "--ingest.max-series=-1", "--storage.aliases-max=-2", "--query.log-slower-than=-3s"})
	require.NoError(t, err)
	require.EqualError(t, c.Validate(), "--ingest.max-series must not be negative\n--query.log-slower-than must not be negative\n"+
		"--storage.aliases-max must not be negative")
}
