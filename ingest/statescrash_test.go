package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
	"halite/keyschema"
)

// TestDeletedStatesStayDeleted writes samples, deletes, rolls up, sweeps, cleans, and lets time pass so that samples
// are retired before their states. It cuts the power at a random file system operation, four times a seed. After each
// cut the ages change, so that a new age applies to samples that a shorter one has retired. No sample, state or list
// ever shows deleted data. All other data within the retention is there.
func TestDeletedStatesStayDeleted(t *testing.T) {
	first, count := crashSeeds(t)
	cut := map[string]int{}
	for seed := first; seed < first+max(4, count/40); seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { statesSeed(t, seed, cut) }) {
			t.Fatalf("reproduce: HALITE_SEED=%d HALITE_SEEDS=1 go test -run %s ./ingest", seed, t.Name())
		}
	}
	t.Logf("cut off: %v", cut)
}

// statesDriver does one thing after the other until the power is cut.
type statesDriver struct {
	t     *testing.T
	r     *statesRig
	fs    vfs.FS
	rng   *rand.Rand
	model *statesModel
	// during names the current operation. model holds the data before it, and after the data after it.
	during string
	after  *statesModel
	nextID uint64 // before the operation under way
	from   int64  // the first hour with samples
	log    []string
}

func statesSeed(t *testing.T, seed uint64, cut map[string]int) {
	rng := rand.New(rand.NewPCG(seed, 53))
	fs, c := vfs.NewCrashableMem(), ingesttest.NewClock()
	c.Advance(time.Duration(rng.IntN(28*24)) * time.Hour)
	d := &statesDriver{t: t, rng: rng, model: &statesModel{deletionModel: &deletionModel{}}}
	d.model.taken = &[keyschema.TierCount]map[int]int64{{}, {}, {}}
	d.from = keyschema.HourOf(c.Now().UnixMilli()) - 4*keyschema.DayHours
	for n := range 9 {
		ls := labels.FromStrings("__name__", fmt.Sprint("m", n%3), "x", fmt.Sprint(n/3))
		d.model.labels, d.model.columns = append(d.model.labels, ls), append(d.model.columns, column{})
		d.model.stated = append(d.model.stated, map[int64]bool{})
		d.model.statedDays = append(d.model.statedDays, map[int64]bool{})
	}
	defer func() {
		if t.Failed() {
			for _, line := range d.log {
				t.Log(line)
			}
		}
	}()
	for generation := range 4 {
		run := &crashRun{t: t, fs: fs, clock: c, oracle: newOracle(), rng: rng}
		d.fs = run.wrap()
		run.left.Store(int64(1 + rng.IntN(1500)))
		run.armed.Store(rng.IntN(4) == 0 && generation > 0) // also while the log is replayed
		var err error
		d.r, err = openStates(t, d.fs, c, randomAges(rng)...)
		require.NoError(t, err, "generation %d", generation)
		d.settle()
		run.armed.Store(true)
		for n := 0; n < 120 && !run.ended(); n++ {
			d.step(run)
		}
		run.cutPower(0, 1)
		cut[d.during]++
		d.close()
		fs = run.crashed
	}
}

// close closes everything, and records the resulting ages.
func (d *statesDriver) close() {
	d.t.Helper()
	for n := range d.model.labels {
		d.model.kept(d.r, n, keyschema.Raw)
		d.model.kept(d.r, n, keyschema.Hours)
	}
	require.NoError(d.t, d.r.Close(context.Background()))
	require.NoError(d.t, d.r.store.Close())
}

func (d *statesDriver) note(format string, args ...any) {
	d.log = append(d.log, fmt.Sprintf(format, args...))
}

func (d *statesDriver) lastHour() int64 { return keyschema.HourOf(d.r.clock.Now().UnixMilli()) }

// settle finds the outcome of the interrupted operation, and checks everything.
func (d *statesDriver) settle() {
	d.t.Helper()
	if d.during == "delete" && d.r.set.NextID() > d.nextID {
		d.model = d.after
	}
	if d.during == "write" {
		for n, ls := range d.model.labels {
			got, err := d.r.read(ls)
			require.NoError(d.t, err)
			before := d.model.columns[n]
			for ts, bits := range d.after.columns[n] {
				if is, has := got[ts]; has && is == bits && before[ts] != bits {
					before[ts] = bits
					d.model.dropStates(n, ts)
				}
			}
		}
	}
	d.note("opened again, during %s", d.during)
	d.after, d.during = nil, ""
	d.check(false)
}

