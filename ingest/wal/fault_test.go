package wal

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

// TestFaultAtEveryOperation fails each operation of the script in turn, once or from then on. Nothing panics, and
// every acknowledged frame is there afterwards, whether or not the machine lost its power.
func TestFaultAtEveryOperation(t *testing.T) {
	for _, forever := range []bool{false, true} {
		for k, done := int64(1), false; !done; k++ {
			fs := vfs.NewCrashableMem()
			var j journal
			var operations, injected atomic.Int64
			inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
				n := operations.Add(1)
				// A failed close loses nothing: the file was synced before.
				if op.Kind == errorfs.OpFileClose || n != k && (!forever || n < k) {
					return nil
				}
				injected.Add(1)
				return errorfs.ErrInjected
			})
			err := script(errorfs.Wrap(fs, inject), &j)
			if done = operations.Load() < k; done {
				require.NoError(t, err)
				require.Greater(t, k, int64(150))
				break
			}
			if err != nil {
				require.ErrorIs(t, err, errorfs.ErrInjected, "operation %d", k)
			}
			acked := j.snapshot()
			for name, after := range map[string]*vfs.MemFS{
				"lived on":   fs,
				"lost power": fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(k), 4))}),
			} {
				l, frames, _, err := tryOpen(testOptions(after))
				require.NoError(t, err, "operation %d, %s", k, name)
				n, err := check(frames)
				require.NoError(t, err, "operation %d, %s", k, name)
				require.GreaterOrEqual(t, n, acked, "operation %d, %s", k, name)
				require.NoError(t, l.Close())
			}
		}
	}
}

// failing injects err into operations of one kind on the newest segment while armed.
type failing struct {
	kind  errorfs.OpKind
	err   error
	armed atomic.Bool
}

func (f *failing) MaybeError(op errorfs.Op) error {
	if f.armed.Load() && op.Kind == f.kind {
		return f.err
	}
	return nil
}

func (f *failing) String() string { return "failing" }

func TestNothingIsAcknowledgedAfterAFailure(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileSyncData} {
		fs := vfs.NewCrashableMem()
		fault := &failing{kind: kind, err: syscall.EIO}
		l, _, _ := mustOpen(t, testOptions(errorfs.Wrap(fs, fault)))
		durable := appendWait(t, l, 1, payloadOf(1, 10))
		fault.armed.Store(true)
		pos, err := l.Append(1, payloadOf(2, 10))
		require.NoError(t, err)
		err = l.Wait(context.Background(), pos)
		require.ErrorIs(t, err, ErrFailed)
		require.ErrorIs(t, err, syscall.EIO)
		require.NotErrorIs(t, err, ErrOverload)
		// The disk "recovers", as after an fsync whose error was reported once.
		fault.armed.Store(false)
		_, err = l.Append(1, payloadOf(3, 10))
		require.ErrorIs(t, err, ErrFailed)
		require.ErrorIs(t, l.Wait(context.Background(), pos), ErrFailed)
		require.ErrorIs(t, l.Wait(context.Background(), durable), ErrFailed)
		_, err = l.Rotate()
		require.ErrorIs(t, err, ErrFailed)
		require.ErrorIs(t, l.Truncate(1, nil), ErrFailed)
		require.ErrorIs(t, l.Stats().Err, ErrFailed)
		require.ErrorIs(t, l.Close(), ErrFailed)
		l, frames, stats := mustOpen(t, testOptions(fs.CrashClone(vfs.CrashCloneCfg{})))
		require.Equal(t, []uint64{1}, numbers(frames))
		require.False(t, stats.Clean)
		require.NoError(t, l.Close())
	}
}

// TestInterruptedSyncIsRepeated interrupts syncs of segments and of the watermark by signals.
func TestInterruptedSyncIsRepeated(t *testing.T) {
	fs := vfs.NewCrashableMem()
	var syncs atomic.Int64
	l, _, _ := mustOpen(t, testOptions(errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSyncData && syncs.Add(1)%3 != 0 {
			return syscall.EINTR
		}
		return nil
	}))))
	for n := uint64(1); n <= 5; n++ {
		appendWait(t, l, 1, payloadOf(n, 10))
	}
	require.Greater(t, syncs.Load(), int64(14))
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, l.Close())
	l, frames, _ := mustOpen(t, testOptions(crashed))
	require.Equal(t, sequence(1, 5), numbers(frames))
	require.NoError(t, l.Close())
}

