package measure

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzParseStat(f *testing.F) {
	f.Add("1 (a) S 1 1 1 0 -1 4194560 1 1 1 1 123 45 0 0 20 0")
	f.Fuzz(func(t *testing.T, stat string) {
		if _, err := parseStat(stat); err != nil {
			require.ErrorIs(t, err, errStat)
		}
	})
}

func TestParseStat(t *testing.T) {
	got, err := parseStat("42 (a) b (c) R 1 42 42 0 -1 4194560 9 8 7 6 1234 66 0 0 20 0 1 0")
	require.NoError(t, err)
	require.Equal(t, 13.0, got)
	for _, bad := range []string{"", "42 (x", "42 (x) R 1", "42 (x) R 1 42 42 0 -1 4194560 9 8 7 6 a b 0"} {
		_, err := parseStat(bad)
		require.ErrorIs(t, err, errStat)
	}
	require.Equal(t, int64(2048<<10), statusBytes("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n", "VmHWM:"))
	require.Zero(t, statusBytes("Name:\tx\n", "VmHWM:"))
}
