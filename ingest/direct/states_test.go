package direct

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/ingest/deletion"
	"halite/ingest/ingesttest"
	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/job"
	rollupstore "halite/rollup/store"
	"halite/storage/storagetest"
	"halite/storage/storagetest/seeds"
	"halite/storage/tombstone"
)

// sharedStates has several servers that share tables and keep rollups. Each of them may be killed or take over.
type sharedStates struct {
	*directWorld
	of     map[*Direct]*job.Rollups
	hooks  map[*Direct]*hookStore
	made   *job.Rollups // the rollups that open made last, for the server that starts
	hooked *hookStore
	holder *job.Rollups // holder of the lease; others may believe that they hold it
	killed int
	known  int
}

func newSharedStates(t *testing.T, seed uint64) *sharedStates {
	w := &sharedStates{of: map[*Direct]*job.Rollups{}, hooks: map[*Direct]*hookStore{}}
	w.directWorld = &directWorld{t: t, rng: rand.New(rand.NewPCG(seed, 23)), clock: ingesttest.NewClock(), book: map[place]*belief{},
		reach: 3 * dayMs, extend: w.open, hook: w.interfere}
	w.tables = storagetest.NewModel(w.clock.Now)
	var err error
	w.schema, err = keyschema.NewSchema(nil)
	require.NoError(t, err)
	for range 3 {
		w.nodes = append(w.nodes, w.join())
	}
	w.holder = w.made
	return w
}

// open gives a server its rollups.
func (w *sharedStates) open(o *Options, set *tombstone.Set, hooks *hookStore) {
	var mine *job.Rollups
	mine, err := job.Open(w.t.Context(), rollupstore.Options{
		Tables: set.Store(), Deletions: set, MarksMax: 5, Now: w.clock.Now,
		Shared: &rollupstore.Shared{
			HoldsLease: func() bool { return mine == w.holder || w.rng.IntN(40) == 0 },
			Margin:     15 * time.Minute, Fresh: set.Refresh, Tick: w.clock.Now,
		},
	}, job.Options{Settle: -1, Share: 1, BatchBytes: 500})
	require.NoError(w.t, err)
	o.WriteTimeout = 50 * time.Millisecond // a killed server gives up after this time
	o.Store, o.States, o.Fresh = mine.Invalidating(set.Store()), mine, mine.Refresh
	w.made, w.hooked = mine, hooks
}

func (w *sharedStates) join() *Direct {
	n := w.start()
	w.of[n], w.hooks[n] = w.made, w.hooked
	return n
}

// act runs other servers in the middle of a server's write, and may kill the server.
func (w *sharedStates) act(n *Direct) {
	if w.depth == 0 {
		w.busy = n
	}
	ctx := context.Background()
	switch w.rng.IntN(16) {
	case 0, 1, 2, 3:
		w.write(n)
	case 4:
		w.delete(n)
	case 5, 6:
		if report, err := n.CleanTombstones(ctx); err == nil {
			w.clean += report.Tombstones
		}
	case 7:
		_ = n.Pack(ctx)
	case 8, 9, 10:
		switch {
		case w.depth > 0: // a server that pauses for longer breaks the limits of compactor and rollups
			w.clock.Advance(time.Duration(w.rng.IntN(20)) * time.Second)
		case w.rng.IntN(3) == 0:
			w.clock.Advance(time.Duration(w.rng.IntN(5)) * time.Hour)
		default:
			w.clock.Advance(time.Duration(w.rng.IntN(10)) * time.Minute)
		}
	case 11:
		if w.rng.IntN(4) == 0 {
			w.holder = w.of[n]
		}
	case 12:
		if w.depth > 0 && w.rng.IntN(2) == 0 { // kill the server during its operation
			w.hooks[w.busy].dead.Store(true)
		}
	default:
		_, _ = w.of[n].Step(ctx)
	}
}

// bury replaces the servers that were killed.
func (w *sharedStates) bury() {
	for i, n := range w.nodes {
		if !w.hooks[n].dead.Load() {
			continue
		}
		w.killed++
		w.nodes[i] = w.join()
		if w.holder == w.of[n] {
			w.holder = w.made
		}
	}
}

// interfere extends directWorld.interfere by rollups.
func (w *sharedStates) interfere() (before, after error, partial bool) {
	if !w.faults {
		return nil, nil, false
	}
	switch n := w.rng.IntN(200); {
	case n < 2:
		return errInjectedOutage, nil, false
	case n < 4:
		return nil, errInjectedOutage, false
	case n < 6:
		return nil, nil, true
	case n < 40 && w.depth == 0:
		w.depth++
		for range 1 + w.rng.IntN(3) {
			if n := w.nodes[w.rng.IntN(len(w.nodes))]; n != w.busy {
				w.act(n)
			}
		}
		w.depth--
	}
	return nil, nil, false
}