func (d *statesDriver) check(worked bool) {
	d.t.Helper()
	d.model.check(d.r, d.from, d.lastHour(), worked)
}

// work runs the job until it has nothing to do.
func (d *statesDriver) work() error {
	for {
		worked, err := d.r.tiers.Step(context.Background())
		if err != nil || !worked {
			return err
		}
	}
}

// step does one operation. If the power fails during the operation, it counts as unfinished.
func (d *statesDriver) step(run *crashRun) {
	ctx := context.Background()
	d.after, d.nextID = d.model.clone(), d.r.set.NextID()
	var err error
	worked := false
	switch d.rng.IntN(15) {
	case 0, 1, 2, 3:
		d.during = "write"
		d.write()
	case 4, 5, 6:
		d.during = "delete"
		del := randomDeletion(d.t, d.rng, keyschema.HourStartMs(d.from), d.r.clock.Now().UnixMilli()+1)
		d.note("delete %v from %d to %d", del.Selectors, del.FromMs, del.ToMs)
		d.after.delete(d.r, del)
		_, err = d.r.DeleteSeries(ctx, del)
	case 7:
		d.during, err = "flush", d.r.Flush(ctx)
	case 8:
		// The server flushes long before samples are retired, and the job runs.
		d.during, err = "pass", errors.Join(d.r.Flush(ctx), d.work())
		if !run.ended() && err == nil {
			d.model = d.after
			d.check(true)
			d.after = d.model
			d.r.clock.Advance(time.Duration(d.rng.IntN(70*60)) * time.Minute)
		}
	case 9:
		d.during, err = "maintain", errors.Join(d.r.maintain(ctx), d.r.deleter.Maintain(ctx))
	case 10:
		d.during = "clean"
		_, err = d.r.CleanTombstones(ctx)
	case 11:
		d.during, err = "job", d.work()
	case 12:
		d.during = "sweep"
		if d.rng.IntN(2) == 0 { // nothing is dropped that still has to be computed
			err = errors.Join(d.r.Flush(ctx), d.work())
		}
		freed, sweepErr := d.r.sweeper.Sweep(ctx)
		err = errors.Join(err, sweepErr)
		d.note("swept %+v", freed)
	case 13:
		d.during = "rebuild"
		if err = d.r.Flush(ctx); err == nil {
			err = d.r.tiers.Rebuild(ctx, 0, math.MaxInt32)
		}
		worked = true
	case 14:
		d.during = "restart"
		d.close()
		d.r, err = openStates(d.t, d.fs, d.r.clock, randomAges(d.rng)...)
	}
	d.note("%s at hour %d", d.during, d.lastHour())
	var overload *OverloadError
	if err != nil && !errors.As(err, &overload) {
		require.NoError(d.t, err, d.during)
	}
	if !run.ended() {
		d.model = d.after
		if d.rng.IntN(3) == 0 || worked {
			d.check(worked)
		}
	}
}

// write sends samples within the retention. Each value occurs once.
func (d *statesDriver) write() {
	nowMs := d.r.clock.Now().UnixMilli()
	var samples []Sample
	for range 1 + d.rng.IntN(40) {
		n := d.rng.IntN(len(d.model.labels))
		ageMs := int64(d.r.ages.ForMetric(d.model.labels[n].Get("__name__"))[keyschema.Raw]) / int64(time.Millisecond)
		ts := nowMs - d.rng.Int64N(ageMs-keyschema.HourMs)
		if d.rng.IntN(3) == 0 {
			ts = nowMs - d.rng.Int64N(keyschema.HourMs)
		}
		v := d.rng.Float64()
		samples = append(samples, Sample{Labels: d.model.labels[n], TsMs: ts, Value: v})
		d.after.columns[n][ts] = math.Float64bits(v)
		d.after.dropStates(n, ts)
	}
	d.note("write %d samples", len(samples))
	result, err := d.r.Ingester.Write(context.Background(), SamplesInput(samples))
	require.NoError(d.t, err)
	require.Zero(d.t, result.Rejected)
}