// TestFramesOfAFailedSyncAreWrittenAgain restarts a log after a failed sync. The page cache still shows the frames, so the
// restart replays them and appends after them. Then the power fails.
func TestFramesOfAFailedSyncAreWrittenAgain(t *testing.T) {
	fs := vfs.NewCrashableMem()
	fault := &failing{kind: errorfs.OpFileSyncData, err: syscall.EIO}
	l, _, _ := mustOpen(t, testOptions(errorfs.Wrap(fs, fault)))
	appendWait(t, l, 1, payloadOf(1, 10))
	fault.armed.Store(true)
	for n := uint64(2); n <= 4; n++ {
		_, err := l.Append(1, payloadOf(n, 10))
		require.NoError(t, err)
	}
	require.ErrorIs(t, l.Close(), ErrFailed)

	l, frames, _ := mustOpen(t, testOptions(fs))
	require.Equal(t, sequence(1, 4), numbers(frames))
	appendWait(t, l, 1, payloadOf(5, 10))
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, l.Close())
	l, frames, _ = mustOpen(t, testOptions(crashed))
	require.Equal(t, sequence(1, 5), numbers(frames))
	require.NoError(t, l.Close())
}

func TestNoSpaceIsNamed(t *testing.T) {
	fs := vfs.NewMem()
	fault := &failing{kind: errorfs.OpFileWrite, err: syscall.ENOSPC}
	l, _, _ := mustOpen(t, testOptions(errorfs.Wrap(fs, fault)))
	appendWait(t, l, 1, payloadOf(1, 10))
	newest, err := l.Rotate()
	require.NoError(t, err)
	pos := appendWait(t, l, 1, payloadOf(2, 10))
	fault.armed.Store(true)
	err = l.Truncate(newest, func(emit func(byte, []byte) error) error { return nil })
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NotErrorIs(t, err, ErrFailed)
	require.NoError(t, l.Wait(context.Background(), pos), "a checkpoint without space does no harm")
	pos, err = l.Append(1, payloadOf(3, 10))
	require.NoError(t, err)
	err = l.Wait(context.Background(), pos)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, err, ErrOverload)
	require.ErrorIs(t, l.Close(), syscall.ENOSPC, "closed without space")
}

// fullDisk accepts a number of bytes for segments, and a part of the write that exceeds it.
type fullDisk struct {
	vfs.FS
	room *atomic.Int64
}

type fullFile struct {
	vfs.File
	room *atomic.Int64
}

func (fs fullDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if fs.room.Load() <= 0 {
		return nil, syscall.ENOSPC
	}
	f, err := fs.FS.Create(name, category)
	return fullFile{f, fs.room}, err
}

func (f fullFile) Write(b []byte) (int, error) {
	left := f.room.Add(-int64(len(b)))
	if left >= 0 {
		return f.File.Write(b)
	}
	n := max(0, len(b)+int(left))
	f.room.Store(0)
	if n, err := f.File.Write(b[:n]); err != nil {
		return n, err
	}
	return n, syscall.ENOSPC
}

// TestFullDiskHoldsTheLogUp fills the disk within a frame or at a new segment. Callers get an error at once. When there is
// space again, the log continues and has every frame once.
func TestFullDiskHoldsTheLogUp(t *testing.T) {
	for _, room := range []int64{0, 1, 31, 40, 1500, 3000, 3990, 4050} {
		mem := vfs.NewMem()
		disk := fullDisk{mem, new(atomic.Int64)}
		disk.room.Store(1 << 30)
		l, _, _ := mustOpen(t, testOptions(disk))
		appendWait(t, l, 1, payloadOf(1, 10))
		disk.room.Store(room)
		next, refused := uint64(2), false
		for !refused {
			pos, err := l.Append(1, payloadOf(next, 100))
			if err == nil {
				next++ // from here on it may become durable
				err = l.Wait(context.Background(), pos)
			}
			if refused = err != nil; refused {
				require.ErrorIs(t, err, ErrOverload)
				require.ErrorIs(t, err, syscall.ENOSPC)
			}
			require.Less(t, next, uint64(1000))
		}
		_, err := l.Append(1, payloadOf(next, 100))
		require.ErrorIs(t, err, syscall.ENOSPC, "full all the while")
		disk.room.Store(1 << 30)
		for err != nil {
			require.ErrorIs(t, err, ErrOverload)
			time.Sleep(time.Millisecond)
			_, err = l.Append(1, payloadOf(next, 100))
		}
		appendWait(t, l, 1, payloadOf(next+1, 10))
		require.NoError(t, l.Close())
		l, frames, _ := mustOpen(t, testOptions(mem))
		require.Equal(t, sequence(1, next+1), numbers(frames), "room for %d bytes", room)
		require.NoError(t, l.Close())
	}
}

// TestWatermarkFailureEndsTheLog checks that a log fails if it cannot advance its watermark.
func TestWatermarkFailureEndsTheLog(t *testing.T) {
	fs := vfs.NewMem()
	fault := &failing{kind: errorfs.OpFileWriteAt, err: syscall.EIO}
	opts := testOptions(errorfs.Wrap(fs, fault))
	opts.WatermarkInterval = 1
	l, _, _ := mustOpen(t, opts)
	fault.armed.Store(true)
	var err error
	for err == nil {
		var pos Position
		if pos, err = l.Append(1, payloadOf(1, 1)); err == nil {
			err = l.Wait(context.Background(), pos)
		}
	}
	require.ErrorIs(t, err, ErrFailed)
	require.ErrorIs(t, l.Close(), syscall.EIO)
}
