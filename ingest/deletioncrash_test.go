package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
	"halite/keyschema"
)

// TestDeletionCrash cuts the power at a random file system operation of writes, deletions, flushes, maintenance and
// cleaning. It keeps a random part of the unsynced bytes, and opens everything again, three times a seed. All finished
// operations are durable, the interrupted deletion happened as a whole or not at all, and index and samples agree.
func TestDeletionCrash(t *testing.T) {
	first, count := crashSeeds(t)
	deletions := map[string]int{}
	for seed := first; seed < first+max(3, count/20); seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { deletionCrashSeed(t, seed, deletions) }) {
			t.Fatalf("reproduce: HALITE_SEED=%d HALITE_SEEDS=1 go test -run %s ./ingest", seed, t.Name())
		}
	}
	t.Logf("cut off: %v", deletions)
}

// crashDriver does one thing after the other until the power is cut.
type crashDriver struct {
	t     *testing.T
	r     *rig
	rng   *rand.Rand
	start int64
	model *deletionModel
	// during names the current operation. model holds the data before it, and after the data after it.
	during string
	after  *deletionModel
}

func (m *deletionModel) clone() *deletionModel {
	out := &deletionModel{labels: m.labels}
	for _, c := range m.columns {
		out.columns = append(out.columns, maps.Clone(c))
	}
	return out
}

func deletionCrashSeed(t *testing.T, seed uint64, cut map[string]int) {
	rng := rand.New(rand.NewPCG(seed, 31))
	fs, c := vfs.NewCrashableMem(), ingesttest.NewClock()
	d := &crashDriver{t: t, rng: rng, start: c.Now().UnixMilli(), model: &deletionModel{}}
	for n := range 8 {
		ls := labels.FromStrings("__name__", fmt.Sprint("m", n%3), "x", fmt.Sprint(n/3))
		d.model.labels, d.model.columns = append(d.model.labels, ls), append(d.model.columns, column{})
	}
	d.after = d.model
	for generation := range 3 {
		run := &crashRun{t: t, fs: fs, clock: c, oracle: newOracle(), rng: rng}
		wrapped := run.wrap()
		run.left.Store(int64(1 + rng.IntN(900)))
		armed := rng.IntN(4) == 0 // also while the log is replayed
		run.armed.Store(armed && generation > 0)
		var err error
		d.r, err = deletionRig(t, wrapped, c, crashTweak)
		require.NoError(t, err, "generation %d", generation)
		d.settle()
		run.armed.Store(true)
		for n := 0; n < 150 && !run.ended(); n++ {
			d.step(run)
		}
		run.cutPower(0, 1)
		cut[d.during]++
		require.NoError(t, d.r.Close(context.Background()))
		require.NoError(t, d.r.store.Close())
		fs = run.crashed
	}
}

// settle finds the outcome of the interrupted operation, and checks everything.
func (d *crashDriver) settle() {
	d.t.Helper()
	got := d.model.clone()
	for n, ls := range got.labels {
		var err error
		got.columns[n], err = d.r.read(ls)
		require.NoError(d.t, err)
	}
	switch d.during {
	case "delete":
		if !same(got, d.after) {
			require.True(d.t, same(got, d.model), "a deletion was carried out in part")
		}
	case "write":
		for n := range got.columns {
			before, after := d.model.columns[n], d.after.columns[n]
			for ts, bits := range after {
				was, had := before[ts]
				is, has := got.columns[n][ts]
				require.True(d.t, has && (is == bits || had && is == was) || !has && !had, "%s at %d", got.labels[n], ts)
			}
			require.LessOrEqual(d.t, len(got.columns[n]), len(after))
		}
	default:
		require.Equal(d.t, d.model.columns, got.columns, "cut off: %s", d.during)
	}
	d.model, d.after, d.during = got, got, ""
	d.model.check(d.t, d.r, someHours(d.rng, d.start, d.r.clock.Now().UnixMilli()))
}

func same(a, b *deletionModel) bool {
	return slices.EqualFunc(a.columns, b.columns, func(a, b column) bool { return maps.Equal(a, b) })
}

// step does one operation. If the power fails during the operation, it counts as unfinished.
func (d *crashDriver) step(run *crashRun) {
	ctx := context.Background()
	d.after = d.model.clone()
	var err error
	switch d.rng.IntN(10) {
	case 0, 1, 2, 3:
		d.during = "write"
		writeRandom(d.t, d.r, d.rng, d.after, d.start)
	case 4, 5:
		d.during = "delete"
		del := randomDeletion(d.t, d.rng, d.start-3*24*keyschema.HourMs, d.r.clock.Now().UnixMilli()+1)
		d.after.delete(del)
		_, err = d.r.DeleteSeries(ctx, del)
	case 6:
		d.during, err = "flush", d.r.Flush(ctx)
	case 7:
		d.during = "step"
		d.r.clock.Advance(time.Duration(d.rng.IntN(600)) * time.Minute)
		err = d.r.flusher.Step(ctx)
	case 8:
		d.during, err = "maintain", errors.Join(d.r.maintain(ctx), d.r.deleter.Maintain(ctx))
	case 9:
		d.during = "clean"
		_, err = d.r.CleanTombstones(ctx)
	}
	var overload *OverloadError
	if err != nil && !errors.As(err, &overload) {
		require.NoError(d.t, err, d.during)
	}
	if !run.ended() {
		d.model = d.after
	}
}
