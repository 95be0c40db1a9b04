package wal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halite/storage/storagetest/seeds"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"halite/ingest/wal/record"
)

// crashSeeds returns the first seed and the number of seeds of a crash test.
func crashSeeds(t *testing.T) (first, count uint64) {
	return seeds.Range(t, seeds.Default{Full: 600, Short: 20})
}

const kindSummary = record.KindMetadata

// journal is the oracle: it numbers the frames in the order of Append and knows which were acknowledged.
type journal struct {
	mu    sync.Mutex
	log   *Log
	next  uint64
	acked uint64
}

// append appends the next number. It does not retry.
func (j *journal) append(size int) (uint64, Position, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	pos, err := j.log.Append(sampleKind(j.next), payloadOf(j.next, size))
	if err != nil {
		return 0, pos, err
	}
	j.next++
	return j.next - 1, pos, nil
}

func (j *journal) ack(n uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.acked = max(j.acked, n)
}

func (j *journal) snapshot() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.acked
}

// truncate replaces everything so far by a summary, which holds the last number.
func (j *journal) truncate() error {
	j.mu.Lock()
	newest, err := j.log.Rotate()
	highest := j.next - 1
	j.mu.Unlock()
	if err != nil {
		return err
	}
	return j.log.Truncate(newest, func(emit func(byte, []byte) error) error {
		return emit(kindSummary, payloadOf(highest, 5000))
	})
}

// check checks that the frames are 1…n in order, the first of them perhaps as a summary, and returns n.
func check(frames []replayed) (uint64, error) {
	var n uint64
	for i, f := range frames {
		number := numberOf(f.payload)
		if f.kind == kindSummary {
			if i > 0 {
				return 0, fmt.Errorf("summary of %d as frame %d", number, i)
			}
			n = number
			continue
		}
		if f.kind != sampleKind(number) {
			return 0, fmt.Errorf("frame %d has kind %d, want %d", number, f.kind, sampleKind(number))
		}
		if number != n+1 {
			return 0, fmt.Errorf("frame %d has number %d, want %d", i, number, n+1)
		}
		if want := payloadOf(number, len(f.payload)-8); !slices.Equal(want, f.payload) {
			return 0, fmt.Errorf("payload %d differs", number)
		}
		n = number
	}
	return n, nil
}

// TestCrashLosesNothingAcknowledged cuts the power at a random file system operation under concurrent appenders, keeps
// a random part of the unsynced bytes, and opens the log again; several times a seed.
func TestCrashLosesNothingAcknowledged(t *testing.T) {
	first, count := crashSeeds(t)
	var torn, summaries int
	for seed := first; seed < first+count; seed++ {
		rng := rand.New(rand.NewPCG(seed, 7))
		fs := vfs.NewCrashableMem()
		for generation := range 4 {
			var stats ReplayStats
			var err error
			fs, stats, err = crashOnce(fs, rng)
			if err != nil {
				t.Fatalf("generation %d: %v\nreproduce: HALITE_SEED=%d HALITE_SEEDS=1 go test -run %s ./ingest/wal",
					generation, err, seed, t.Name())
			}
			if stats.TornBytes > 0 {
				torn++
			}
			if stats.Checkpoint > 0 {
				summaries++
			}
		}
	}
	t.Logf("%d seeds, %d torn ends, %d checkpoints", count, torn, summaries)
	if count >= 100 {
		require.NotZero(t, torn)
		require.NotZero(t, summaries)
	}
}

// crashOnce runs a log on fs and cuts the power. It checks that the log on the disk opens, and returns the disk.
func crashOnce(fs *vfs.MemFS, rng *rand.Rand) (*vfs.MemFS, ReplayStats, error) {
	var j journal
	var once sync.Once
	var crashed *vfs.MemFS
	var acked uint64
	cfg := vfs.CrashCloneCfg{
		UnsyncedDataPercent: []int{0, 100, rng.IntN(101), 20 + rng.IntN(60)}[rng.IntN(4)],
		RNG:                 rand.New(rand.NewPCG(rng.Uint64(), 0)),
	}
	crash := func() {
		once.Do(func() {
			acked = j.snapshot()
			crashed = fs.CrashClone(cfg)
		})
	}
	var operations atomic.Int64
	crashAt := int64(1 + rng.IntN([]int{8, 80}[rng.IntN(2)]))
	syncsOnly := rng.IntN(2) == 0
	opts := testOptions(errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		counts := op.Kind.ReadOrWrite() == errorfs.OpIsWrite
		if syncsOnly {
			counts = op.Kind == errorfs.OpFileSyncData
		}
		if counts && operations.Add(1) == crashAt {
			crash()
		}
		return nil
	})))
	opts.SegmentBytesMax = int64(256 << rng.IntN(8))
	opts.WatermarkInterval = []time.Duration{time.Hour, time.Millisecond}[rng.IntN(2)]
	l, frames, _, err := tryOpen(opts)
	if err != nil {
		return nil, ReplayStats{}, fmt.Errorf("before: %w", err)
	}
	n, err := check(frames)
	if err != nil {
		return nil, ReplayStats{}, fmt.Errorf("before: %w", err)
	}
	j.mu.Lock()
	j.log, j.next, j.acked = l, n+1, n
	j.mu.Unlock()
	if err := load(&j, rng); err != nil {
		return nil, ReplayStats{}, err
	}
	crash()
	if err := l.Close(); err != nil {
		return nil, ReplayStats{}, err
	}
	l, frames, stats, err := tryOpen(testOptions(crashed))
	if err != nil {
		return nil, stats, fmt.Errorf("open after the crash (%d %% of the unsynced kept): %w", cfg.UnsyncedDataPercent, err)
	}
	if n, err = check(frames); err != nil {
		return nil, stats, err
	}
	if n < acked {
		return nil, stats, fmt.Errorf("%d was acknowledged, the log ends at %d", acked, n)
	}
	// In half of the cases nobody closes the log before the next generation.
	next := crashed
	if rng.IntN(2) == 0 {
		next = crashed.CrashClone(vfs.CrashCloneCfg{})
	}
	return next, stats, l.Close()
}

