package hatracker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/storagetest"
	"halite/storage/storagetest/seeds"
)

// world is a table meta with a clock.
type world struct {
	t     testing.TB
	nowMs int64
	meta  storage.Table
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, nowMs: 1_700_000_000_000}
	var err error
	w.meta, err = storagetest.NewModel(w.now).EnsureTable(context.Background(), storage.MetaSchema())
	require.NoError(t, err)
	return w
}

func (w *world) now() time.Time { return time.UnixMilli(w.nowMs) }

func (w *world) open(tweak func(*Options)) *Tracker {
	w.t.Helper()
	o := Options{ClusterLabel: "cluster", ReplicaLabel: "replica", Failover: 30 * time.Second}
	if tweak != nil {
		tweak(&o)
	}
	tr, err := Open(context.Background(), o, Deps{
		Meta: w.meta, Sync: func(context.Context) error { return nil }, Now: w.now, Logger: slog.New(slog.DiscardHandler),
		Metrics: NewMetrics(prometheus.NewRegistry()),
	})
	require.NoError(w.t, err)
	w.t.Cleanup(tr.Close)
	return tr
}

func (w *world) send(tr *Tracker, cluster, replica string) bool {
	w.t.Helper()
	r, err := tr.Replica("", cluster, replica)
	require.NoError(w.t, err)
	won, err := r.Elected(context.Background())
	require.NoError(w.t, err)
	return won
}

func TestFailover(t *testing.T) {
	w := newWorld(t)
	tr := w.open(nil)
	for range 40 {
		w.nowMs += 5000
		require.True(t, w.send(tr, "c", "a"))
		require.False(t, w.send(tr, "c", "b"))
		require.True(t, w.send(tr, "other", "b"))
	}
	for range 5 {
		w.nowMs += 5000
		require.False(t, w.send(tr, "c", "b"), "a was seen a moment ago")
	}
	w.nowMs += 5001
	require.True(t, w.send(tr, "c", "b"))
	require.False(t, w.send(tr, "c", "a"), "b goes on when a comes back")
	status := tr.Status()
	require.Len(t, status, 2)
	require.Equal(t, "b", status[0].Elected)
	require.Equal(t, 2, status[0].Elections)
	require.Len(t, status[0].Replicas, 2)
}

// TestRestart: after any downtime, the elected replica keeps its cluster for one fail-over time.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	require.True(t, w.send(w.open(nil), "eu/1 ü#", "a"))
	w.nowMs += time.Hour.Milliseconds()
	tr := w.open(nil)
	require.False(t, w.send(tr, "eu/1 ü#", "b"))
	w.nowMs += 20_000
	require.True(t, w.send(tr, "eu/1 ü#", "a"))
	w.nowMs += 20_000
	require.False(t, w.send(tr, "eu/1 ü#", "b"))
	w.nowMs += 10_001
	require.True(t, w.send(tr, "eu/1 ü#", "b"))
}

// TestClockSetBack: when the clock is set back by hours, a replica still takes over from one that has stopped, also after a
// restart.
func TestClockSetBack(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := newWorld(t)
		tr := w.open(nil)
		require.True(t, w.send(tr, "c", "a"))
		require.False(t, w.send(tr, "c", "b"))
		require.True(t, w.send(tr, "d", "a"))
		w.nowMs -= 3 * time.Hour.Milliseconds()
		if restart {
			tr = w.open(nil)
		}
		require.True(t, w.send(tr, "d", "a"), "the elected replica continues")
		w.nowMs += 30_001
		require.True(t, w.send(tr, "c", "b"))
		require.False(t, w.send(tr, "c", "a"))
	}
}

// TestSeveralServers: all replicas send to all servers. At each moment all servers store the samples of at most one
// replica, and within a fail-over time and a renewal they store some replica's samples.
func TestSeveralServers(t *testing.T) {
	rng := seeds.Rand(t, 1)
	w := newWorld(t)
	servers := []*Tracker{w.open(nil), w.open(nil), w.open(nil)}
	storedMs := w.nowMs
	down := 0
	for range 5000 {
		if rng.IntN(300) == 0 {
			down = rng.IntN(4) // 3 means none
		}
		if rng.IntN(500) == 0 {
			servers[rng.IntN(3)] = w.open(nil)
		}
		stored := ""
		for range 6 {
			if n := rng.IntN(3); n != down && w.send(servers[rng.IntN(3)], "c", fmt.Sprint("r", n)) {
				require.Contains(t, []string{"", fmt.Sprint("r", n)}, stored)
				stored, storedMs = fmt.Sprint("r", n), w.nowMs
			}
		}
		require.Less(t, w.nowMs-storedMs, int64(70_000))
		w.nowMs += int64(rng.IntN(4000)) + 1
	}
}

