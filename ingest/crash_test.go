package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
	"halite/keyschema"
	"halite/storage/storagetest/crashfs"
	"halite/storage/storagetest/seeds"
)

// crashSeeds returns the first seed and the number of seeds of a crash test.
func crashSeeds(t *testing.T) (first, count uint64) {
	return seeds.Range(t, seeds.Default{Full: 500, Short: 10})
}

// history holds all values written to one timestamp, in order. Value acked−1 is the last acknowledged one. Crashes may lose
// the values after it, and the values before it no longer matter.
type history struct {
	bits  []uint64
	acked int
}

// oracle knows the values that each series may hold after a crash.
type oracle struct {
	mu     sync.Mutex
	series map[string]map[int64]*history
	labels map[string]labels.Labels
}

func newOracle() *oracle {
	return &oracle{series: map[string]map[int64]*history{}, labels: map[string]labels.Labels{}}
}

// begin records writes before they are sent. The caller calls acknowledge when they are acknowledged.
func (o *oracle) begin(samples []Sample) (acknowledge func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	type mark struct {
		h *history
		n int
	}
	var marks []mark
	for _, s := range samples {
		name := s.Labels.String()
		if o.series[name] == nil {
			o.series[name], o.labels[name] = map[int64]*history{}, s.Labels
		}
		h := o.series[name][s.TsMs]
		if h == nil {
			h = &history{}
			o.series[name][s.TsMs] = h
		}
		h.bits = append(h.bits, math.Float64bits(s.Value))
		marks = append(marks, mark{h, len(h.bits)})
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, m := range marks {
			m.h.acked = max(m.h.acked, m.n)
		}
	}
}

// snapshot returns the acknowledged part of each history. The rest may still change.
func (o *oracle) snapshot() map[string]map[int64]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	acked := map[string]map[int64]int{}
	for name, c := range o.series {
		acked[name] = map[int64]int{}
		for at, h := range c {
			acked[name][at] = h.acked
		}
	}
	return acked
}

// check compares a reopened rig with the samples acknowledged at the crash. The next generation starts from its
// contents.
func (o *oracle) check(r *rig, acked map[string]map[int64]int) (*oracle, error) {
	next := newOracle()
	for name, c := range o.series {
		got, err := r.read(o.labels[name])
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		next.series[name], next.labels[name] = map[int64]*history{}, o.labels[name]
		for at, h := range c {
			n := acked[name][at]
			bits, found := got[at]
			delete(got, at)
			if !found {
				if n > 0 {
					return nil, fmt.Errorf("%s at %d: acknowledged sample is gone", name, at)
				}
				// The table may still hold it, in a row that the index does not know until the next write.
				next.series[name][at] = &history{bits: h.bits}
				continue
			}
			if !contains(h.bits[max(0, n-1):], bits) {
				return nil, fmt.Errorf("%s at %d: %x, want one of %x", name, at, bits, h.bits[max(0, n-1):])
			}
			next.series[name][at] = &history{bits: []uint64{bits}, acked: 1}
		}
		for at := range got {
			return nil, fmt.Errorf("%s has a sample at %d that nobody wrote", name, at)
		}
	}
	return next, nil
}

func contains(all []uint64, x uint64) bool {
	for _, a := range all {
		if a == x {
			return true
		}
	}
	return false
}

// crashTweak makes everything small, so that segments, rows and files turn over within a run.
func crashTweak(o *Options) {
	o.WALSegmentBytesMax, o.WALBytesMax = 4<<10, 64<<10
	o.Head = HeadOptions{
		FlushBytes: 4 << 10, // several slices a flush
		Stripes:    2, FlushInterval: -1, RowBytesMax: 300, BytesMax: 256 << 10, CheckpointInterval: time.Minute,
		IdleAfter: 10 * time.Hour,
	}
}

// TestCrashLosesNothingAcknowledged writes, flushes, checkpoints and retires at random. It cuts the power at a random
// file system operation, keeps a random part of the unsynced bytes, opens everything again and reads all of it, twice a
// seed.
func TestCrashLosesNothingAcknowledged(t *testing.T) {
	first, count := crashSeeds(t)
	samples := 0
	for seed := first; seed < first+count; seed++ {
		n, err := crashSeed(t, seed)
		if err != nil {
			t.Fatalf("%v\nreproduce: HALITE_SEED=%d HALITE_SEEDS=1 go test -run %s ./ingest", err, seed, t.Name())
		}
		samples += n
	}
	t.Logf("%d seeds, %d acknowledged samples read back", count, samples)
	require.Greater(t, samples, int(count), "the runs must write something")
}

