package wal

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

// TestCrashDuringSalvage cuts the power at each operation of a start that accepts a loss. The damage is then unchanged or
// repaired, and a start that accepts it again gives the same frames.
func TestCrashDuringSalvage(t *testing.T) {
	s := newSpecimen(t, false)
	broken := s.copy()
	name := s.files(t)[2]
	contents := readFile(t, broken, path(name))
	contents[headerBytes+frameHeaderBytes+3] ^= 1
	writeFile(t, broken, path(name), contents)
	_, number := s.at(t, name, headerBytes)
	survivors := without(numbers(s.frames), number)
	healed, refused := 0, 0
	for k, done := int64(1), false; !done; k++ {
		var j journal
		disk, _ := crashBefore(broken.CrashClone(vfs.CrashCloneCfg{}), k, int(k%3)*50, &j)
		opts := testOptions(disk.fs)
		opts.AcceptLoss = true
		l, frames, stats, err := tryOpen(opts)
		require.NoError(t, err)
		require.Equal(t, survivors, numbers(frames))
		require.Len(t, stats.Losses, 1)
		require.NoError(t, l.Close())
		if done = disk.crashed == nil; done {
			break
		}
		frames, stats, damage, refusal := openDamaged(t, disk.crashed)
		if refusal == nil {
			healed++
			require.Equal(t, survivors, without(numbers(frames), 1<<40), "operation %d", k)
			continue
		}
		refused++
		require.Equal(t, name, damage.File, "operation %d", k)
		require.Equal(t, survivors, numbers(frames), "operation %d", k)
		require.Len(t, stats.Losses, 1, "operation %d", k)
		kept := readFile(t, disk.crashed, path(stats.Losses[0].Kept))
		require.Equal(t, contents, kept, "operation %d", k)
	}
	require.NotZero(t, healed)
	require.NotZero(t, refused)
}

// TestForgedFrame reads a valid frame, as from an older copy of the file, that does not match the frames around it.
func TestForgedFrame(t *testing.T) {
	s := newSpecimen(t, true)
	names := s.files(t)
	for _, name := range names {
		r, err := openReader(s.fs, path(name))
		require.NoError(t, err)
		h, _, err := parseHeader(r.view(0, headerBytes))
		require.NoError(t, err)
		for off := int64(headerBytes); off < r.size; {
			f, reason := r.frameAt(off, r.size, h.salt)
			require.Empty(t, reason)
			next := off + f.sizeBytes()
			if f.kind != kindEnd {
				f.payload = bytes.Clone(f.payload)
				f.payload[0] ^= 1
				forged := readFile(t, s.fs, path(name))
				copy(forged[off:], appendFrame(nil, h.salt, &f))
				fs := s.copy()
				writeFile(t, fs, path(name), forged)
				_, _, _, err := tryOpen(testOptions(fs))
				var damage *DamageError
				require.ErrorAs(t, err, &damage, "%s at %d", name, off)
				require.Equal(t, name, damage.File)
				require.Equal(t, next, damage.Offset, "the frame after it notices")
			}
			off = next
		}
		require.NoError(t, r.close())
	}
}

// TestRewrittenFramesAreDurable: a start writes unsynced frames again into a new segment, and the power goes before the
// watermark advances. Damage to these frames is damage, even at the very end.
func TestRewrittenFramesAreDurable(t *testing.T) {
	fs := vfs.NewCrashableMem()
	l, _, _ := mustOpen(t, testOptions(fs))
	for n := uint64(1); n <= 3; n++ {
		appendWait(t, l, 1, payloadOf(n, 50))
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, l.Close())

	var atMark *vfs.MemFS
	marks := 0
	opts := testOptions(errorfs.Wrap(crashed, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWriteAt {
			if marks++; marks == slotCount+1 { // after those that count the start
				atMark = crashed.CrashClone(vfs.CrashCloneCfg{})
			}
		}
		return nil
	})))
	l, _, _ = mustOpen(t, opts)
	require.NoError(t, l.Close())
	contents := readFile(t, atMark, path(segmentName(2)))
	contents[len(contents)-1] ^= 1
	writeFile(t, atMark, path(segmentName(2)), contents)
	_, _, damage, refusal := openDamaged(t, atMark)
	require.Error(t, refusal)
	require.Equal(t, segmentName(2), damage.File)
}

// TestCheckpointIsDurableBeforeSegmentsGo: a simulated crash keeps removed files, but a real one may lose them.
func TestCheckpointIsDurableBeforeSegmentsGo(t *testing.T) {
	var operations []string
	var recording atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !recording.Load() {
			return nil
		}
		switch {
		case op.Kind == errorfs.OpRename && strings.HasSuffix(op.Path, checkpointSuffix+tempSuffix):
			operations = append(operations, "rename checkpoint")
		case op.Kind == errorfs.OpFileSync && op.Path == "data/wal":
			operations = append(operations, "sync directory")
		case op.Kind == errorfs.OpFileSync && strings.HasSuffix(op.Path, checkpointSuffix+tempSuffix):
			operations = append(operations, "sync checkpoint")
		case op.Kind == errorfs.OpRemove:
			operations = append(operations, "remove")
		}
		return nil
	}))
	l, _, _ := mustOpen(t, testOptions(fs))
	appendWait(t, l, 1, payloadOf(1, 1))
	newest, err := l.Rotate()
	require.NoError(t, err)
	pos, err := l.Append(1, payloadOf(2, 1))
	require.NoError(t, err)
	require.NoError(t, l.Wait(context.Background(), pos))
	recording.Store(true)
	require.NoError(t, l.Truncate(newest, func(func(byte, []byte) error) error { return nil }))
	recording.Store(false)
	require.NoError(t, l.Close())
	require.Equal(t, []string{"sync checkpoint", "rename checkpoint", "sync directory", "remove", "sync directory"},
		operations)
}

func TestTheFirstFailureStays(t *testing.T) {
	l, _, _ := mustOpen(t, testOptions(vfs.NewMem()))
	first, second := errors.New("first"), errors.New("second")
	l.fail("sync", first)
	l.fail("watermark", second)
	err := l.Close()
	require.ErrorIs(t, err, first)
	require.NotErrorIs(t, err, second)
}

// TestLaterDamageIsReportedToo: with AcceptLoss, the losses list all damage.
func TestLaterDamageIsReportedToo(t *testing.T) {
	s := newSpecimen(t, true)
	fs := s.copy()
	names := s.files(t)
	segments := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasSuffix(n, segmentSuffix) })
	want := numbers(s.frames)
	for _, name := range segments {
		contents := readFile(t, s.fs, path(name))
		contents[headerBytes+frameHeaderBytes] ^= 0x80
		writeFile(t, fs, path(name), contents)
		_, number := s.at(t, name, headerBytes)
		want = without(want, number)
	}
	frames, stats, _, refusal := openDamaged(t, fs)
	require.Error(t, refusal)
	require.Equal(t, want, numbers(frames))
	require.Len(t, stats.Losses, len(segments))
	for i, loss := range stats.Losses {
		require.Equal(t, segments[i], loss.Damage.File)
		require.EqualValues(t, 1, loss.Damage.LostFrames)
		require.Equal(t, loss.Damage.FirstSeq, loss.LastSeq)
	}
}