func TestBounds(t *testing.T) {
	w := newWorld(t)
	tr := w.open(func(o *Options) { o.ClustersMax = 2 })
	w.send(tr, "c1", "a")
	w.send(tr, "c2", "a")
	_, err := tr.Replica("", "c3", "a")
	require.ErrorIs(t, err, ErrClusters)
	for n := range ReplicasMax - 1 {
		w.send(tr, "c1", fmt.Sprint(n))
	}
	_, err = tr.Replica("", "c1", "one too many")
	require.ErrorIs(t, err, ErrReplicas)
	_, err = tr.Replica("", strings.Repeat("x", NameBytesMax+1), "a")
	require.ErrorIs(t, err, ErrName)
	require.False(t, tr.HasIdle())
	_, err = tr.Replica("&tenant&", "c3", "a")
	require.NoError(t, err, "another tenant")
	w.nowMs += IdleAfter.Milliseconds() + 60_000
	w.send(tr, "c1", "a")
	require.True(t, tr.HasIdle())
	tr.RemoveIdle()
	require.Len(t, tr.Status(), 1)
	require.Len(t, tr.Status()[0].Replicas, 1)
	w.send(tr, "c3", "a")
	w.nowMs += IdleAfter.Milliseconds() + 60_000
	require.Empty(t, w.open(nil).Status(), "a start ignores old leases")
}

// TestTenants: clusters of different tenants with the same name are independent.
func TestTenants(t *testing.T) {
	w := newWorld(t)
	tr := w.open(nil)
	for n, tenant := range []string{"", keyschema.TenantPrefix("a"), keyschema.TenantPrefix("ac")} {
		r, err := tr.Replica(tenant, "c", fmt.Sprint(n))
		require.NoError(t, err)
		won, err := r.Elected(context.Background())
		require.NoError(t, err)
		require.True(t, won)
	}
	require.Equal(t, 3, len(w.open(nil).Status()))
}

// failing is a table that does not answer.
type failing struct {
	storage.Table
	err error
}

func (f *failing) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (bool, error) {
	if f.err != nil {
		return false, f.err
	}
	return f.Table.CheckAndApply(ctx, key, cond, then, otherwise)
}

// TestTableFails: the elected replica continues until its lease ends. No other replica is elected meanwhile.
func TestTableFails(t *testing.T) {
	w := newWorld(t)
	table := &failing{Table: w.meta}
	w.meta = table
	tr := w.open(nil)
	require.True(t, w.send(tr, "c", "a"))
	table.err = errors.New("no response")
	w.nowMs += 29_000
	require.True(t, w.send(tr, "c", "a"))
	require.False(t, w.send(tr, "c", "b"))
	w.nowMs += 30_001
	for _, name := range []string{"a", "b"} {
		r, err := tr.Replica("", "c", name)
		require.NoError(t, err)
		_, err = r.Elected(context.Background())
		require.ErrorIs(t, err, table.err)
	}
	table.err = nil
	require.True(t, w.send(tr, "c", "b"))
}

// FuzzNames: a tracker that is opened again knows the cluster and its elected replica by any names.
func FuzzNames(f *testing.F) {
	f.Add("eu-1", "a")
	f.Add("#/%", "\x00\xff")
	f.Fuzz(func(t *testing.T, cluster, replica string) {
		if cluster == "" || replica == "" || len(cluster) > NameBytesMax || len(replica) > NameBytesMax {
			return
		}
		w := newWorld(t)
		require.True(t, w.send(w.open(nil), cluster, replica))
		status := w.open(nil).Status()
		require.Len(t, status, 1)
		require.Equal(t, cluster, status[0].Cluster)
		require.Equal(t, replica, status[0].Elected)
	})
}
