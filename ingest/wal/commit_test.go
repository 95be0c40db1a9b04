package wal

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// gate holds up the syncs of segments while shut.
type gate struct {
	mu      sync.Mutex
	arrived chan struct{}
	shut    bool
	open    chan struct{}
}

func newGate() *gate { return &gate{arrived: make(chan struct{}, 100), open: make(chan struct{})} }

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

func (g *gate) String() string { return "gate" }

func (g *gate) MaybeError(op errorfs.Op) error {
	if op.Kind != errorfs.OpFileSyncData || !strings.HasSuffix(op.Path, segmentSuffix+tempSuffix) {
		return nil
	}
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut {
		g.arrived <- struct{}{}
		<-g.open
	}
	return nil
}

// TestWaitersShareASync: requests that arrive during a sync share the next one.
func TestWaitersShareASync(t *testing.T) {
	g := newGate()
	l, _, _ := mustOpen(t, testOptions(errorfs.Wrap(vfs.NewMem(), g)))
	g.close()
	var wg sync.WaitGroup
	wait := func(n uint64) {
		pos, err := l.Append(1, payloadOf(n, 10))
		require.NoError(t, err)
		wg.Go(func() {
			if err := l.Wait(context.Background(), pos); err != nil {
				t.Error(err)
			}
		})
	}
	wait(1)
	<-g.arrived
	for n := uint64(2); n <= 30; n++ {
		wait(n)
	}
	require.Zero(t, l.Stats().Commits)
	require.NotZero(t, l.Stats().BufferBytes)
	close(g.open)
	wg.Wait()
	require.EqualValues(t, 2, l.Stats().Commits)
	require.Zero(t, l.Stats().BufferBytes)
	require.NoError(t, l.Close())
}

