package storage_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/storage"
)

// TestWholeDays: spans begin and end with days, up to the largest number.
func TestWholeDays(t *testing.T) {
	const day = storage.DayMs
	for _, c := range [][4]int64{
		{0, 0, 0, day - 1}, {day - 1, day, 0, 2*day - 1}, {day, 2*day - 1, day, 2*day - 1},
		{5*day + 1, math.MaxInt64, 5 * day, math.MaxInt64/day*day - 1},
	} {
		first, last := storage.WholeDays(c[0], c[1])
		require.Equal(t, [2]int64{c[2], c[3]}, [2]int64{first, last}, "%v", c)
	}
}