func crashSeed(t *testing.T, seed uint64) (samples int, err error) {
	rng := rand.New(rand.NewPCG(seed, 11))
	fs, c, o := vfs.NewCrashableMem(), ingesttest.NewClock(), newOracle()
	var acked map[string]map[int64]int
	for generation := range 3 {
		run := &crashRun{t: t, fs: fs, clock: c, oracle: o, rng: rng}
		r, err := tryRig(t, run.wrap(), c, crashTweak)
		if err != nil {
			return 0, fmt.Errorf("generation %d does not open: %w", generation, err)
		}
		if o, err = o.check(r, acked); err != nil {
			return 0, fmt.Errorf("generation %d: %w", generation, err)
		}
		for _, c := range acked {
			for _, n := range c {
				samples += min(n, 1)
			}
		}
		run.oracle = o
		if err := run.run(r); err != nil {
			return 0, fmt.Errorf("generation %d: %w", generation, err)
		}
		fs, acked = run.crashed, run.acked
	}
	return samples, nil
}

// crashRun is one life of a rig up to the power cut.
type crashRun struct {
	t       testing.TB
	fs      *vfs.MemFS
	clock   *ingesttest.Clock
	oracle  *oracle
	rng     *rand.Rand
	armed   atomic.Bool
	left    atomic.Int64 // file system operations until the cut
	once    sync.Once
	links   sync.RWMutex
	crashed *vfs.MemFS
	acked   map[string]map[int64]int
	cut     atomic.Bool // from the beginning of the cut on
}

// wrap returns the file system that cuts the power.
func (c *crashRun) wrap() vfs.FS {
	c.left.Store(int64(1 + c.rng.IntN(250)))
	percent, seed := []int{0, 30, 70, 100}[c.rng.IntN(4)], c.rng.Uint64()
	return errorfs.Wrap(crashfs.FS{FS: c.fs, Clones: &c.links}, errorfs.InjectorFunc(func(errorfs.Op) error {
		if c.armed.Load() && c.left.Add(-1) == 0 {
			c.cutPower(percent, seed)
		}
		return nil
	}))
}

func (c *crashRun) cutPower(percent int, seed uint64) {
	c.once.Do(func() {
		c.cut.Store(true) // first, because a write can be acknowledged while its file is already copied
		c.acked = c.oracle.snapshot()
		c.links.Lock()
		defer c.links.Unlock()
		c.crashed = c.fs.CrashClone(vfs.CrashCloneCfg{
			UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 12)),
		})
	})
}

// run lets writers and a flusher work until the power is cut.
func (c *crashRun) run(r *rig) error {
	c.armed.Store(true)
	errs := make(chan error, 8)
	var running sync.WaitGroup
	for w := range 1 + c.rng.IntN(2) {
		rng := rand.New(rand.NewPCG(c.rng.Uint64(), 13))
		running.Add(1)
		go func() {
			defer running.Done()
			errs <- c.write(r, rng, w)
		}()
	}
	rng := rand.New(rand.NewPCG(c.rng.Uint64(), 14))
	running.Add(1)
	go func() {
		defer running.Done()
		errs <- c.flush(r, rng)
	}()
	running.Wait()
	// Writers and flusher have ended before the cut, so the power goes while nothing runs.
	c.cutPower(0, 1)
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	err := r.Close(context.Background())
	return errors.Join(err, r.store.Close())
}

func (c *crashRun) ended() bool { return c.cut.Load() }

// write sends requests of random samples to the writer's own series, one after the other.
func (c *crashRun) write(r *rig, rng *rand.Rand, writer int) error {
	for n := 0; n < 400 && !c.ended(); n++ {
		nowMs := c.clock.Ms.Load()
		var samples []Sample
		for range 1 + rng.IntN(12) {
			ls := labels.FromStrings("__name__", "m", "n", strconv.Itoa(rng.IntN(6)), "writer", strconv.Itoa(writer))
			at := nowMs - int64(rng.IntN(20))*1000
			switch rng.IntN(8) {
			case 0:
				at -= int64(rng.IntN(3)) * keyschema.HourMs
			case 1:
				at -= 30 * keyschema.HourMs
			}
			for range 1 + rng.IntN(6) {
				samples = append(samples, Sample{Labels: ls, TsMs: at, Value: rng.NormFloat64()})
				at += int64(rng.IntN(3))
			}
		}
		acknowledge := c.oracle.begin(samples)
		result, err := r.Write(context.Background(), SamplesInput(samples))
		var overload *OverloadError
		switch {
		case errors.As(err, &overload):
		case err != nil:
			return fmt.Errorf("write: %w", err)
		case result.Accepted != len(samples):
			return fmt.Errorf("write: %+v", result)
		default:
			acknowledge()
		}
	}
	return nil
}

// flush runs the background jobs at random.
func (c *crashRun) flush(r *rig, rng *rand.Rand) error {
	ctx := context.Background()
	for n := 0; n < 60 && !c.ended(); n++ {
		var err error
		switch rng.IntN(8) {
		case 0:
			err = r.Flush(ctx)
		case 1:
			err = r.maintain(ctx)
		case 2:
			c.clock.Advance(time.Duration(rng.IntN(90)) * time.Minute)
		default:
			c.clock.Advance(time.Duration(rng.IntN(180)) * time.Second)
			err = r.flusher.Step(ctx)
		}
		if err != nil {
			return fmt.Errorf("background: %w", err)
		}
		time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
	}
	return nil
}
