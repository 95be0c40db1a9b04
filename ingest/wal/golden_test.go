package wal

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest/wal/record"
)

// goldenLog writes the log that FORMAT.md explains: a checkpoint, a segment with all kinds of samples, a clean end.
func goldenLog(t *testing.T) vfs.FS {
	fs := vfs.NewMem()
	opts := testOptions(fs)
	require.NoError(t, makeDir(fs, opts.Dir))
	require.NoError(t, createWatermark(fs, opts.Dir, mark{salt: 0x0123456789abcdef, nextSeq: 1}))
	l, _, _ := mustOpen(t, opts)
	up := record.AppendSeries(nil, 1, labels.FromStrings("__name__", "up", "job", "node"))
	appendWait(t, l, record.KindSeries, up)
	newest, err := l.Rotate()
	require.NoError(t, err)
	require.NoError(t, l.Truncate(newest, func(emit func(byte, []byte) error) error {
		if err := emit(record.KindSeries, up); err != nil {
			return err
		}
		return emit(record.KindMetadata, record.AppendMetadata(nil, record.Metadata{
			Metric: "up", Type: "gauge", Help: "Up or not.",
		}))
	}))
	appendWait(t, l, record.KindSamples, record.AppendSamples(nil, []record.Sample{{Ref: 1, TsMs: 1_700_000_000_000, Value: 1}}))
	_, err = l.Append(record.KindSeries, record.AppendSeries(nil, 2, labels.FromStrings("__name__", "up", "job", "db")))
	require.NoError(t, err)
	appendWait(t, l, record.KindSamples, record.AppendSamples(nil, goldenSamples()))
	appendWait(t, l, record.KindHistograms, record.AppendEncoded(nil, goldenEncoded()))
	appendWait(t, l, record.KindStartTimes, record.AppendSamples(nil, []record.Sample{
		{Ref: 1, TsMs: 1_700_000_015_250, Value: 1_699_999_000_000},
	}))
	appendWait(t, l, record.KindExemplars, record.AppendEncoded(nil, goldenEncoded()))
	require.NoError(t, l.Close())
	return fs
}

func goldenSamples() []record.Sample {
	return []record.Sample{{Ref: 2, TsMs: 1_700_000_015_000}, {Ref: 1, TsMs: 1_700_000_015_250, Value: 1}}
}

// goldenEncoded are the histograms of the example in FORMAT.md. The log does not look into their encodings.
func goldenEncoded() []record.EncodedSample {
	return []record.EncodedSample{
		{Ref: 2, TsMs: 1_700_000_015_000, Data: []byte("abc")}, {Ref: 1, TsMs: 1_700_000_015_250, Data: []byte{}},
	}
}

// golden compares got with testdata/name. WAL_UPDATE_GOLDEN writes it instead: only for a new format version.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("WAL_UPDATE_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got, name)
}

func TestGoldenBytes(t *testing.T) {
	fs := goldenLog(t)
	names, err := fs.List("data/wal")
	require.NoError(t, err)
	slices.Sort(names)
	require.Equal(t, []string{"00000002.ckpt", "00000002.wal", lockName, watermarkName}, names)
	for _, name := range names {
		contents := readFile(t, fs, path(name))
		if name == watermarkName {
			contents = slices.Concat(contents[:slotBytes], contents[slotSpacing:slotSpacing+slotBytes])
		}
		if name != lockName {
			golden(t, name+".hex", hex.Dump(contents))
		}
	}
}

// TestGoldenLogOpens reads the committed bytes, not what today's code would write.
func TestGoldenLogOpens(t *testing.T) {
	fs := vfs.NewMem()
	require.NoError(t, makeDir(fs, "data/wal"))
	for _, name := range []string{"00000002.ckpt", "00000002.wal", watermarkName} {
		contents := parseDump(t, filepath.Join("testdata", name+".hex"))
		if name == watermarkName {
			slots := make([]byte, watermarkBytes)
			copy(slots, contents[:slotBytes])
			copy(slots[slotSpacing:], contents[slotBytes:])
			contents = slots
		}
		writeFile(t, fs, path(name), contents)
	}
	var listing strings.Builder
	require.NoError(t, Inspect(fs, "data/wal", &listing, true))
	golden(t, "inspect.txt", listing.String())
	l, frames, stats := mustOpen(t, testOptions(fs))
	require.True(t, stats.Clean)
	require.EqualValues(t, 2, stats.Checkpoint)
	var kinds []byte
	for _, f := range frames {
		kinds = append(kinds, f.kind)
	}
	require.Equal(t, []byte{
		record.KindSeries, record.KindMetadata, record.KindSamples, record.KindSeries, record.KindSamples,
		record.KindHistograms, record.KindStartTimes, record.KindExemplars,
	}, kinds)
	samples, err := record.DecodeSamples(nil, frames[4].payload)
	require.NoError(t, err)
	require.Equal(t, goldenSamples(), samples)
	var encoded []record.EncodedSample
	for it := record.ReadEncoded(frames[5].payload); it.Next(); {
		encoded = append(encoded, it.EncodedSample)
	}
	require.Equal(t, goldenEncoded(), encoded)
	require.NoError(t, l.Close())
}

// parseDump reads the format of hex.Dump.
func parseDump(t *testing.T, file string) []byte {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var b []byte
	for line := range strings.Lines(string(text)) {
		digits, _, _ := strings.Cut(line, "|")
		for _, field := range strings.Fields(digits)[1:] {
			octet, err := hex.DecodeString(field)
			require.NoError(t, err)
			b = append(b, octet...)
		}
	}
	return b
}

// TestInspectNamesDamage lists a damaged and a torn log.
func TestInspectNamesDamage(t *testing.T) {
	s := newSpecimen(t, false)
	names := s.files(t)
	fs := s.copy()
	contents := readFile(t, fs, path(names[2]))
	contents[headerBytes+40] ^= 1
	writeFile(t, fs, path(names[2]), contents)
	last := names[len(names)-1]
	writeFile(t, fs, path(last), append(readFile(t, fs, path(last)), 1, 2, 3))
	var listing strings.Builder
	require.NoError(t, Inspect(fs, "data/wal", &listing, false))
	require.Contains(t, listing.String(), "DAMAGE: write-ahead log damaged: "+names[2]+" at byte 72: frame ")
	require.Contains(t, listing.String(), "at least 1 frames are lost")
	require.Contains(t, listing.String(), "3 B, 0 whole frames, never acknowledged")
	require.NotContains(t, listing.String(), "no damage")
}
