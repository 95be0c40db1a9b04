package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest/deletion"
	"halite/ingest/ingesttest"
)

// replayTweak makes the head so small that a replay flushes rows again and again.
func replayTweak(o *Options) {
	crashTweak(o)
	o.Head.BytesMax = 2 << 10
}

// TestCrashWithinReplay cuts the power at a random file system operation of a replay that flushes rows, up to three times
// one after the other, and keeps a random part of the unsynced bytes. The next complete replay must find every
// acknowledged sample with its last value, no deleted sample, and an index that agrees.
func TestCrashWithinReplay(t *testing.T) {
	first, count := crashSeeds(t)
	cuts := 0
	for seed := first; seed < first+max(4, count/20); seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { cuts += replayCrashSeed(t, seed) }) {
			t.Fatalf("reproduce: HALITE_SEED=%d HALITE_SEEDS=1 go test -run %s ./ingest", seed, t.Name())
		}
	}
	t.Logf("%d replays were cut off", cuts)
	require.NotZero(t, cuts)
}

func replayCrashSeed(t *testing.T, seed uint64) (cuts int) {
	rng := rand.New(rand.NewPCG(seed, 41))
	fs, c := vfs.NewCrashableMem(), ingesttest.NewClock()
	d := &crashDriver{t: t, rng: rng, start: c.Now().UnixMilli(), model: &deletionModel{}}
	for n := range 8 {
		ls := labels.FromStrings("__name__", fmt.Sprint("m", n%3), "x", fmt.Sprint(n/3))
		d.model.labels, d.model.columns = append(d.model.labels, ls), append(d.model.columns, column{})
	}
	d.after = d.model
	open := func(run *crashRun, tweak func(*Options)) (err error) {
		d.r, err = deletionRig(t, run.wrap(), c, tweak)
		return err
	}
	for generation := range 3 {
		for range rng.IntN(4) {
			cut := &crashRun{t: t, fs: fs, clock: c, oracle: newOracle(), rng: rng}
			cut.armed.Store(true)
			require.NoError(t, open(cut, replayTweak))
			if cut.ended() {
				cuts++
			}
			fs = d.crash(cut)
		}
		run := &crashRun{t: t, fs: fs, clock: c, oracle: newOracle(), rng: rng}
		require.NoError(t, open(run, crashTweak), "generation %d", generation)
		d.settle()
		run.left.Store(int64(1 + rng.IntN(900)))
		run.armed.Store(true)
		for n := 0; n < 60 && !run.ended(); n++ {
			d.step(run)
		}
		fs = d.crash(run)
	}
	return cuts
}

// crash ends a run and returns the file system as the power cut leaves it.
func (d *crashDriver) crash(run *crashRun) *vfs.MemFS {
	run.cutPower(0, 1)
	require.NoError(d.t, d.r.Close(context.Background()))
	require.NoError(d.t, d.r.store.Close())
	return run.crashed
}

// TestKilledReplayKeepsDeletion: a replay flushes samples and is killed before it reaches their deletion in the log. The
// next replay, with enough memory, must hide what the killed one flushed.
func TestKilledReplayKeepsDeletion(t *testing.T) {
	ctx := context.Background()
	fs, c := vfs.NewCrashableMem(), ingesttest.NewClock()
	crash := func() *vfs.MemFS { return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0}) }
	r, err := deletionRig(t, fs, c, crashTweak)
	require.NoError(t, err)
	var samples []Sample // enough for the flush to load a file, which is durable at once
	for n := range 3 * 1000 {
		samples = append(samples, Sample{Labels: labels.FromStrings("__name__", "m", "x", fmt.Sprint(n)), TsMs: startMs})
	}
	_, err = r.Write(ctx, SamplesInput(samples))
	require.NoError(t, err)
	_, err = r.DeleteSeries(ctx, deletion.Request{Selectors: [][]*labels.Matcher{match(t, "__name__", "=", "m")}, ToMs: startMs})
	require.NoError(t, err)
	killed := crash()
	r.close()

	fs = killed
	r, err = deletionRig(t, fs, c, func(o *Options) {
		replayTweak(o)
		o.Head.FlushBytes = 1 << 20
		o.Deleting = func(_, _ int64, change func() error) error {
			killed = crash()
			return change()
		}
	})
	require.NoError(t, err)
	r.close()

	r, err = deletionRig(t, killed, c, crashTweak)
	require.NoError(t, err)
	for _, s := range samples {
		r.requireSeries(s.Labels, column{})
	}
	r.close()
}
