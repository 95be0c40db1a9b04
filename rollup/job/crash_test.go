package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/storagetest/crashfs"
	"halite/storage/storagetest/seeds"
)

// TestCrashConverges writes through a log as a server does, computes states, changes samples of closed days, and cuts
// the power at a random file system operation, several times. After each replay of the log, no state differs from its
// samples, and the job ends with all states computed.
func TestCrashConverges(t *testing.T) {
	first, count := seeds.Range(t, seeds.Default{Full: 30, Short: 6})
	hours := 0
	for seed := first; seed < first+count; seed++ {
		n, err := crashSeed(t, seed)
		if err != nil {
			t.Fatalf("%v\nreproduce: HALITE_SEED=%d HALITE_SEEDS=1 go test -run %s ./rollup/job", err, seed, t.Name())
		}
		hours += n
	}
	t.Logf("%d seeds, %d hours compared", count, hours)
	require.Greater(t, hours, int(count)*10)
}

// logged is a write in the log.
type logged struct {
	series  int
	samples map[int64]float64
}

// crashRun is one run of the rig, up to the power cut.
type crashRun struct {
	rng     *rand.Rand
	fs      *vfs.MemFS
	armed   atomic.Bool
	left    atomic.Int64
	once    sync.Once
	links   sync.RWMutex
	crashed *vfs.MemFS

	mu   sync.Mutex
	log  []logged // writes since the last sync
	kept []logged // the log at the cut
}

func (c *crashRun) wrap() vfs.FS {
	c.left.Store(int64(1 + c.rng.IntN(120)))
	percent, seed := []int{0, 30, 70, 100}[c.rng.IntN(4)], c.rng.Uint64()
	return errorfs.Wrap(crashfs.FS{FS: c.fs, Clones: &c.links}, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && c.armed.Load() && c.left.Add(-1) == 0 {
			c.cutPower(percent, seed)
		}
		return nil
	}))
}

func (c *crashRun) cutPower(percent int, seed uint64) {
	c.once.Do(func() {
		c.mu.Lock()
		c.kept = slices.Clone(c.log)
		c.mu.Unlock()
		c.links.Lock()
		defer c.links.Unlock()
		c.crashed = c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 12))})
	})
}

func crashSeed(t *testing.T, seed uint64) (hours int, err error) {
	rng := rand.New(rand.NewPCG(seed, 31))
	clock, fs := newClock(firstDay+1), vfs.NewCrashableMem()
	all := []*series{newSeries(0), newSeries(1), newSeries(2)}
	all[1].histograms = true
	var replay []logged
	for generation := range 4 {
		c := &crashRun{rng: rng, fs: fs, log: replay}
		c.armed.Store(true) // the power may fail during Open
		r, err := tryRig(c.wrap(), clock, func(o *rigOptions) {
			o.Job.BatchBytes = 200 // each series is a batch
			o.MarksMax = []int{1, 3, 4096}[rng.IntN(3)]
		})
		if err != nil {
			return hours, fmt.Errorf("generation %d does not open: %w", generation, err)
		}
		n, err := c.live(t, r, all, replay)
		if err = errors.Join(err, r.store.Close()); err != nil {
			return hours, fmt.Errorf("generation %d: %w", generation, err)
		}
		hours += n
		fs, replay = c.crashed, c.kept
	}
	return hours, nil
}

// live replays the log, verifies, and works until the power cut.
func (c *crashRun) live(t *testing.T, r *rig, all []*series, replay []logged) (hours int, err error) {
	for _, w := range replay {
		r.write(t, c.rng, all[w.series], w.samples)
	}
	if hours, err = c.verify(r); err != nil {
		return hours, fmt.Errorf("after the replay: %w", err)
	}
	ctx := context.Background()
	for step := 0; step < 40 && c.left.Load() > 0; step++ {
		switch c.rng.IntN(6) {
		case 0, 1:
			c.put(t, r, all, r.clock.Load()/dayMs) // today
		case 2:
			c.put(t, r, all, r.clock.Load()/dayMs-c.rng.Int64N(5))
		case 3:
			r.clock.Add(dayMs / 2)
		case 4:
			if _, err := r.Step(ctx); err != nil {
				return hours, err
			}
		case 5:
			if err := r.store.Sync(ctx); err != nil {
				return hours, err
			}
			c.mu.Lock()
			c.log = nil
			c.mu.Unlock()
		}
	}
	c.cutPower(0, 1) // the run has ended before the power cut
	for {
		worked, err := r.Step(ctx)
		if err != nil {
			return hours, err
		}
		if !worked {
			break
		}
	}
	n, err := c.verify(r)
	if _, month := r.Manifest.NextMonth(); err == nil && (month || len(r.Manifest.View().Days) > 0) {
		err = fmt.Errorf("the job ended with work left: %+v", r.Manifest.View())
	}
	return hours + n, err
}

// put logs and writes samples of a day.
func (c *crashRun) put(t *testing.T, r *rig, all []*series, day int64) {
	i := c.rng.IntN(len(all))
	samples := map[int64]float64{}
	fromMs := max(day, firstDay)*dayMs + c.rng.Int64N(20*keyschema.HourMs)
	for range 1 + c.rng.IntN(5) {
		fromMs += 1 + c.rng.Int64N(keyschema.HourMs/2)
		samples[fromMs] = float64(c.rng.IntN(1000))
	}
	c.mu.Lock()
	c.log = append(c.log, logged{i, maps.Clone(samples)})
	c.mu.Unlock()
	r.write(t, c.rng, all[i], samples)
}

// verify compares all valid states with the samples in the table.
func (c *crashRun) verify(r *rig) (hours int, err error) {
	v, err := r.Verify(context.Background(), firstDay-1, 1<<40, func(d Difference) error {
		return fmt.Errorf("unit %d, bucket %d of %s: stored %+v, computed %+v, %v", d.Unit, d.Bucket, d.Prefix, d.Stored,
			d.Computed, d.Err)
	})
	return v.Hours, err
}

// TestFaultsLeaveTheJobToRepeat fails file system operations during a pass. The job reports the error and repeats the pass.
func TestFaultsLeaveTheJobToRepeat(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var failing atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing.Load() && op.Kind == errorfs.OpCreate {
			return errors.New("injected")
		}
		return nil
	}))
	r := openRig(t, fs, newClock(firstDay+1), nil)
	defer r.close(t)
	s := newSeries(1)
	r.write(t, rng, s, generate(rng, 0, firstDay*dayMs, (firstDay+1)*dayMs, 60_000))
	r.clock.Add(dayMs / 2)
	failing.Store(true)
	_, err := r.Step(context.Background())
	require.ErrorContains(t, err, "injected")
	require.NotErrorIs(t, err, storage.ErrCorrupt)
	failing.Store(false)
	require.Eventually(t, func() bool { // the engine needs some time until it flushes again
		_, err := r.Step(context.Background())
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	r.work(t)
	require.Empty(t, r.Manifest.View().Days)
	v, err := r.Verify(context.Background(), firstDay-1, 1<<40, func(Difference) error { return errors.New("differs") })
	require.NoError(t, err)
	require.Equal(t, 24, v.Hours)
}
