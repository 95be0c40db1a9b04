package rowcache

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/query/budget"
)

// putNumbered puts an entry and fills it with its key.
func putNumbered(t *table, key uint64, words int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(key, 1, layout{samples: uint32(words), stepMs: 1}, words, func(to []uint64) {
		for i := range to {
			to[i] = key
		}
	})
}

// TestPinnedWordsStay pins entries and then puts many times more entries than fit.
func TestPinnedWordsStay(t *testing.T) {
	const words = 100
	cache := &Cache{table: newTable(1 << 18)}
	table := cache.table
	pool, err := budget.NewPool(math.MaxInt64, nil)
	require.NoError(t, err)
	memory := budget.New(budget.Limits{BytesMax: 1 << 20}, pool)
	var (
		key    uint64
		pinned [][]uint64
		keys   []uint64
		l      = cache.NewPins()
	)
	put := func() { key++; putNumbered(table, key, words) }
	turnover := 4 * table.regionsMax * table.regionWords() / words
	for len(l.regions) < table.regionsMax/2 {
		put()
		table.mu.RLock()
		s := table.get(key, 1)
		l.add(s.place, words)
		pinned, keys = append(pinned, table.words(s.place, words)), append(keys, key)
		table.mu.RUnlock()
	}
	require.NoError(t, l.Reserve(memory))
	for range turnover {
		put()
	}
	for i := range pinned {
		for _, w := range pinned[i] {
			require.Equal(t, keys[i], w)
		}
		require.NotNil(t, table.get(keys[i], 1), "it is still found")
	}
	require.NotNil(t, table.get(key, 1))

	all := cache.NewPins() // nothing can be put now
	for n := range table.regions {
		all.add(uint32(n<<table.regionBits), 0)
	}
	for range turnover {
		put()
	}
	require.Nil(t, table.get(key, 1))

	all.Release(memory)
	l.Release(memory)
	require.Zero(t, memory.Reserved())
	for range turnover {
		put()
	}
	require.NotNil(t, table.get(key, 1))
	require.Nil(t, table.get(keys[0], 1), "its region was used again")
}