// compare checks that the states that a server uses equal the states of the rows.
func (w *sharedStates) compare(n *Direct, all bool) {
	w.t.Helper()
	require.NoError(w.t, n.opts.Tombstones.Refresh(w.t.Context()))
	require.NoError(w.t, w.of[n].Refresh(w.t.Context()))
	found, _ := w.rows()
	hours := map[place][]int64{}
	for p := range found {
		at := place{p.series, keyschema.HourOf(p.tsMs)}
		hours[at] = append(hours[at], p.tsMs)
	}
	to := keyschema.HourOf(w.clock.Ms.Load())
	from := keyschema.HourOf(startMs - 4*dayMs)
	closed := (w.clock.Ms.Load()-30*60_000)/dayMs*keyschema.DayHours - 1
	for series := range seriesCount {
		metric, tags := deletion.TagsOf(seriesLabels(series))
		prefix := w.schema.RuleAt(metric, from).AppendPrefix(nil, metric, tags)
		req := rollupstore.Request{Prefixes: [][]byte{prefix}, From: from, To: to, Fields: rollup.FieldsAll}
		require.NoError(w.t, w.of[n].Read(w.t.Context(), req, func(_ int, c *rollup.Columns) error {
			for hour := from; hour <= to; hour++ {
				tsMs := hours[place{series, hour}]
				if !c.Known[hour-from] {
					require.False(w.t, all && len(tsMs) > 0 && hour <= closed, "series %d hour %d has no state", series, hour)
					continue
				}
				slices.Sort(tsMs)
				values := make([]float64, len(tsMs))
				for i, ts := range tsMs {
					values[i] = found[place{series, ts}]
				}
				w.known++
				require.Equal(w.t, rollup.Compute(tsMs, values), c.State(int(hour-from)), "series %d hour %d", series, hour)
			}
			return nil
		}))
	}
}

// settle has a server finish everything.
func (w *sharedStates) settle(n *Direct) {
	w.t.Helper()
	w.holder = w.of[n]
	for range 4 {
		w.clock.Advance(10 * time.Minute)
		require.NoError(w.t, n.Pack(w.t.Context()))
		for worked := true; worked; {
			var err error
			worked, err = w.of[n].Step(w.t.Context())
			require.NoError(w.t, err)
		}
	}
	report, err := n.CleanTombstones(w.t.Context())
	require.NoError(w.t, err)
	require.Zero(w.t, report.Waiting)
	require.Zero(w.t, n.opts.Tombstones.Len())
}

// TestDirectStates runs servers that write, delete, clean, pack and compute rollups during each other's writes. Servers fail,
// act without the lease, and are killed. Whenever no write is running, the states that each server uses equal the states of
// the samples. In the end all deletions are dropped, and no deleted sample has returned to samples or states.
func TestDirectStates(t *testing.T) {
	first, count := seeds.Range(t, seeds.Default{Full: 4, Short: 2})
	total := sharedStates{directWorld: &directWorld{}}
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newSharedStates(t, seed)
			for range 25 {
				w.faults = true
				for range 12 {
					w.act(w.nodes[w.rng.IntN(len(w.nodes))])
					w.bury()
				}
				w.faults = false
				w.check("under way")
				w.compare(w.nodes[w.rng.IntN(len(w.nodes))], false)
			}
			for _, n := range w.nodes {
				require.NoError(t, n.refresh(t.Context()))
			}
			w.clock.Advance(26 * time.Hour)
			w.settle(w.nodes[0])
			w.check("in the end")
			for _, n := range append(w.nodes, w.join()) {
				w.compare(n, true)
			}
			total.acked, total.cuts, total.clean = total.acked+w.acked, total.cuts+w.cuts, total.clean+w.clean
			total.killed, total.known = total.killed+w.killed, total.known+w.known
		})
	}
	t.Logf("%d writes acknowledged, %d deletions, %d cleaned under way, %d servers killed, %d states compared", total.acked,
		total.cuts, total.clean, total.killed, total.known)
	if os.Getenv("HALITE_SEED") == "" {
		require.NotZero(t, total.clean)
		require.NotZero(t, total.killed)
		require.NotZero(t, total.known)
	}
}
