package record

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDeletionRoundTrip(t *testing.T) {
	for _, d := range []Deletion{
		{Refs: []uint32{1, 2, 300, 1<<32 - 1}},
		{Last: true, Tombstone: []byte("what"), Refs: []uint32{}},
		{Last: true, Tombstone: []byte{0}, Refs: []uint32{0, 7}},
	} {
		got, err := ParseDeletion(AppendDeletion(nil, d))
		require.NoError(t, err)
		if got.Tombstone = append([]byte(nil), got.Tombstone...); len(got.Tombstone) == 0 {
			got.Tombstone = nil
		}
		require.Equal(t, d, got)
	}
}

// TestDeletionBytes pins what FORMAT.md draws.
func TestDeletionBytes(t *testing.T) {
	require.Equal(t, []byte{1, 2, 'a', 'b', 3, 5, 1, 0xac, 2},
		AppendDeletion(nil, Deletion{Last: true, Tombstone: []byte("ab"), Refs: []uint32{5, 6, 306}}))
}

func FuzzDeletion(f *testing.F) {
	f.Add(AppendDeletion(nil, Deletion{Last: true, Tombstone: []byte("ab"), Refs: []uint32{5, 6, 306}}))
	f.Add(AppendDeletion(nil, Deletion{Refs: []uint32{0, 1}}))
	f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ParseDeletion(b)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		again, err := ParseDeletion(AppendDeletion(nil, d))
		require.NoError(t, err)
		require.True(t, bytes.Equal(again.Tombstone, d.Tombstone))
		require.Equal(t, d.Refs, again.Refs)
	})
}
