package ingest

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
	"halite/storage"
)

// slowDisk delays each sync of the log, and holds it while stalled is locked. held counts the commits that it holds.
type slowDisk struct {
	latency time.Duration
	stalled sync.RWMutex
	held    atomic.Int64
}

func (d *slowDisk) String() string { return "slow disk" }

func (d *slowDisk) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileSyncData && strings.Contains(op.Path, "/wal/") {
		commits := int64(1)
		if strings.HasSuffix(op.Path, "/watermark") { // a job of its own syncs the watermark
			commits = 0
		}
		time.Sleep(d.latency)
		d.held.Add(commits)
		d.stalled.RLock()
		d.held.Add(-commits)
		d.stalled.RUnlock()
	}
	return nil
}

// TestSlowDisk writes to a log whose disk takes 50 ms for a sync and then stalls. At the limit of the buffer writes are
// refused, so that memory stays bounded. After the stall and after power loss every acknowledged sample is there.
func TestSlowDisk(t *testing.T) {
	const senders, bufferBytes = 16, 8 << 10
	mem := vfs.NewCrashableMem()
	disk := &slowDisk{latency: 50 * time.Millisecond}
	clock := ingesttest.NewClock()
	tweak := func(o *Options) { o.WALBufferBytesMax = bufferBytes }
	f := &flood{r: openRig(t, errorfs.Wrap(mem, disk), clock, tweak)}
	for range senders {
		f.acked = append(f.acked, column{})
	}
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, senders)
	var done sync.WaitGroup
	for sender := range senders {
		done.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				if err := f.send(ctx, sender, k); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	require.Eventually(t, func() bool { return len(failed) > 0 || f.accepted.Load() >= 2*senders }, time.Minute, time.Millisecond)
	disk.stalled.Lock()
	require.Eventually(t, func() bool { return len(failed) > 0 || disk.held.Load() > 0 }, time.Minute, time.Millisecond)
	clock.Advance(5 * time.Second)
	before := f.refused.Load()
	require.Eventually(t, func() bool { return len(failed) > 0 || f.refused.Load() > before+100 }, time.Minute, time.Millisecond)
	require.ErrorIs(t, f.r.Refusing(), storage.ErrUnavailable)
	require.NotErrorIs(t, f.r.Refusing(), storage.ErrFailed)
	stats := f.r.log.Stats()
	require.LessOrEqual(t, stats.BufferBytes, bufferBytes)
	require.GreaterOrEqual(t, stats.CommitAge, 5*time.Second)
	disk.stalled.Unlock()

	stalled := f.accepted.Load()
	require.Eventually(t, func() bool { return len(failed) > 0 || f.accepted.Load() > stalled+senders }, time.Minute,
		time.Millisecond)
	cancel()
	done.Wait()
	require.Empty(t, failed)
	require.Eventually(t, func() bool { return f.r.Refusing() == nil }, time.Minute, time.Millisecond)
	require.Positive(t, f.r.counter("tsdb_wal_slow_commits_total", "", ""))
	crashed := openRig(t, mem.CrashClone(vfs.CrashCloneCfg{}), clock, tweak)
	for sender := range senders {
		got, err := crashed.read(labels.FromStrings(f.names(sender)...))
		require.NoError(t, err)
		for at, bits := range f.acked[sender] {
			require.Equal(t, bits, got[at], "sender %d at %d", sender, at)
		}
	}
	crashed.close()
	f.r.close()
}

// TestLogFailure breaks the log's device. Writes, deletions and flushes report that only a restart helps, in few log
// lines.
func TestLogFailure(t *testing.T) {
	var broken atomic.Bool
	var lines bytes.Buffer
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && op.Kind == errorfs.OpFileSyncData && strings.HasPrefix(op.Path, "/db/wal/") {
			return syscall.EIO
		}
		return nil
	}))
	clock := ingesttest.NewClock()
	r := openRig(t, fs, clock, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&lines, nil)) })
	one := []Sample{{Labels: labels.FromStrings("__name__", "a"), TsMs: startMs}}
	_, err := r.Write(t.Context(), SamplesInput(one))
	require.NoError(t, err)
	require.NoError(t, r.Refusing())
	broken.Store(true)
	lines.Reset()
	var overload *OverloadError
	for range 50 {
		_, err = r.Write(t.Context(), SamplesInput(one))
		require.ErrorAs(t, err, &overload)
		clock.Advance(100 * time.Millisecond)
		r.admission.reportRefused(clock.Now(), r.log.Stats().Err)
	}
	clock.Advance(time.Hour)
	r.admission.reportRefused(clock.Now(), r.log.Stats().Err)
	require.ErrorIs(t, r.Refusing(), storage.ErrFailed)
	require.ErrorIs(t, r.Flush(t.Context()), storage.ErrUnavailable)
	require.LessOrEqual(t, strings.Count(lines.String(), "\n"), 4, "%s", &lines)
	require.Contains(t, lines.String(), "refused_writes=49")
	require.ErrorIs(t, r.Close(context.Background()), syscall.EIO)
	require.NoError(t, r.store.Close())
}
