package promql

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// putNumbered puts an entry whose words are all its key.
func putNumbered(t *rowTable, key uint64, words int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(key, 1, rowShape{samples: uint32(words), stepMs: 1}, words, func(to []uint64) {
		for i := range to {
			to[i] = key
		}
	})
}

// TestLentWordsStay borrows entries and puts many times as many others as there is room for.
func TestLentWordsStay(t *testing.T) {
	const words = 100
	table := newRowTable(1 << 18)
	budget := newBudget(&Options{BytesMax: 1 << 20}, &pool{bytesMax: math.MaxInt64})
	var (
		key  uint64
		lent [][]uint64
		keys []uint64
		l    = newLoan(table)
	)
	put := func() { key++; putNumbered(table, key, words) }
	turnover := 4 * table.regionsMax * table.regionWords() / words
	for len(l.regions) < table.regionsMax/2 {
		put()
		table.mu.RLock()
		s := table.get(key, 1)
		l.take(s.place, words)
		lent, keys = append(lent, table.words(s.place, words)), append(keys, key)
		table.mu.RUnlock()
	}
	require.NoError(t, l.charge(budget))
	for range turnover {
		put()
	}
	for i := range lent {
		for _, w := range lent[i] {
			require.Equal(t, keys[i], w)
		}
		require.NotNil(t, table.get(keys[i], 1), "it is still found")
	}
	require.NotNil(t, table.get(key, 1))

	all := newLoan(table) // nothing can be put now
	for n := range table.regions {
		all.take(uint32(n<<table.regionBits), 0)
	}
	for range turnover {
		put()
	}
	require.Nil(t, table.get(key, 1))

	all.end(budget)
	l.end(budget)
	require.Zero(t, budget.bytes.Load())
	for range turnover {
		put()
	}
	require.NotNil(t, table.get(key, 1))
	require.Nil(t, table.get(keys[0], 1), "its region was used again")
}
