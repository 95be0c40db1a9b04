package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"halite/ingest/wal/record"
)

// specimen is a closed or crashed log with known frames.
type specimen struct {
	fs     *vfs.MemFS
	frames []replayed
	// marked is the number of the last frame before the watermark.
	marked uint64
}

// newSpecimen makes a log with a checkpoint and several segments. Unless clean is set, some frames of the last segment come
// after the watermark, and each of them is a group of its own.
func newSpecimen(t testing.TB, clean bool) *specimen {
	t.Helper()
	fs := vfs.NewCrashableMem()
	l, _, _ := mustOpen(t, testOptions(fs))
	next := uint64(1)
	add := func(count int) {
		for range count {
			appendWait(t, l, sampleKind(next), payloadOf(next, int(next*37%700)))
			next++
		}
	}
	add(12)
	newest, err := l.Rotate()
	require.NoError(t, err)
	require.NoError(t, l.Truncate(newest, func(emit func(byte, []byte) error) error {
		for n := range next - 1 {
			if err := emit(record.KindSeries, payloadOf(n+1, 100)); err != nil {
				return err
			}
		}
		return nil
	}))
	add(30)
	_, err = l.Rotate()
	require.NoError(t, err)
	add(4)
	s := &specimen{marked: next - 1}
	d := l.durable
	require.NoError(t, l.mark.advance(mark{pos: d.pos, sum: d.sum, nextSeq: d.seq}))
	if !clean {
		add(4)
		s.fs = fs.CrashClone(vfs.CrashCloneCfg{})
		require.NoError(t, l.Close())
	} else {
		require.NoError(t, l.Close())
		s.fs = fs
	}
	l, frames, _ := mustOpen(t, testOptions(s.copy()))
	require.Equal(t, sequence(1, next-1), numbers(frames))
	requireKinds(t, frames)
	require.NoError(t, l.Close())
	s.frames = frames
	return s
}

func (s *specimen) copy() *vfs.MemFS { return s.fs.CrashClone(vfs.CrashCloneCfg{}) }

func path(name string) string { return "data/wal/" + name }

// files are the names that hold data, sorted.
func (s *specimen) files(t testing.TB) []string {
	names, err := s.fs.List("data/wal")
	require.NoError(t, err)
	names = slices.DeleteFunc(names, func(n string) bool { return n == lockName || n == watermarkName })
	slices.Sort(names)
	return names
}

// at returns the offset of damage that a reader must report for a changed byte. number is the number of the damaged frame, 0
// for the header of the file.
func (s *specimen) at(t testing.TB, name string, offset int64) (frameOffset int64, number uint64) {
	if offset < headerBytes {
		return 0, 0
	}
	r, err := openReader(s.fs, path(name))
	require.NoError(t, err)
	defer r.close()
	h, _, err := parseHeader(r.view(0, headerBytes))
	require.NoError(t, err)
	for off := int64(headerBytes); off < r.size; {
		f, reason := r.frameAt(off, r.size, h.salt)
		require.Empty(t, reason)
		if offset < off+f.sizeBytes() {
			return off, numberOf(f.payload)
		}
		off += f.sizeBytes()
	}
	t.Fatalf("%s has no byte %d", name, offset)
	return 0, 0
}

// openDamaged opens a damaged copy: without AcceptLoss, then with it, then again without it.
func openDamaged(t testing.TB, fs *vfs.MemFS) (
	frames []replayed, stats ReplayStats, damage *DamageError, refusal error,
) {
	l, frames, stats, refusal := tryOpen(testOptions(fs))
	if refusal == nil {
		require.NoError(t, l.Close())
		return frames, stats, nil, nil
	}
	require.ErrorAs(t, refusal, &damage)
	opts := testOptions(fs)
	opts.AcceptLoss = true
	l, frames, stats, err := tryOpen(opts)
	require.NoError(t, err)
	require.NotEmpty(t, stats.Losses)
	requireKinds(t, frames)
	appendWait(t, l, record.KindSamples, payloadOf(1<<40, 8))
	require.NoError(t, l.Close())
	l, again, healed := mustOpen(t, testOptions(fs))
	require.Empty(t, healed.Losses)
	require.Equal(t, append(numbers(frames), 1<<40), numbers(again), "what survived stays")
	requireKinds(t, again)
	require.NoError(t, l.Close())
	return frames, stats, damage, refusal
}

