package rowcache

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/query/column"
)

// TestRowTableAgainstMap puts entries of all lengths under few and many keys. A look-up finds only the last entry of a key, it
// finds the latest entries, and memory stays within its bound.
func TestRowTableAgainstMap(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, bytesMax := range []int64{1 << 18, 1 << 21} {
		for _, keys := range []uint64{40, 100_000} {
			checkRowTable(t, rng, bytesMax, keys)
		}
	}
}

func checkRowTable(t *testing.T, rng *rand.Rand, bytesMax int64, keys uint64) {
	type entry struct{ version, first, words uint64 }
	var (
		table = newTable(bytesMax)
		model = map[uint64]entry{}
		find  = func(key uint64) bool {
			want := model[key]
			s := table.get(key, want.version)
			if s == nil {
				return false
			}
			require.Nil(t, table.get(key, want.version+1))
			require.Equal(t, int(want.words), s.len())
			for i, w := range table.words(s.place, s.len()) {
				if w != want.first+uint64(i) {
					t.Fatalf("word %d of key %d is %d, not %d", i, key, w, want.first+uint64(i))
				}
			}
			return true
		}
	)
	found := 0
	for range 20_000 {
		key := 1 + rng.Uint64N(keys)
		e := entry{version: rng.Uint64N(3), first: rng.Uint64(), words: rng.Uint64N(8)}
		if rng.IntN(20) == 0 {
			e.words = rng.Uint64N(uint64(table.entryWordsMax()) + 1)
		}
		table.put(key, e.version, layout{samples: uint32(e.words), stepMs: 1}, int(e.words), func(words []uint64) {
			for i := range words {
				words[i] = e.first + uint64(i)
			}
		})
		model[key] = e
		require.True(t, find(key), "what was put last")
		for other := range model {
			if find(other) {
				found++
			}
			break
		}
	}
	require.Positive(t, found)
	require.LessOrEqual(t, table.sizeBytes(), bytesMax+bytesMax/8)
}

// TestEntriesWithinWindows compares the samples of an entry within a window with the samples of its columns.
func TestEntriesWithinWindows(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const startMs = 3_600_000
	for range 2_000 {
		var c column.Points
		ts, step := startMs+rng.Int64N(1000), 1+rng.Int64N(2000)
		uneven := rng.IntN(2) == 0
		for range rng.IntN(12) {
			c.TsMs, c.Values = append(c.TsMs, ts), append(c.Values, rng.NormFloat64())
			if ts += step; uneven && rng.IntN(4) == 0 {
				ts++
			}
		}
		traits := column.PropertiesOf(c)
		shape := layoutOf(startMs, c, traits)
		require.Equal(t, traits, shape.properties())
		words := make([]uint64, shape.words())
		shape.write(words, startMs, c)
		w := column.TimeRange{MinMs: startMs + rng.Int64N(12_000), MaxMs: startMs + rng.Int64N(30_000)}
		if w.Empty() {
			continue
		}
		from, end := shape.within(words, startMs, w)
		var got column.Buffer
		shape.appendTo(&got, words, startMs, from, end)
		want := w.Clip(c)
		require.Equal(t, len(want.TsMs), got.Len())
		for i := range want.TsMs {
			require.Equal(t, want.TsMs[i], got.TsMs[i])
			require.Equal(t, want.Values[i], got.Values[i])
		}
		pinned := (&hit{layout: shape, startMs: startMs, from: from, end: end}).pinned(words)
		var resets []int
		for i := 1; i < len(want.Values); i++ {
			if want.Values[i] < want.Values[i-1] {
				resets = append(resets, i)
			}
		}
		positions, known := pinned.AppendResets(nil)
		require.True(t, known)
		require.Equal(t, resets, positions)
	}
}

// TestRowTableGrowsOutOfTheHeap puts enough entries to move the slots out of the heap and to grow them there.
func TestRowTableGrowsOutOfTheHeap(t *testing.T) {
	const entries = 90_000
	table := newTable(64 << 20)
	for key := uint64(1); key <= entries; key++ {
		table.put(key, key+1, layout{samples: 1}, 1, func(words []uint64) { words[0] = ^key })
	}
	require.GreaterOrEqual(t, len(table.slots), 2*slotsMapped)
	if runtime.GOOS == "linux" {
		require.NotNil(t, table.slotWords)
	}
	for key := uint64(1); key <= entries; key++ {
		s := table.get(key, key+1)
		require.NotNil(t, s, key)
		require.Equal(t, ^key, table.words(s.place, 1)[0])
		require.Nil(t, table.get(key, key), "of another version")
	}
	require.Nil(t, table.get(entries+1, entries+2))
}
