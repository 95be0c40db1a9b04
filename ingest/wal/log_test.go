package wal

import (
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFramesComeBackInOrder(t *testing.T) {
	fs := vfs.NewMem()
	var positions []Position
	next := uint64(1)
	for round := range 4 {
		l, frames, stats := mustOpen(t, testOptions(fs))
		require.Equal(t, sequence(1, next-1), numbers(frames))
		for i, f := range frames {
			require.Equal(t, byte(1+i%3), f.kind)
			require.Equal(t, positions[i], f.pos, "round %d frame %d", round, i)
		}
		require.Equal(t, round > 0, stats.Clean)
		for range 40 {
			pos, err := l.Append(byte(1+(next-1)%3), payloadOf(next, int(next%300)))
			require.NoError(t, err)
			positions = append(positions, pos)
			next++
		}
		require.NoError(t, l.Wait(context.Background(), positions[len(positions)-1]))
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		_, err := l.Append(1, nil)
		require.ErrorIs(t, err, ErrClosed)
	}
	_, err := fs.Stat("data/wal/00000005.wal")
	require.NoError(t, err, "the segments are small, so there must be many")
}

func TestCloseCommitsWhatNobodyWaitedFor(t *testing.T) {
	fs := vfs.NewCrashableMem()
	l, _, _ := mustOpen(t, testOptions(fs))
	_, err := l.Append(1, payloadOf(1, 10))
	require.NoError(t, err)
	require.NoError(t, l.Close())
	l, frames, stats := mustOpen(t, testOptions(fs.CrashClone(vfs.CrashCloneCfg{})))
	require.Equal(t, []uint64{1}, numbers(frames))
	require.True(t, stats.Clean)
	require.NoError(t, l.Close())
}

func TestTruncateReplaysCheckpointThenSegments(t *testing.T) {
	fs := vfs.NewMem()
	l, _, _ := mustOpen(t, testOptions(fs))
	for i := range uint64(50) {
		appendWait(t, l, 2, payloadOf(i, 200))
	}
	newest, err := l.Rotate()
	require.NoError(t, err)
	same, err := l.Rotate()
	require.NoError(t, err)
	require.Equal(t, newest, same, "an empty segment needs no cut")
	for i := range uint64(3) {
		pos := appendWait(t, l, 2, payloadOf(100+i, 5))
		require.Equal(t, newest, pos.Segment)
	}
	emitted := 0
	checkpoint := func(emit func(byte, []byte) error) error {
		for i := range uint64(2) {
			emitted++
			if err := emit(1, payloadOf(1000+i, 20)); err != nil {
				return err
			}
		}
		return nil
	}
	require.Error(t, l.Truncate(newest+1, checkpoint))
	require.NoError(t, l.Truncate(newest, checkpoint))
	require.NoError(t, l.Truncate(newest, checkpoint))
	require.Equal(t, 2, emitted, "the second truncation had nothing to do")
	require.Equal(t, 1, l.Stats().Segments)
	names, err := fs.List("data/wal")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{segmentName(newest), checkpointName(newest), watermarkName, lockName}, names)
	require.NoError(t, l.Close())

	l, frames, stats := mustOpen(t, testOptions(fs))
	require.Equal(t, []uint64{1000, 1001, 100, 101, 102}, numbers(frames))
	require.Equal(t, Position{newest, 0}, frames[0].pos)
	require.Equal(t, newest, stats.Checkpoint)
	failure := errors.New("no")
	cut2, err := l.Rotate()
	require.NoError(t, err)
	require.ErrorIs(t, l.Truncate(cut2, func(func(byte, []byte) error) error { return failure }), failure)
	require.NoError(t, l.Close())
	l, frames, _ = mustOpen(t, testOptions(fs))
	require.Len(t, frames, 5)
	require.NoError(t, l.Close())
}