func without(ns []uint64, n uint64) []uint64 {
	return slices.DeleteFunc(slices.Clone(ns), func(m uint64) bool { return m == n })
}

// byteStep is the distance of the bytes of a file that a test damages. HALITE_EVERY_BYTE makes it 1.
func byteStep(full, short int) int {
	switch {
	case os.Getenv("HALITE_EVERY_BYTE") != "":
		return 1
	case testing.Short():
		return short
	}
	return full
}

func TestOneFlippedBit(t *testing.T) {
	for _, clean := range []bool{false, true} {
		s := newSpecimen(t, clean)
		all := numbers(s.frames)
		names := s.files(t)
		require.GreaterOrEqual(t, len(names), 4)
		last := names[len(names)-1]
		unmarked := 0
		for _, name := range names {
			contents := readFile(t, s.fs, path(name))
			step := byteStep(11, 53)
			for offset := 0; offset < len(contents); offset += step {
				bit := offset * 5 % 8
				broken := bytes.Clone(contents)
				broken[offset] ^= 1 << bit
				fs := s.copy()
				writeFile(t, fs, path(name), broken)
				at, number := s.at(t, name, int64(offset))
				frames, stats, damage, refusal := openDamaged(t, fs)
				where := fmt.Sprintf("%s byte %d bit %d (frame %d at %d): %v", name, offset, bit, number, at, refusal)
				if refusal == nil {
					// Only the very last frame may look torn, and only if it lies after the watermark.
					unmarked++
					require.Equal(t, last, name, where)
					require.Equal(t, all[len(all)-1], number, where)
					require.Greater(t, number, s.marked, where)
					require.Equal(t, without(all, number), numbers(frames), where)
					require.NotZero(t, stats.TornBytes, where)
					continue
				}
				require.Equal(t, name, damage.File, where)
				require.Equal(t, at, damage.Offset, where)
				require.Len(t, stats.Losses, 1, where)
				require.Equal(t, "damaged/"+name, stats.Losses[0].Kept, where)
				require.Equal(t, broken, readFile(t, fs, path("damaged/"+name)), where)
				if number == 0 && at == 0 || strings.HasSuffix(name, checkpointSuffix) {
					lost := len(all) - len(frames)
					require.LessOrEqual(t, lost, 1, where)
					continue
				}
				require.Equal(t, without(all, number), numbers(frames), where)
				require.EqualValues(t, 1, damage.LostFrames, where)
			}
		}
		require.Equal(t, clean, unmarked == 0)
	}
}

func TestZeroedPage(t *testing.T) {
	s := newSpecimen(t, true)
	all := numbers(s.frames)
	for _, name := range s.files(t) {
		contents := readFile(t, s.fs, path(name))
		for from := 0; from < len(contents); from += 512 {
			broken := bytes.Clone(contents)
			clear(broken[from:min(from+512, len(broken))])
			fs := s.copy()
			writeFile(t, fs, path(name), broken)
			at, _ := s.at(t, name, int64(from))
			frames, stats, damage, refusal := openDamaged(t, fs)
			require.Error(t, refusal, "%s from byte %d", name, from)
			require.Equal(t, name, damage.File)
			require.Equal(t, at, damage.Offset)
			require.Subset(t, all, numbers(frames))
			if name != checkpointName(2) {
				require.EqualValues(t, len(all)-len(frames), stats.Losses[0].Damage.LostFrames)
			}
		}
	}
}

