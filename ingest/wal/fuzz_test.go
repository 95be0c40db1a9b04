package wal

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

const fuzzSalt = 0x5eed

// FuzzFrames scans arbitrary bytes: every frame that is found encodes to the bytes it was found in.
func FuzzFrames(f *testing.F) {
	first := frame{kind: 1, seq: 1, payload: []byte("payload")}
	b := appendFrame(nil, fuzzSalt, &first)
	second := frame{kind: 2, seq: 2, prev: uint32(first.sum), groupOffset: 7}
	b = appendFrame(b, fuzzSalt, &second)
	f.Add(b)
	f.Add(b[3:])
	f.Add(append(bytes.Repeat([]byte{0}, 100), b...))
	f.Fuzz(func(t *testing.T, data []byte) {
		fs := vfs.NewMem()
		writeFile(t, fs, "f", data)
		r, err := openReader(fs, "f")
		require.NoError(t, err)
		defer r.close()
		for from, seq := int64(0), uint64(0); ; {
			off, found, ok := r.nextFrame(from, r.size, fuzzSalt, seq)
			if !ok {
				break
			}
			require.GreaterOrEqual(t, off, from)
			require.GreaterOrEqual(t, found.seq, seq)
			from, seq = off+found.sizeBytes(), found.seq+1
			require.Equal(t, data[off:from], appendFrame(nil, fuzzSalt, &found))
		}
	})
}

// FuzzHeaders parses arbitrary bytes as file header and watermark slot.
func FuzzHeaders(f *testing.F) {
	h := header{typ: typeSegment, salt: 1, number: 2, firstSeq: 3, prevBytes: 4, prevSum: 5, syncedBytes: 6}
	f.Add(h.append(nil))
	m := mark{salt: 1, generation: 2, pos: Position{3, 4}, sum: 5, nextSeq: 6, clean: true}
	f.Add(m.append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, reason, err := parseHeader(data); err == nil && reason == "" {
			again := h
			parsed, reason, err := parseHeader(again.append(nil))
			require.NoError(t, err)
			require.Empty(t, reason)
			parsed.sum = h.sum
			require.Equal(t, h, parsed)
		}
		if m, ok, err := parseMark(data); err == nil && ok {
			parsed, ok, err := parseMark(m.append(nil))
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, m, parsed)
		}
	})
}

// FuzzMutatedDirectory changes a part of one file. The log opens or reports damage. It never yields a frame that was not
// written, twice or out of order, and never loses a frame before the watermark without an error.
func FuzzMutatedDirectory(f *testing.F) {
	s := newSpecimen(f, false)
	f.Add(uint8(0), uint16(100), []byte{0xff}, false)
	f.Add(uint8(1), uint16(10), []byte("\x01\x02\x03"), false)
	f.Add(uint8(2), uint16(4000), bytes.Repeat([]byte{0x55}, 600), false)
	f.Add(uint8(9), uint16(0), []byte{}, true)
	f.Add(uint8(3), uint16(80), []byte{}, true)
	f.Fuzz(func(t *testing.T, file uint8, offset uint16, xor []byte, truncate bool) {
		names := append(s.files(t), watermarkName)
		name := names[int(file)%len(names)]
		contents := readFile(t, s.fs, path(name))
		at := int(offset) % len(contents)
		for i := range min(len(xor), len(contents)-at) {
			contents[at+i] ^= xor[i]
		}
		if truncate {
			contents = contents[:at]
		}
		fs := s.copy()
		writeFile(t, fs, path(name), contents)
		require.NoError(t, Inspect(fs, "data/wal", &bytes.Buffer{}, true))
		frames, _, _, refusal := openDamaged(t, fs)
		got := numbers(frames)
		require.True(t, slices.IsSorted(got))
		require.Len(t, slices.Compact(slices.Clone(got)), len(got))
		require.Subset(t, numbers(s.frames), got)
		if refusal == nil {
			require.GreaterOrEqual(t, len(got), int(s.marked))
			return
		}
		var damage *DamageError
		require.True(t, errors.As(refusal, &damage))
		require.Equal(t, name, damage.File)
	})
}
