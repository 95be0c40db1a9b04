package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	promrelabel "github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"halite/ingest/hatracker"
	"halite/ingest/ingesttest"
	"halite/ingest/relabel"
	"halite/storage"
	"halite/storage/storagetest/seeds"
)

func (r *rig) electBy(text string) {
	r.t.Helper()
	require.NoError(r.t, r.SetRelabelling(context.Background(), rules(r.t, text), &hatracker.Options{
		ClusterLabel: "cluster", ReplicaLabel: "__replica__", Failover: 30 * time.Second,
	}))
}

// TestRefusedRulesLeaveNoTracker refuses rules with options of HA pairs. The tracker of these options ends.
func TestRefusedRulesLeaveNoTracker(t *testing.T) {
	r := openRig(t, vfs.NewCrashableMem(), ingesttest.NewClock(), nil)
	before := goleak.IgnoreCurrent()
	err := r.SetRelabelling(t.Context(), make([]*promrelabel.Config, relabel.RulesMax+1), &hatracker.Options{
		ClusterLabel: "cluster", ReplicaLabel: "__replica__",
	})
	require.ErrorContains(t, err, "at most 1000 are allowed")
	goleak.VerifyNone(t, before)
	r.close()
}

// haModel follows the elections.
type haModel struct {
	elected map[string]string
	seenMs  map[string]int64 // of the elected replica
}

// follow records the elections after a request at a time, and checks that no elected replica lost its cluster before
// its lease ended. senders has the replicas in the request.
func (m *haModel) follow(t *testing.T, r *rig, nowMs int64, senders map[string]bool) {
	for _, c := range r.HAClusters() {
		if before := m.elected[c.Cluster]; before != "" && before != c.Elected {
			require.GreaterOrEqual(t, nowMs-m.seenMs[c.Cluster], int64(27_000))
		}
		m.elected[c.Cluster] = c.Elected
		if senders[c.Cluster+"/"+c.Elected] {
			m.seenMs[c.Cluster] = nowMs
		}
	}
	for pair := range senders {
		cluster, _, _ := strings.Cut(pair, "/")
		require.LessOrEqual(t, nowMs-m.seenMs[cluster], int64(30_000), "nobody is elected")
	}
}

// mixedReplicas returns the random series of a request, the labels that are stored for them, and the sender of each series as
// cluster/replica, or "" if no replica sends it. The last result is the set of senders.
func mixedReplicas(
	rng *rand.Rand, atMs int64, silent string,
) (all []prompb.TimeSeries, sets []labels.Labels, pairOf []string, senders map[string]bool) {
	senders = map[string]bool{}
	for k := range rng.IntN(200) {
		pairs := []string{"__name__", "m", "n", fmt.Sprint(rng.IntN(8))}
		cluster, replica := "", ""
		if rng.IntN(8) > 0 {
			cluster = fmt.Sprint("c", rng.IntN(3))
			pairs = append(pairs, "cluster", cluster)
		}
		stored := labels.FromStrings(pairs...)
		if replica = []string{"a", "b", ""}[rng.IntN(3)]; replica != "" && replica != silent {
			if pairs = append(pairs, "__replica__", replica); cluster == "" {
				stored = labels.FromStrings(pairs...)
			}
		}
		s := sample(atMs, float64(k+1)+rng.Float64())
		all = append(all, series(pairs, s))
		pair := ""
		if cluster != "" && len(pairs) == 8 {
			pair = cluster + "/" + replica
			senders[pair] = true
		}
		pairOf, sets = append(pairOf, pair), append(sets, stored)
	}
	return all, sets, pairOf, senders
}