func TestTruncatedFile(t *testing.T) {
	for _, clean := range []bool{false, true} {
		s := newSpecimen(t, clean)
		all := numbers(s.frames)
		names := s.files(t)
		last := names[len(names)-1]
		for _, name := range names {
			contents := readFile(t, s.fs, path(name))
			for size := 0; size < len(contents); size += byteStep(7, 41) {
				fs := s.copy()
				writeFile(t, fs, path(name), contents[:size])
				at, number := s.at(t, name, int64(size))
				frames, _, damage, refusal := openDamaged(t, fs)
				where := fmt.Sprintf("%s cut to %d bytes (frame %d at %d): %v", name, size, number, at, refusal)
				if refusal == nil {
					require.Equal(t, last, name, where)
					require.Greater(t, number, s.marked, where)
					require.Equal(t, sequence(1, number-1), numbers(frames), where)
					continue
				}
				require.Equal(t, name, damage.File, where)
				require.Equal(t, at, damage.Offset, where)
				require.Subset(t, all, numbers(frames), where)
			}
		}
	}
}

func TestMissingFile(t *testing.T) {
	s := newSpecimen(t, false)
	all := numbers(s.frames)
	for _, name := range append(s.files(t), watermarkName) {
		fs := s.copy()
		require.NoError(t, fs.Remove(path(name)))
		frames, stats, damage, refusal := openDamaged(t, fs)
		require.Error(t, refusal, name)
		require.Equal(t, name, damage.File)
		require.Contains(t, damage.Reason, "missing")
		require.Subset(t, all, numbers(frames))
		require.Empty(t, stats.Losses[0].Kept)
		if strings.HasSuffix(name, segmentSuffix) && name != s.files(t)[len(s.files(t))-1] {
			require.EqualValues(t, len(all)-len(frames), damage.LostFrames, name)
		}
		if name == watermarkName {
			require.Equal(t, all, numbers(frames))
		}
	}
}

func TestAllSegmentsMissing(t *testing.T) {
	s := newSpecimen(t, true)
	fs := s.copy()
	for _, name := range s.files(t) {
		require.NoError(t, fs.Remove(path(name)))
	}
	frames, stats, _, refusal := openDamaged(t, fs)
	require.Error(t, refusal)
	require.Empty(t, frames)
	require.EqualValues(t, len(s.frames), stats.Losses[0].Damage.LostFrames)
}

func TestSwappedAndForeignFiles(t *testing.T) {
	s := newSpecimen(t, true)
	all := numbers(s.frames)
	names := s.files(t)
	var segments []string
	for _, name := range names {
		if strings.HasSuffix(name, segmentSuffix) {
			segments = append(segments, name)
		}
	}
	for i, a := range segments {
		for _, b := range segments[i+1:] {
			fs := s.copy()
			writeFile(t, fs, path(a), readFile(t, s.fs, path(b)))
			writeFile(t, fs, path(b), readFile(t, s.fs, path(a)))
			frames, _, damage, refusal := openDamaged(t, fs)
			require.Error(t, refusal)
			require.Equal(t, a, damage.File)
			got := numbers(frames)
			require.True(t, slices.IsSorted(got))
			require.Subset(t, all, got)
		}
	}
	other := newSpecimen(t, true)
	for _, name := range names {
		fs := s.copy()
		writeFile(t, fs, path(name), readFile(t, other.fs, path(name)))
		frames, _, damage, refusal := openDamaged(t, fs)
		require.Error(t, refusal, name)
		require.Equal(t, name, damage.File)
		require.Equal(t, "the file belongs to another log", damage.Reason)
		require.Subset(t, all, numbers(frames))
	}
}

// TestOlderCopyOfTheLastSegment reads a valid file that ends before the watermark, or continues with other frames.
func TestOlderCopyOfTheLastSegment(t *testing.T) {
	fs := vfs.NewCrashableMem()
	l, _, _ := mustOpen(t, testOptions(fs))
	begin := fs.CrashClone(vfs.CrashCloneCfg{})
	appendWait(t, l, 1, payloadOf(1, 10))
	older := fs.CrashClone(vfs.CrashCloneCfg{})
	appendWait(t, l, 1, payloadOf(2, 10))
	require.NoError(t, l.Close())

	fork, _, _ := mustOpen(t, testOptions(begin))
	appendWait(t, fork, 1, payloadOf(77, 10))
	appendWait(t, fork, 1, payloadOf(78, 10))
	forkFile := readFile(t, begin, path(segmentName(1)))
	require.NoError(t, fork.Close())

	for name, contents := range map[string][]byte{
		"shorter": readFile(t, older, path(segmentName(1))),
		"other":   forkFile,
	} {
		fs := fs.CrashClone(vfs.CrashCloneCfg{})
		writeFile(t, fs, path(segmentName(1)), contents)
		_, _, damage, refusal := openDamaged(t, fs)
		require.Error(t, refusal, name)
		require.Equal(t, segmentName(1), damage.File, name)
		require.Positive(t, damage.Offset, name)
	}
}

