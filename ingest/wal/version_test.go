package wal

import (
	"encoding/binary"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"
)

// TestOtherVersionsAreNamed opens logs of other versions. Each error names the version of the file, also if a newer
// version has its checksum elsewhere.
func TestOtherVersionsAreNamed(t *testing.T) {
	for _, name := range []string{"00000002.wal", "00000002.ckpt", watermarkName} {
		for _, version := range []uint16{1, formatVersion + 1} {
			for _, intact := range []bool{true, false} {
				if version < formatVersion && !intact {
					continue // looks like damage
				}
				fs := goldenLog(t).(*vfs.MemFS)
				contents := readFile(t, fs, path(name))
				for _, at := range []int{0, slotSpacing} {
					if at > 0 && name != watermarkName {
						break
					}
					binary.LittleEndian.PutUint16(contents[at+8:], version)
					if intact {
						binary.LittleEndian.PutUint64(contents[at+headerBytes-8:], xxh3.Hash(contents[at:at+headerBytes-8]))
					}
				}
				writeFile(t, fs, path(name), contents)
				_, _, _, err := tryOpen(testOptions(fs))
				require.ErrorContains(t, err, "version", "%s, version %d, intact %t", name, version, intact)
				if intact {
					require.ErrorIs(t, err, ErrVersion, name)
				} else {
					require.ErrorContains(t, err, "names version 3", name)
					require.ErrorContains(t, err, name)
				}
			}
		}
	}
}

// TestReadExtent reads the extent of a truncated log, and finds missing files.
func TestReadExtent(t *testing.T) {
	fs := goldenLog(t)
	e, err := ReadExtent(fs, "data/wal")
	require.NoError(t, err)
	require.NoError(t, e.Damage)
	require.False(t, e.Empty)
	require.EqualValues(t, 0x0123456789abcdef, e.Log)
	require.EqualValues(t, []uint64{2, 2, 2}, []uint64{e.FlushedBefore, e.First, e.Last})
	for _, name := range []string{"00000002.wal", "00000002.ckpt", watermarkName} {
		fs := goldenLog(t)
		require.NoError(t, fs.Remove(path(name)))
		e, err := ReadExtent(fs, "data/wal")
		require.NoError(t, err)
		require.ErrorContains(t, e.Damage, name)
	}
	none, err := ReadExtent(fs, "data/none")
	require.NoError(t, err)
	require.True(t, none.Empty)
	require.Zero(t, none.Log)
}

// TestSetAside moves a log into damaged/. A new log begins in its place.
func TestSetAside(t *testing.T) {
	fs := goldenLog(t)
	l, err := Open(testOptions(fs))
	require.NoError(t, err)
	require.NoError(t, l.SetAside())
	require.NoError(t, l.Close())
	kept, err := fs.List(path(damagedName))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"00000002.wal", "00000002.ckpt", watermarkName}, kept)
	l, frames, _ := mustOpen(t, testOptions(fs))
	require.Empty(t, frames)
	p, err := l.SegmentID(l.FirstSegment())
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Segment)
	require.NotEqualValues(t, 0x0123456789abcdef, p.Log)
	require.NoError(t, l.Close())
}