// TestMixedReplicas sends random mixes of clusters, replicas and other series by all protocols, in random order, while
// replicas fall silent and the server restarts. The samples of the elected replicas are stored, without the label of
// the replica.
func TestMixedReplicas(t *testing.T) {
	rng := seeds.Rand(t, 1)
	c := ingesttest.NewClock()
	r := openRig(t, vfs.NewMem(), c, nil)
	const relabelling = "[{source_labels: [n], regex: '5', action: drop}]"
	r.electBy(relabelling)
	model := haModel{map[string]string{}, map[string]int64{}}
	want, known := map[string]column{}, map[string]labels.Labels{}
	silent := ""
	for round := range 150 {
		if rng.IntN(10) == 0 {
			silent = []string{"", "a", "b"}[rng.IntN(3)]
		}
		if rng.IntN(30) == 0 {
			r = r.reopen(nil)
			r.electBy(relabelling)
			for cluster := range model.seenMs { // a fail-over time begins
				model.seenMs[cluster] = c.Now().UnixMilli()
			}
		}
		c.Advance(time.Duration(4+rng.IntN(30)) * time.Second)
		at := c.Now().UnixMilli()
		all, sets, pairOf, senders := mixedReplicas(rng, at, silent)
		result, err := protocols(t, r)[[]string{"1.0", "2.0", "batch"}[rng.IntN(3)]](all)
		require.NoError(t, err)
		model.follow(t, r, at, senders)
		var kept, duplicates, dropped int
		for n, ls := range sets {
			cluster, replica, pair := strings.Cut(pairOf[n], "/")
			switch {
			case pair && model.elected[cluster] != replica:
				duplicates++
			case ls.Get("n") == "5":
				dropped++
			default:
				kept++
				if want[ls.String()] == nil {
					want[ls.String()], known[ls.String()] = column{}, ls
				}
				want[ls.String()][at] = math.Float64bits(all[n].Samples[0].Value)
			}
		}
		require.Equal(t, []int{kept, duplicates, dropped},
			[]int{result.Accepted, result.Deduplicated.Samples, result.Dropped.Samples}, "round %d", round)
		require.Zero(t, result.Rejected)
	}
	for text, ls := range known {
		r.requireSeries(ls, want[text])
	}
	require.Equal(t, len(known), r.SeriesCount())
	r.close()
}

// TestPairFailover has two replicas scrape in turn and stops the elected one for a while, many times. Each scrape is stored once,
// and no gap is longer than the fail-over time and a scrape interval.
func TestPairFailover(t *testing.T) {
	const failoverMs, scrapeMs, stops = 30_000, 15_000, 20
	rng := seeds.Rand(t, 1)
	c := ingesttest.NewClock()
	r := openRig(t, vfs.NewMem(), c, nil)
	defer r.close()
	r.electBy("")
	send := protocols(t, r)["2.0"]
	replicas := []string{"a", "b"}
	nextMs := []int64{c.Now().UnixMilli() + 1, c.Now().UnixMilli() + 2 + rng.Int64N(scrapeMs-2)}
	downUntilMs := make([]int64, len(replicas))
	sent, stopped := map[int64]int{}, 0 // sent has the replica of each scrape
	for stopMs := nextMs[0] + 100_000; stopped < stops || c.Now().UnixMilli() < stopMs; {
		k := 0
		if nextMs[1] < nextMs[0] {
			k = 1
		}
		atMs := nextMs[k]
		nextMs[k] += scrapeMs
		c.Advance(time.Duration(atMs-c.Now().UnixMilli()) * time.Millisecond)
		if stopped < stops && atMs >= stopMs {
			elected := slices.Index(replicas, r.HAClusters()[0].Elected)
			downUntilMs[elected] = atMs + 2*failoverMs + rng.Int64N(2*failoverMs)
			stopMs = downUntilMs[elected] + rng.Int64N(4*failoverMs)
			stopped++
		}
		if atMs < downUntilMs[k] {
			continue
		}
		sent[atMs] = k
		_, err := send([]prompb.TimeSeries{
			series([]string{"__name__", "up", "cluster", "eu", "__replica__", replicas[k]}, sample(atMs, float64(k))),
		})
		require.NoError(t, err)
	}
	stored, err := r.read(labels.FromStrings("__name__", "up", "cluster", "eu"))
	require.NoError(t, err)
	failovers, times := 0, slices.Sorted(maps.Keys(stored))
	for n, atMs := range times {
		require.Equal(t, float64(sent[atMs]), math.Float64frombits(stored[atMs]))
		switch {
		case n == 0:
		case sent[atMs] == sent[times[n-1]]:
			require.EqualValues(t, scrapeMs, atMs-times[n-1])
		default:
			failovers++
			require.GreaterOrEqual(t, atMs-times[n-1], int64(scrapeMs), "both replicas' samples of a scrape")
			require.LessOrEqual(t, atMs-times[n-1], int64(failoverMs+scrapeMs))
		}
	}
	require.Equal(t, stops, failovers)
}

