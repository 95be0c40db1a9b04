package bigtable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gcp "cloud.google.com/go/bigtable"
	"github.com/stretchr/testify/require"

	"halite/storage"
)

// TestSpans compares spans, their batches and their remainders with a check of every key.
func TestSpans(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var universe []string
	for _, a := range []string{"a", "b", "c", "d"} {
		for _, b := range []string{"", "\x00", "\x00\x00", "a", "b", "\xff"} {
			universe = append(universe, a+b)
		}
	}
	slices.Sort(universe)
	pick := func() []byte { return []byte(universe[rng.IntN(len(universe))]) }
	for round := range 3000 {
		var set storage.RowSet
		for range rng.IntN(5) {
			set.Keys = append(set.Keys, pick())
		}
		for range rng.IntN(5) {
			r := storage.RowRange{Start: pick(), End: pick()}
			if rng.IntN(8) == 0 {
				r.Start = nil
			}
			if rng.IntN(8) == 0 {
				r.End = nil
			}
			set.Ranges = append(set.Ranges, r)
		}
		inSet := func(key string) bool {
			return slices.ContainsFunc(set.Keys, func(k []byte) bool { return string(k) == key }) ||
				slices.ContainsFunc(set.Ranges, func(r storage.RowRange) bool {
					return key >= string(r.Start) && (len(r.End) == 0 || key < string(r.End))
				})
		}
		spans := spansOf(set)
		for i := 1; i < len(spans); i++ {
			require.NotEmpty(t, spans[i-1].end)
			require.Less(t, spans[i-1].end, spans[i].start, "spans are apart")
		}
		reverse := round%2 == 1
		var joined []span
		for _, b := range batchesOf(spans, 100, reverse) {
			joined = append(joined, b...)
			size := 0
			_, keys := rowSetOf(b).(gcp.RowList)
			for _, s := range b {
				if keys {
					size += s.keyBytes()
				} else {
					size += s.rangeBytes()
				}
			}
			require.True(t, len(b) == 1 || size <= 100)
		}
		last := string(pick())
		rest := restOf(spans, last, reverse)
		for _, key := range universe {
			require.Equal(t, inSet(key), holds(spans, key), "%q of %q", key, set)
			require.Equal(t, inSet(key), holds(joined, key))
			beyond := key > last && !reverse || key < last && reverse
			require.Equal(t, inSet(key) && beyond, holds(rest, key), "%q after %q of %q, reverse %v", key, last, set, reverse)
		}
		require.True(t, len(rest) == 0 || len(spans) > 0, "no spans left must not turn into all rows")
	}
}

func holds(spans []span, key string) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return key >= s.start && (s.end == "" || key < s.end) })
}

func TestWavesKeepTheOrderOfEachKey(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 500 {
		rows := make([]pending, rng.IntN(30))
		for i := range rows {
			rows[i] = pending{index: i, key: fmt.Sprint(rng.IntN(12))}
		}
		total, last := 0, map[string]int{}
		for _, wave := range waves(rows) {
			seen := map[string]bool{}
			for _, row := range wave {
				require.False(t, seen[row.key], "a key occurs twice in a wave")
				seen[row.key] = true
				before, ok := last[row.key]
				require.True(t, !ok || before < row.index)
				last[row.key] = row.index
				total++
			}
		}
		require.Equal(t, len(rows), total)
	}
}

func TestSkipAfterFailure(t *testing.T) {
	before := [][]pending{{{key: "a", err: storage.ErrUnavailable}, {key: "b"}}}
	wave := []pending{{key: "a", index: 3}, {key: "b", index: 4}}
	rest := skipAfterFailure(before, wave)
	require.Len(t, rest, 1)
	require.Equal(t, "b", rest[0].key)
	require.Equal(t, 3, wave[1].index)
	require.ErrorIs(t, wave[1].err, storage.ErrUnavailable)
}

func TestLoadFollowsTablets(t *testing.T) {
	var l load
	l.wrote([]pending{{key: "a", sizeBytes: 1}, {key: "m", sizeBytes: 2}, {key: "z", sizeBytes: 4}})
	require.Equal(t, []loadCounts{{rowsWritten: 3, bytesWritten: 7}, {}}, l.rearrange([]string{"m"}))
	l.wrote([]pending{{key: "lzz", sizeBytes: 8}, {key: "m", sizeBytes: 16}})
	require.Equal(t, []loadCounts{{rowsWritten: 4, bytesWritten: 15}, {rowsWritten: 1, bytesWritten: 16}, {}},
		l.rearrange([]string{"m", "q"}))
	require.Equal(t, []loadCounts{{rowsWritten: 5, bytesWritten: 31}}, l.rearrange(nil))
}
