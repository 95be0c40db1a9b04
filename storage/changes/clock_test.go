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
}

func TestSince(t *testing.T) {
	var c Clock
	since := func(version uint64) (buckets []int64) {
		require.True(t, c.Since(version, func(bucket int64) { buckets = append(buckets, bucket) }))
		return buckets
	}
	require.Empty(t, since(0))
	c.Change([]int64{1, 2})
	c.Change([]int64{3})
	c.Change([]int64{2})
	require.Equal(t, []int64{2, 3, 1}, since(0))
	require.Equal(t, []int64{2, 3}, since(1))
	require.Empty(t, since(3))
	c.Change(nil)
	require.False(t, c.Since(3, nil), "every bucket changed")
	require.Empty(t, since(4))
}

// TestEvictedBuckets: an evicted bucket counts as changed.
func TestEvictedBuckets(t *testing.T) {
	var c Clock
	for n := range int64(bucketsMax) {
		c.Change([]int64{n})
	}
	require.Equal(t, []uint64{1}, c.Append(nil, 0, 0))
	require.True(t, c.Since(0, func(int64) {}))
	c.Change([]int64{bucketsMax}) // evicts bucket 0, which changed at version 1
	require.Len(t, c.buckets, bucketsMax)
	require.Equal(t, []uint64{1, 2}, c.Append(nil, 0, 1), "an evicted bucket has the version of the floor")
	require.False(t, c.Since(0, nil))
	require.True(t, c.Since(1, func(int64) {}), "version 1 has seen the change")
}