// TestReplicasOfAllKinds: histograms and exemplars of a replica that is not elected are dropped, too.
func TestReplicasOfAllKinds(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	defer r.close()
	r.electBy("")
	rng := seeds.Rand(t, 1)
	model := newKindsModel(rng, 5)
	send := func(replica string) Result {
		list, _, _ := model.samples(startMs)
		for n := range list {
			b := labels.NewBuilder(list[n].Labels).Set("cluster", "c").Set("__replica__", replica)
			list[n].Labels = b.Labels()
		}
		result, err := r.Write(context.Background(), SamplesInput(list))
		require.NoError(t, err)
		return result
	}
	var kept, lost Counts
	for range 20 {
		first, second := send("a"), send("b")
		require.Zero(t, first.Deduplicated)
		require.Zero(t, second.Accepted+second.Histograms+second.Exemplars)
		kept.Add(Counts{first.Accepted, first.Histograms, first.Exemplars})
		lost.Add(second.Deduplicated)
	}
	require.Positive(t, kept.Samples*kept.Histograms*kept.Exemplars)
	require.Positive(t, lost.Samples*lost.Histograms*lost.Exemplars)
}

// TestTooManyClusters: series of further clusters are refused, the others are stored.
func TestTooManyClusters(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	defer r.close()
	require.NoError(t, r.SetRelabelling(context.Background(), nil, &hatracker.Options{
		ClusterLabel: "cluster", ReplicaLabel: "replica", ClustersMax: 2,
	}))
	var all []prompb.TimeSeries
	for n := range 5 {
		all = append(all, series([]string{"__name__", "m", "cluster", fmt.Sprint(n), "replica", "a"}, sample(startMs, 1)))
	}
	result, err := protocols(t, r)["1.0"](all)
	require.NoError(t, err)
	require.Equal(t, 2, result.Accepted)
	require.Equal(t, map[string]int{ReasonHAClusters: 3}, result.Reasons)
	require.Contains(t, result.First, "too many clusters: more than max_clusters 2")
}

// unelectable is a store whose leases fail.
type unelectable struct {
	storage.Store
	fail bool
}

type unelectableTable struct {
	storage.Table
	s *unelectable
}

func (s *unelectable) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	table, err := s.Store.EnsureTable(ctx, schema)
	return &unelectableTable{table, s}, err
}

func (f *unelectableTable) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (bool, error) {
	if f.s.fail {
		return false, errors.New("no response")
	}
	return f.Table.CheckAndApply(ctx, key, cond, then, otherwise)
}

// TestElectionFails: if no replica can be elected, the server stores nothing of the request, and the sender retries.
func TestElectionFails(t *testing.T) {
	var store *unelectable
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), func(o *Options) {
		store = &unelectable{Store: o.Store}
		o.Store = store
	})
	r.electBy("")
	all := []prompb.TimeSeries{
		series([]string{"__name__", "m", "cluster", "c", "__replica__", "a"}, sample(startMs, 1)),
		series([]string{"__name__", "m"}, sample(startMs, 1)),
	}
	store.fail = true
	_, err := protocols(t, r)["1.0"](all)
	var overload *OverloadError
	require.ErrorAs(t, err, &overload)
	require.Zero(t, r.Stats().Samples)
	store.fail = false
	result, err := protocols(t, r)["1.0"](all)
	require.NoError(t, err)
	require.Equal(t, 2, result.Accepted)
	require.NoError(t, r.Close(context.Background()))
	require.NoError(t, store.Close())
}
