package wal

import (
	"context"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"halite/storage"
)

// appendUntilRefused appends frames until the log refuses one, and returns the number that comes next and the error.
func appendUntilRefused(t *testing.T, l *Log, next uint64) (uint64, error) {
	t.Helper()
	for {
		require.Less(t, next, uint64(1000), "the log must refuse frames")
		pos, err := l.Append(1, payloadOf(next, 100))
		if err == nil {
			next++ // from here on it may become durable
			err = l.Wait(context.Background(), pos)
		}
		if err != nil {
			return next, err
		}
	}
}

// appendWhenTaken appends a frame as soon as the log takes it.
func appendWhenTaken(t *testing.T, l *Log, n uint64) {
	t.Helper()
	for {
		pos, err := l.Append(1, payloadOf(n, 100))
		if err == nil {
			require.NoError(t, l.Wait(context.Background(), pos))
			return
		}
		require.ErrorIs(t, err, ErrOverload)
		time.Sleep(time.Millisecond)
	}
}

// TestLogWaitsForDescriptors lets each resource run out when the log begins a segment. Callers get ErrOverload. The log
// continues by itself and has every frame once.
func TestLogWaitsForDescriptors(t *testing.T) {
	for _, cause := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EDQUOT} {
		mem := vfs.NewMem()
		fault := &failing{kind: errorfs.OpCreate, err: cause}
		l, _, _ := mustOpen(t, testOptions(errorfs.Wrap(mem, fault)))
		fault.armed.Store(true)
		next, err := appendUntilRefused(t, l, 1)
		require.ErrorIs(t, err, ErrOverload)
		require.ErrorIs(t, err, cause)
		require.NotErrorIs(t, err, ErrFailed)
		require.ErrorIs(t, l.Refusing(), cause)
		fault.armed.Store(false)
		appendWhenTaken(t, l, next)
		require.NoError(t, l.Refusing())
		require.NoError(t, l.Close())
		l, frames, _ := mustOpen(t, testOptions(mem))
		require.Equal(t, sequence(1, next), numbers(frames))
		require.NoError(t, l.Close())
	}
}

// TestNextSegmentIsReady: the log begins a segment although no descriptor is left, because the file is open already.
func TestNextSegmentIsReady(t *testing.T) {
	mem := vfs.NewMem()
	var exhausted atomic.Bool
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpCreate, errorfs.OpOpen, errorfs.OpOpenDir:
			if exhausted.Load() {
				return syscall.EMFILE
			}
		}
		return nil
	}))
	l, _, _ := mustOpen(t, testOptions(fs))
	require.Eventually(t, func() bool { return slices.Contains(list(t, mem), nextName) }, time.Minute, time.Millisecond)
	exhausted.Store(true)
	first := appendWait(t, l, 1, payloadOf(1, 3000))
	second := appendWait(t, l, 1, payloadOf(2, 3000))
	require.Equal(t, first.Segment+1, second.Segment)
	require.NotContains(t, list(t, mem), nextName)
	exhausted.Store(false)
	require.NoError(t, l.Close())
	left, err := mem.Create("data/wal/"+nextName, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	require.NoError(t, left.Close())
	l, frames, _ := mustOpen(t, testOptions(mem))
	require.Equal(t, sequence(1, 2), numbers(frames))
	require.NoError(t, l.Close())
	require.NotContains(t, list(t, mem), nextName, "a start removes the file of an earlier run")
}

func list(t *testing.T, fs vfs.FS) []string {
	t.Helper()
	names, err := fs.List("data/wal")
	require.NoError(t, err)
	return names
}

// TestTruncateDoesNotWaitForSpace: a flush on a full disk must not delay the end of the server.
func TestTruncateDoesNotWaitForSpace(t *testing.T) {
	fault := &failing{kind: errorfs.OpFileWrite, err: syscall.ENOSPC}
	l, _, _ := mustOpen(t, testOptions(errorfs.Wrap(vfs.NewMem(), fault)))
	appendWait(t, l, 1, payloadOf(1, 10))
	fault.armed.Store(true)
	_, err := l.Append(1, payloadOf(2, 10))
	require.NoError(t, err)
	before, err := l.Rotate()
	require.NoError(t, err)
	err = l.Truncate(before, func(func(byte, []byte) error) error { return nil })
	require.True(t, storage.Exhausted(err), "%v", err)
	require.NotErrorIs(t, err, ErrFailed)
	fault.armed.Store(false)
	appendWhenTaken(t, l, 3)
	require.NoError(t, l.Truncate(before, func(func(byte, []byte) error) error { return nil }))
	require.NoError(t, l.Close())
}

// TestWatermarkWaitsForSpace: a file system that copies on write can lack space for the watermark, too.
func TestWatermarkWaitsForSpace(t *testing.T) {
	fault := &failing{kind: errorfs.OpFileWriteAt, err: syscall.ENOSPC}
	opts := testOptions(errorfs.Wrap(vfs.NewMem(), fault))
	opts.WatermarkInterval = time.Millisecond
	l, _, _ := mustOpen(t, opts)
	fault.armed.Store(true)
	next, err := appendUntilRefused(t, l, 1)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NotErrorIs(t, err, ErrFailed)
	fault.armed.Store(false)
	appendWhenTaken(t, l, next)
	require.Eventually(t, func() bool { s := l.Stats(); return s.Watermark == s.Durable }, time.Minute, time.Millisecond)
	require.NoError(t, l.Close())
}
