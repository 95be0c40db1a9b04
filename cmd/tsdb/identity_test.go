package main

import (
	"testing"

	"github.com/alecthomas/kingpin/v2"
	"github.com/stretchr/testify/require"

	"halite/cmd/tsdb/internal/tables"
)

// TestAcceptTableLossFlag: the flag takes names, may be repeated, and means all where it has no value.
func TestAcceptTableLossFlag(t *testing.T) {
	for _, c := range []struct {
		args, want []string
	}{
		{nil, nil},
		{[]string{"--storage.accept-table-loss"}, []string{"all"}},
		{[]string{"--storage.accept-table-loss", "--storage.path=x"}, []string{"all"}},
		{[]string{"--storage.accept-table-loss=000012.sst", "--storage.accept-table-loss=b"}, []string{"000012.sst", "b"}},
	} {
		app := kingpin.New("tsdb", "")
		config := addServeFlags(app.Command("serve", ""))
		_, err := app.Parse(tables.NormalArgs(append([]string{"serve"}, c.args...)))
		require.NoError(t, err)
		require.Equal(t, c.want, config.acceptTableLoss)
	}
}