func TestOverload(t *testing.T) {
	for _, block := range []bool{false, true} {
		g := newGate()
		opts := testOptions(errorfs.Wrap(vfs.NewMem(), g))
		opts.BufferBytesMax = 1000
		opts.BlockWhenFull = block
		registry := prometheus.NewRegistry()
		opts.Registerer = registry
		l, _, _ := mustOpen(t, opts)
		g.close()
		pos, err := l.Append(1, payloadOf(1, 2000))
		require.NoError(t, err, "a single frame always fits")
		waited := make(chan error)
		go func() { waited <- l.Wait(context.Background(), pos) }()
		<-g.arrived
		if !block {
			_, err = l.Append(1, payloadOf(2, 10))
			require.ErrorIs(t, err, ErrOverload)
			close(g.open)
		} else {
			go func() {
				_, err := l.Append(1, payloadOf(2, 10))
				waited <- err
			}()
			close(g.open)
			require.NoError(t, <-waited)
		}
		require.NoError(t, <-waited)
		_, err = l.Append(1, payloadOf(3, 10))
		require.NoError(t, err, "there is room again")
		if !block {
			require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
				# HELP tsdb_wal_overloads_total Appends that failed because the buffer was full or the log stalled.
				# TYPE tsdb_wal_overloads_total counter
				tsdb_wal_overloads_total 1
			`), "tsdb_wal_overloads_total"))
		}
		require.NoError(t, l.Close())
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	g := newGate()
	l, _, _ := mustOpen(t, testOptions(errorfs.Wrap(vfs.NewMem(), g)))
	g.close()
	pos, err := l.Append(1, payloadOf(1, 1))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	waited := make(chan error)
	go func() { waited <- l.Wait(ctx, pos) }()
	<-g.arrived
	cancel()
	require.ErrorIs(t, <-waited, context.Canceled)
	close(g.open)
	require.NoError(t, l.Wait(context.Background(), pos))
	require.Error(t, l.Wait(context.Background(), Position{pos.Segment, pos.Offset + 1000}), "nothing was appended there")
	require.NoError(t, l.Close())
}

// TestUnwaitedFramesAreCommitted: the watermark's tick commits frames for which nobody waits, and then covers them.
func TestUnwaitedFramesAreCommitted(t *testing.T) {
	opts := testOptions(vfs.NewMem())
	opts.WatermarkInterval = time.Millisecond
	l, _, _ := mustOpen(t, opts)
	pos, err := l.Append(1, payloadOf(1, 1))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return pos.Before(l.Stats().Watermark) }, time.Minute, time.Millisecond)
	require.NoError(t, l.Close())
}

func TestCommitDelayDoesNotHoldUpALargeGroup(t *testing.T) {
	g := newGate()
	opts := testOptions(errorfs.Wrap(vfs.NewMem(), g))
	opts.CommitDelay = time.Hour
	opts.CommitBytes = 5000
	l, _, _ := mustOpen(t, opts)
	appendWait(t, l, 1, payloadOf(1, 1)) // The first commit after a pause does not wait,
	appendWait(t, l, 1, payloadOf(2, 1)) // nor does a lone client.
	waited := make(chan error)
	wait := func() {
		pos, err := l.Append(1, payloadOf(3, 1))
		require.NoError(t, err)
		go func() { waited <- l.Wait(context.Background(), pos) }()
	}
	g.close()
	wait()
	<-g.arrived
	wait()
	wait()
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.gathering.waiters == 2
	}, time.Minute, time.Millisecond)
	close(g.open)
	require.NoError(t, <-waited)
	// The other two would wait for more to come, but now the group is large enough.
	_, err := l.Append(1, payloadOf(4, 6000))
	require.NoError(t, err)
	require.NoError(t, <-waited)
	require.NoError(t, <-waited)
	_, err = l.Append(1, payloadOf(5, 1))
	require.NoError(t, err)
	require.NoError(t, l.Close(), "Close does not wait for the delay either")
}

func TestOneLogADirectory(t *testing.T) {
	for name, opts := range map[string]Options{"memory": testOptions(vfs.NewMem()), "disk": {Dir: t.TempDir() + "/a/b"}} {
		l, _, _ := mustOpen(t, opts)
		_, err := Open(opts)
		require.ErrorIs(t, err, ErrLocked, name)
		require.NoError(t, l.Close())
		l, _, _ = mustOpen(t, opts)
		require.NoError(t, l.Close())
	}
}

func TestOnDisk(t *testing.T) {
	opts := Options{Dir: t.TempDir() + "/data/wal", SegmentBytesMax: 1 << 16, WatermarkInterval: time.Millisecond}
	for round := range uint64(3) {
		l, frames, _ := mustOpen(t, opts)
		require.Equal(t, sequence(1, round*100), numbers(frames))
		for i := range uint64(100) {
			pos, err := l.Append(1, payloadOf(round*100+i+1, 2000))
			require.NoError(t, err)
			if i%10 == 0 {
				require.NoError(t, l.Wait(context.Background(), pos))
			}
		}
		require.Greater(t, l.Stats().Segments, 1)
		require.NoError(t, l.Close())
	}
	var listing strings.Builder
	require.NoError(t, Inspect(vfs.Default, opts.Dir, &listing, false))
	require.Contains(t, listing.String(), "no damage")
}

// TestRestartsDoNotPileUpSegments: a machine that crashes at every start must not fill its disk with empty segments.
func TestRestartsDoNotPileUpSegments(t *testing.T) {
	fs := vfs.NewCrashableMem()
	l, _, _ := mustOpen(t, testOptions(fs))
	appendWait(t, l, 1, payloadOf(1, 10))
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, l.Close())
	for range 10 {
		l, frames, _ := mustOpen(t, testOptions(crashed))
		require.Len(t, frames, 1)
		require.LessOrEqual(t, l.Stats().Segments, 3)
		crashed = crashed.CrashClone(vfs.CrashCloneCfg{})
		require.NoError(t, l.Close())
	}
}

// TestTornSectors tears the last group, which was written and not synced, in sectors of 512 bytes: any of them may be
// old, and the file may end anywhere.
func TestTornSectors(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 5))
		fs := vfs.NewMem()
		opts := testOptions(fs)
		opts.SegmentBytesMax = 1 << 20
		l, _, _ := mustOpen(t, opts)
		count := uint64(1 + rng.IntN(5))
		for n := uint64(1); n <= count; n++ {
			appendWait(t, l, 1, payloadOf(n, rng.IntN(600)))
		}
		mark := readFile(t, fs, path(watermarkName))
		synced := readFile(t, fs, path(segmentName(1)))
		for n := range uint64(1 + rng.IntN(6)) {
			_, err := l.Append(1, payloadOf(count+1+n, rng.IntN(2000)))
			require.NoError(t, err)
		}
		require.NoError(t, l.Close())
		torn := readFile(t, fs, path(segmentName(1)))
		for from := len(synced) / 512 * 512; from < len(torn); from += 512 {
			if rng.IntN(3) == 0 {
				clear(torn[max(from, len(synced)):min(from+512, len(torn))])
			}
		}
		if rng.IntN(3) == 0 {
			torn = torn[:len(synced)+rng.IntN(len(torn)-len(synced)+1)]
		}
		writeFile(t, fs, path(segmentName(1)), torn)
		writeFile(t, fs, path(watermarkName), mark)
		l, frames, _, err := tryOpen(opts)
		require.NoError(t, err, "seed %d", seed)
		require.GreaterOrEqual(t, uint64(len(frames)), count, "seed %d", seed)
		require.Equal(t, sequence(1, uint64(len(frames))), numbers(frames), "seed %d", seed)
		require.NoError(t, l.Close())
	}
}

func TestConcurrentUse(t *testing.T) {
	opts := testOptions(vfs.NewMem())
	opts.WatermarkInterval = time.Millisecond
	opts.Registerer = prometheus.NewRegistry()
	opts.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	l, _, _ := mustOpen(t, opts)
	var wg sync.WaitGroup
	var highest atomic.Uint64
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				pos, err := l.Append(1, payloadOf(uint64(g*1000+i), i))
				if err == nil {
					err = l.Wait(context.Background(), pos)
				}
				if err == nil && g == 0 && i%20 == 19 {
					var newest uint64
					if newest, err = l.Rotate(); err == nil {
						highest.Store(newest)
						err = l.Truncate(newest, func(emit func(byte, []byte) error) error { return emit(2, []byte("x")) })
					}
				}
				if err != nil {
					t.Error(err)
				}
				_ = l.Stats()
			}
		})
	}
	wg.Wait()
	require.Equal(t, highest.Load(), l.Stats().Checkpoint)
	require.EqualValues(t, 800, l.Stats().FramesAppended)
	count, err := testutil.GatherAndCount(opts.Registerer.(*prometheus.Registry))
	require.NoError(t, err)
	require.GreaterOrEqual(t, count, 12)
	require.NoError(t, l.Close())
	count, err = testutil.GatherAndCount(opts.Registerer.(*prometheus.Registry))
	require.NoError(t, err)
	require.Zero(t, count, "a closed log leaves no metrics behind")
}

func TestMisuse(t *testing.T) {
	_, err := Open(Options{SegmentBytesMax: 1, BufferBytesMax: -1})
	require.ErrorContains(t, err, "Dir")
	require.ErrorContains(t, err, "SegmentBytesMax")
	require.ErrorContains(t, err, "BufferBytesMax")
	l, err := Open(testOptions(vfs.NewMem()))
	require.NoError(t, err)
	_, err = l.Append(1, nil)
	require.ErrorIs(t, err, ErrNotReplayed)
	require.ErrorIs(t, l.Wait(context.Background(), Position{}), ErrNotReplayed)
	require.ErrorIs(t, l.Truncate(1, nil), ErrNotReplayed)
	_, err = l.Replay(nil, nil)
	require.NoError(t, err)
	_, err = l.Replay(nil, nil)
	require.Error(t, err)
	for _, kind := range []byte{0, KindMax + 1, kindEnd} {
		_, err = l.Append(kind, nil)
		require.Error(t, err)
	}
	_, err = l.Append(1, make([]byte, PayloadBytesMax+1))
	require.ErrorIs(t, err, ErrTooLarge)
	pos, err := l.Append(1, make([]byte, PayloadBytesMax))
	require.NoError(t, err)
	require.NoError(t, l.Wait(context.Background(), pos))
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Wait(context.Background(), pos), ErrClosed)
}
