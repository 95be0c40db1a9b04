package wal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"halite/ingest/wal/record"
)

// replayed is one frame as Replay gave it.
type replayed struct {
	kind    byte
	payload []byte
	pos     Position
}

func testOptions(fs vfs.FS) Options {
	return Options{Dir: "data/wal", FS: fs, SegmentBytesMax: 4096, CommitDelay: -1, WatermarkInterval: time.Hour}
}

// tryOpen opens and replays; the log is closed again if either fails.
func tryOpen(opts Options) (*Log, []replayed, ReplayStats, error) {
	l, err := Open(opts)
	if err != nil {
		return nil, nil, ReplayStats{}, err
	}
	var frames []replayed
	stats, err := l.Replay(func(kind byte, payload []byte, pos Position) error {
		frames = append(frames, replayed{kind, bytes.Clone(payload), pos})
		return nil
	}, nil)
	if err != nil {
		if closeErr := l.Close(); closeErr != nil {
			return nil, nil, stats, fmt.Errorf("%w; close: %v", err, closeErr)
		}
		return nil, frames, stats, err
	}
	return l, frames, stats, nil
}

func mustOpen(t testing.TB, opts Options) (*Log, []replayed, ReplayStats) {
	t.Helper()
	l, frames, stats, err := tryOpen(opts)
	require.NoError(t, err)
	return l, frames, stats
}

// payloadOf makes the i-th payload: its number and size further bytes that depend on it.
func payloadOf(i uint64, size int) []byte {
	p := binary.LittleEndian.AppendUint64(nil, i)
	rng := rand.New(rand.NewPCG(i, 1))
	for len(p) < 8+size {
		p = binary.LittleEndian.AppendUint64(p, rng.Uint64())
	}
	return p[:8+size]
}

// sampleKind is the kind of the frame with a number: the kinds of all samples in turn.
func sampleKind(i uint64) byte {
	return [...]byte{record.KindSamples, record.KindHistograms, record.KindStartTimes, record.KindExemplars}[i%4]
}

// requireKinds demands that each frame with samples has the kind of its number.
func requireKinds(t testing.TB, frames []replayed) {
	t.Helper()
	for _, f := range frames {
		if f.kind != record.KindSeries {
			require.Equal(t, sampleKind(numberOf(f.payload)), f.kind, "frame %d", numberOf(f.payload))
		}
	}
}

func numberOf(payload []byte) uint64 { return binary.LittleEndian.Uint64(payload) }

func appendWait(t testing.TB, l *Log, kind byte, payload []byte) Position {
	t.Helper()
	pos, err := l.Append(kind, payload)
	require.NoError(t, err)
	require.NoError(t, l.Wait(context.Background(), pos))
	return pos
}

// numbers lists the numbers of the frames' payloads.
func numbers(frames []replayed) []uint64 {
	var ns []uint64
	for _, f := range frames {
		ns = append(ns, numberOf(f.payload))
	}
	return ns
}

func sequence(from, to uint64) []uint64 {
	var ns []uint64
	for i := from; i <= to; i++ {
		ns = append(ns, i)
	}
	return ns
}

func readFile(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	r, err := openReader(fs, path)
	require.NoError(t, err)
	defer r.close()
	return bytes.Clone(r.view(0, int(r.size)))
}

func writeFile(t testing.TB, fs vfs.FS, path string, contents []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(bytes.Clone(contents))
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	require.NoError(t, syncDir(fs, fs.PathDir(path)))
}

// rehash makes the sum at the end of a header or watermark slot fit again.
func rehash(b []byte) {
	binary.LittleEndian.PutUint64(b[len(b)-8:], xxh3.Hash(b[:len(b)-8]))
}

var errBadSector = errors.New("bad sector")

// badSectors makes every read of the named file fail that touches bytes from lo on and before hi.
type badSectors struct {
	vfs.FS
	name   string
	lo, hi int64
}

func (fs badSectors) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.Open(name, opts...)
	if err != nil || fs.PathBase(name) != fs.name {
		return f, err
	}
	return badSectorFile{f, fs.lo, fs.hi}, nil
}

type badSectorFile struct {
	vfs.File
	lo, hi int64
}

func (f badSectorFile) ReadAt(b []byte, off int64) (int, error) {
	if off < f.hi && off+int64(len(b)) > f.lo {
		return 0, errBadSector
	}
	return f.File.ReadAt(b, off)
}
