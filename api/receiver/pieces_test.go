package receiver

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"halite/api/remote"
)

// TestPieces divides bodies into pieces of whole lines, and joins them again.
func TestPieces(t *testing.T) {
	t.Parallel()
	all := func(int64) bool { return true }
	for _, c := range []struct {
		body  string
		whole func(text []byte) int
		want  []string
	}{
		{"", nil, nil},
		{"longer than a piece\n" + "b\nand more than two\nx", nil, []string{"longer than a piece\nb\n", "and more than two\nx"}},
		{"a\nb\nc\nd\ne", nil, []string{"a\nb\nc\nd\n", "e"}},
		{"longer than a piece\nb", nil, []string{"longer than a piece\nb"}},
		{"a\nb\nc;\nd\n", func(text []byte) int { return strings.LastIndex(string(text), ";\n") + 2 }, []string{"a\nb\nc;\n", "d\n"}},
	} {
		p := NewPieces(iotest.OneByteReader(strings.NewReader(c.body)), make([]byte, 3, 10), 8, 64, all)
		require.EqualValues(t, 8, p.SizeBytes())
		p.Whole = c.whole
		var got []string
		for {
			piece, err := p.Next()
			require.NoError(t, err)
			if len(piece) == 0 {
				break
			}
			got = append(got, string(piece))
		}
		require.Equal(t, c.want, got)
	}
	_, err := NewPieces(strings.NewReader(strings.Repeat("x", 100)), nil, 8, 64, all).Next()
	require.ErrorIs(t, err, remote.ErrBodyTooLarge)
	_, err = NewPieces(strings.NewReader(strings.Repeat("x", 100)), nil, 8, 64, func(int64) bool { return false }).Next()
	require.ErrorIs(t, err, remote.ErrBodyMemory)
	broken := errors.New("broken")
	_, err = NewPieces(io.MultiReader(strings.NewReader("a\n"), iotest.ErrReader(broken)), nil, 8, 64, all).Next()
	require.ErrorIs(t, err, broken)
}
