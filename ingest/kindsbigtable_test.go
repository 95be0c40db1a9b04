package ingest

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
	"halite/storage/bigtable"
	"halite/storage/bigtable/emulator"
)

// TestKindsInBigtable writes samples of all kinds in front of Bigtable. They survive flushes and restarts, with and without
// unflushed samples in the log.
func TestKindsInBigtable(t *testing.T) {
	ctx := context.Background()
	server, err := emulator.Start(emulator.Options{})
	require.NoError(t, err)
	defer server.Close()
	fs, c := vfs.NewMem(), ingesttest.NewClock()
	open := func() *rig {
		store, err := bigtable.Open(ctx, bigtable.Options{
			Project: "test-project", Instance: "test-instance", EmulatorHost: server.Addr(),
		})
		require.NoError(t, err)
		r, err := rigOn(ctx, t, fs, c, store, manyExemplars)
		require.NoError(t, err)
		return r
	}
	m := newKindsModel(rand.New(rand.NewPCG(3, 5)), 7)
	r := open()
	for round := range 4 {
		m.write(t, r)
		m.write(t, r)
		if round%2 == 0 {
			r.flush()
			require.Zero(t, r.Stats().Samples)
			m.check(t, r)
			m.write(t, r)
		}
		m.check(t, r)
		r.close()
		r = open()
		m.check(t, r)
		c.Advance(50 * time.Minute)
	}
	r.flush()
	m.check(t, r)
	r.close()
}