// TestWatermarkSlots: one bad slot is a torn write and does no harm, two are damage.
func TestWatermarkSlots(t *testing.T) {
	s := newSpecimen(t, false)
	contents := readFile(t, s.fs, path(watermarkName))
	for slot := range slotCount {
		fs := s.copy()
		broken := bytes.Clone(contents)
		broken[slot*slotSpacing+20] ^= 1
		writeFile(t, fs, path(watermarkName), broken)
		frames, _, _, refusal := openDamaged(t, fs)
		require.NoError(t, refusal)
		require.Len(t, frames, len(s.frames))
	}
	fs := s.copy()
	writeFile(t, fs, path(watermarkName), make([]byte, watermarkBytes))
	frames, stats, damage, refusal := openDamaged(t, fs)
	require.Error(t, refusal)
	require.Equal(t, watermarkName, damage.File)
	require.Len(t, frames, len(s.frames))
	require.Equal(t, "damaged/watermark", stats.Losses[0].Kept)
}

// TestGarbageAfterTheEnd is a torn tail after a crash and damage after a clean close.
func TestGarbageAfterTheEnd(t *testing.T) {
	for _, clean := range []bool{false, true} {
		s := newSpecimen(t, clean)
		names := s.files(t)
		last := names[len(names)-1]
		garbage := make([]byte, 5000)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range garbage {
			garbage[i] = byte(rng.Uint32())
		}
		fs := s.copy()
		contents := readFile(t, s.fs, path(last))
		writeFile(t, fs, path(last), append(contents, garbage...))
		frames, stats, damage, refusal := openDamaged(t, fs)
		require.Equal(t, clean, refusal != nil)
		require.Equal(t, numbers(s.frames), numbers(frames))
		if clean {
			require.EqualValues(t, len(contents), damage.Offset)
			continue
		}
		require.EqualValues(t, len(garbage), stats.TornBytes)
		require.EqualValues(t, len(contents), stats.TornAt.Offset)
		require.Zero(t, stats.TornFrames)
	}
}

// TestFrameOfALaterGroupProvesDamage has two groups after the watermark. A gap in the first group is damage, because
// the log wrote the second group only after the first was durable. A gap with frames of the same group after it may
// come from a crash.
func TestFrameOfALaterGroupProvesDamage(t *testing.T) {
	fs := vfs.NewCrashableMem()
	opts := testOptions(fs)
	opts.SegmentBytesMax = 1 << 20
	l, _, _ := mustOpen(t, opts)
	var positions []Position
	for n := uint64(1); n <= 6; n++ {
		pos, err := l.Append(1, payloadOf(n, 100))
		require.NoError(t, err)
		positions = append(positions, pos)
		if n%3 == 0 {
			require.NoError(t, l.Wait(context.Background(), pos))
		}
	}
	at := fs.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, l.Close())
	contents := readFile(t, at, path(segmentName(1)))
	for i, pos := range positions {
		fs := at.CrashClone(vfs.CrashCloneCfg{})
		broken := bytes.Clone(contents)
		clear(broken[pos.Offset : pos.Offset+60])
		writeFile(t, fs, path(segmentName(1)), broken)
		frames, stats, damage, refusal := openDamaged(t, fs)
		if i < 3 {
			require.Error(t, refusal, "frame %d", i+1)
			require.Equal(t, pos.Offset, damage.Offset)
			require.Len(t, frames, 5)
			continue
		}
		require.NoError(t, refusal, "frame %d", i+1)
		require.Len(t, frames, i)
		require.EqualValues(t, 5-i, stats.TornFrames)
	}
}

