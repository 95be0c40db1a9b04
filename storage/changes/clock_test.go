package changes

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClock(t *testing.T) {
	var c Clock
	require.Equal(t, []uint64{0, 0, 0}, c.Append(nil, 4, 6))
	c.Change([]int64{5})
	require.Equal(t, []uint64{0, 1, 0}, c.Append(nil, 4, 6))
	failed := errors.New("failed")
	require.ErrorIs(t, c.During([]int64{4, 6}, func() error {
		require.Equal(t, []uint64{2, 1, 2}, c.Append(nil, 4, 6), "raised before the change")
		return failed
	}), failed)
	require.Equal(t, []uint64{3, 1, 3}, c.Append(nil, 4, 6), "raised after the change, although it failed")
	require.Equal(t, uint64(3), c.Latest())
	c.Change(nil)
	require.Equal(t, []uint64{4, 4, 4}, c.Append(nil, 4, 6))
	c.Change([]int64{})
	require.Equal(t, []uint64{4, 4, 4}, c.Append(nil, 4, 6), "no bucket changed")
	many := make([]int64, bucketsMax+1)
	for i := range many {
		many[i] = int64(i)
	}
	c.Change(many)
	require.Equal(t, []uint64{6}, c.Append(nil, -9, -9), "too many buckets for versions of their own")
	require.Empty(t, c.buckets)
}
