package tombstone

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

func example() *Tombstone {
	return &Tombstone{ID: 3, Seq: 300, FromMs: 1_700_000_000_000, ToMs: 1_700_000_003_600, MadeMs: 1_700_000_100_000,
		Pending: true, Selectors: [][]*labels.Matcher{
			{labels.MustNewMatcher(labels.MatchEqual, "__name__", "up")},
			{labels.MustNewMatcher(labels.MatchRegexp, "job", "a|b"), labels.MustNewMatcher(labels.MatchNotEqual, "x", "")},
		}}
}

// TestBytes compares encodings with FORMAT.md.
func TestBytes(t *testing.T) {
	require.Equal(t, "010103ac0280d095ffbc31"+"90ec95ffbc31"+"c0bab7fef962"+
		"02"+"01"+"00085f5f6e616d655f5f027570"+"02"+"02036a6f6203617c62"+"01017800"+"a01cb8f1",
		hex.EncodeToString(Append(nil, example())))
}

func TestRoundTrip(t *testing.T) {
	for _, tomb := range []*Tombstone{
		example(),
		{ID: 1, ToMs: math.MaxInt64, MadeMs: -5, Seq: math.MaxUint32,
			Selectors: [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchNotRegexp, "é", "(x.*)")}}},
	} {
		stored := Append([]byte("before"), tomb)
		got, err := Parse(stored[6:])
		require.NoError(t, err)
		require.Equal(t, tomb.String(), got.String())
		require.Equal(t, stored[6:], Append(nil, got))
		for i := range stored[6:] {
			stored[6+i] ^= 0x20
			_, err := Parse(stored[6:])
			require.ErrorIs(t, err, ErrBadTombstone)
			stored[6+i] ^= 0x20
		}
	}
}

// FuzzParse parses any body with a valid checksum.
func FuzzParse(f *testing.F) {
	whole := Append(nil, example())
	f.Add(whole[:len(whole)-checksumSize])
	f.Add([]byte{1, 0, 1, 1, 1, 1, 1, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, body []byte) {
		_, err := Parse(body)
		if err != nil {
			require.ErrorIs(t, err, ErrBadTombstone)
		}
		tomb, err := Parse(binary.LittleEndian.AppendUint32(body[:len(body):len(body)], crc32.Checksum(body, castagnoli())))
		if err != nil {
			require.ErrorIs(t, err, ErrBadTombstone)
			return
		}
		again, err := Parse(Append(nil, tomb))
		require.NoError(t, err)
		require.Equal(t, tomb.String(), again.String())
	})
}