func TestNewerFormatIsRefusedAndKept(t *testing.T) {
	s := newSpecimen(t, true)
	for _, name := range append(s.files(t), watermarkName) {
		fs := s.copy()
		contents := readFile(t, s.fs, path(name))
		if name == watermarkName {
			for slot := range slotCount {
				b := contents[slot*slotSpacing:]
				b[8] = formatVersion + 1
				rehash(b[:slotBytes])
			}
		} else {
			contents[8] = formatVersion + 1
			rehash(contents[:headerBytes])
		}
		writeFile(t, fs, path(name), contents)
		opts := testOptions(fs)
		opts.AcceptLoss = true
		_, _, _, err := tryOpen(opts)
		require.ErrorIs(t, err, ErrVersion, name)
		require.Equal(t, contents, readFile(t, fs, path(name)))
	}
}

func TestReadErrorIsDamageAndChangesNothing(t *testing.T) {
	s := newSpecimen(t, false)
	before, err := s.fs.List("data/wal")
	require.NoError(t, err)
	for _, name := range s.files(t) {
		fs := s.copy()
		opts := testOptions(badSectors{fs, name, 0, 1})
		_, _, _, err := tryOpen(opts)
		var damage *DamageError
		require.ErrorAs(t, err, &damage, name)
		require.True(t, errors.Is(err, errBadSector), name)
		require.Equal(t, name, damage.File)
		after, err := fs.List("data/wal")
		require.NoError(t, err)
		require.ElementsMatch(t, before, after)
		l, frames, _ := mustOpen(t, testOptions(fs))
		require.Len(t, frames, len(s.frames))
		require.NoError(t, l.Close())
	}
}

// TestForbiddenFileIsNoLoss: a file that may not be opened is intact. AcceptLoss does not give it up.
func TestForbiddenFileIsNoLoss(t *testing.T) {
	s := newSpecimen(t, false)
	before, err := s.fs.List("data/wal")
	require.NoError(t, err)
	for _, name := range s.files(t) {
		fs := s.copy()
		opts := testOptions(errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpOpen && strings.HasSuffix(op.Path, name) {
				return os.ErrPermission
			}
			return nil
		})))
		opts.AcceptLoss = true
		_, _, _, err := tryOpen(opts)
		require.ErrorIs(t, err, os.ErrPermission, name)
		require.NotErrorAs(t, err, new(*DamageError), name)
		require.ErrorContains(t, err, name)
		after, err := fs.List("data/wal")
		require.NoError(t, err)
		require.ElementsMatch(t, before, after)
		l, frames, _ := mustOpen(t, testOptions(fs))
		require.Len(t, frames, len(s.frames))
		require.NoError(t, l.Close())
	}
}

// TestBadSector: one page of a segment cannot be read. Even in the tail, past the watermark, that is not a torn tail. With
// AcceptLoss, only the frames in that page are lost.
func TestBadSector(t *testing.T) {
	fs := vfs.NewCrashableMem()
	opts := testOptions(fs)
	opts.SegmentBytesMax = 1 << 20
	l, _, _ := mustOpen(t, opts)
	var positions []Position
	for n := uint64(1); n <= 40; n++ {
		positions = append(positions, appendWait(t, l, 1, payloadOf(n, 500)))
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, l.Close())
	size := int64(len(readFile(t, crashed, path(segmentName(1)))))
	for lo := int64(badBlockBytes); lo < size; lo += badBlockBytes {
		first := slices.IndexFunc(positions, func(p Position) bool { return p.Offset+532+8 > lo })
		for _, accept := range []bool{false, true} {
			disk := crashed.CrashClone(vfs.CrashCloneCfg{})
			opts := testOptions(badSectors{disk, segmentName(1), lo, lo + 10})
			opts.AcceptLoss = accept
			l, frames, stats, err := tryOpen(opts)
			if accept {
				require.NoError(t, err, "from byte %d", lo)
				require.NoError(t, l.Close())
				require.ErrorIs(t, stats.Losses[0].Damage.Err, errBadSector)
				require.GreaterOrEqual(t, len(frames), 40-badBlockBytes/532-2)
				continue
			}
			var damage *DamageError
			require.ErrorAs(t, err, &damage, "from byte %d", lo)
			require.ErrorIs(t, err, errBadSector)
			require.Equal(t, positions[first].Offset, damage.Offset)
		}
	}
}