// load appends from some goroutines and truncates now and then.
func load(j *journal, rng *rand.Rand) error {
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range 1 + rng.IntN(4) {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 1))
		sizeMax := []int{40, 1000, 9000, 9000}[rng.IntN(4)]
		wg.Go(func() {
			for range 1 + rng.IntN(20) {
				var n uint64
				var pos Position
				var err error
				// Bursts make groups of several frames over several pages. A crash can keep any of the pages.
				for range 1 + rng.IntN(6) {
					if n, pos, err = j.append(rng.IntN(sizeMax)); err != nil {
						break
					}
				}
				if err == nil && rng.IntN(4) > 0 {
					if err = j.log.Wait(context.Background(), pos); err == nil {
						j.ack(n)
					}
				}
				if err == nil && rng.IntN(20) == 0 {
					err = j.truncate()
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// script is a short run of a log without concurrency. It calls acked after each acknowledgement, and returns the first
// error.
func script(fs vfs.FS, j *journal) (err error) {
	opts := testOptions(fs)
	opts.SegmentBytesMax = 1024
	for range 3 {
		l, frames, _, err := tryOpen(opts)
		if err != nil {
			return err
		}
		n, err := check(frames)
		if err != nil {
			return err
		}
		j.mu.Lock()
		j.log, j.next = l, n+1
		j.mu.Unlock()
		if err := scriptLoad(j); err != nil {
			_ = l.Close()
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}

func scriptLoad(j *journal) error {
	for i := range 12 {
		n, pos, err := j.append(i * 37)
		if err != nil {
			return err
		}
		if i%3 == 1 {
			continue
		}
		if err := j.log.Wait(context.Background(), pos); err != nil {
			return err
		}
		j.ack(n)
		if i == 8 {
			if err := j.truncate(); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestCrashAtEveryOperation cuts the power before each operation of the script in turn.
func TestCrashAtEveryOperation(t *testing.T) {
	for _, percent := range []int{0, 50, 100} {
		for k, done := int64(1), false; !done; k++ {
			var j journal
			disk, acked := crashBefore(vfs.NewCrashableMem(), k, percent, &j)
			require.NoError(t, script(disk.fs, &j))
			if done = disk.crashed == nil; done {
				require.Greater(t, k, int64(100))
				break
			}
			l, frames, _, err := tryOpen(testOptions(disk.crashed))
			require.NoError(t, err, "operation %d, %d %%", k, percent)
			n, err := check(frames)
			require.NoError(t, err, "operation %d, %d %%", k, percent)
			require.GreaterOrEqual(t, n, *acked, "operation %d, %d %%", k, percent)
			require.NoError(t, l.Close())
		}
	}
}

// TestCrashWhileOpening cuts the power once during the script and again before each operation of the next start.
func TestCrashWhileOpening(t *testing.T) {
	step := int64(1)
	if testing.Short() {
		step = 4
	}
	for k, done := int64(1), false; !done; k += step {
		fs := vfs.NewCrashableMem()
		var j journal
		first, acked := crashBefore(fs, k, 50, &j)
		require.NoError(t, script(first.fs, &j))
		if done = first.crashed == nil; done {
			break
		}
		for m, opened := int64(1), false; !opened; m++ {
			again := first.crashed.CrashClone(vfs.CrashCloneCfg{})
			second, _ := crashBefore(again, m, []int{0, 50, 100}[(k+m)%3], &j)
			l, _, _, err := tryOpen(testOptions(second.fs))
			require.NoError(t, err, "operations %d and %d", k, m)
			require.NoError(t, l.Close())
			// The log writes in the background until it is closed.
			if opened = second.crashed == nil; opened {
				continue
			}
			l, frames, _, err := tryOpen(testOptions(second.crashed))
			require.NoError(t, err, "operations %d and %d", k, m)
			n, err := check(frames)
			require.NoError(t, err, "operations %d and %d", k, m)
			require.GreaterOrEqual(t, n, *acked, "operations %d and %d", k, m)
			require.NoError(t, l.Close())
		}
	}
}

// crashing wraps a file system; crashed is the state of its disk before the k-th operation that writes.
type crashing struct {
	fs      vfs.FS
	crashed *vfs.MemFS
}

func crashBefore(fs *vfs.MemFS, k int64, percent int, j *journal) (*crashing, *uint64) {
	c := &crashing{}
	acked := new(uint64)
	var operations atomic.Int64
	c.fs = errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && operations.Add(1) == k {
			*acked = j.snapshot()
			cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(uint64(k), 3))}
			c.crashed = fs.CrashClone(cfg)
		}
		return nil
	}))
	return c, acked
}
