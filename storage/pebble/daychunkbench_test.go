package pebble_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/pebble"
)

// BenchmarkReadDayChunks reads 30 days of 300 series from chunks and from day chunks: all series, one series, and single rows.
func BenchmarkReadDayChunks(b *testing.B) {
	const series, hours = 300, 30 * 24
	rows := dayChunkRows(series, 0, hours)
	for _, chunked := range []bool{false, true} {
		s, table := dayChunkStore(b, func(o *pebble.Options) {
			o.CacheBytes = 128 << 20
			o.Now = func() time.Time { return time.UnixMilli((dayChunkFirstHour + hours + 48) * 3_600_000) }
		})
		require.NoError(b, table.Load(b.Context(), rows))
		if chunked {
			require.Zero(b, s.WriteAllDayChunks(b.Context()))
		} else {
			require.NoError(b, s.Compact(b.Context()))
		}
		read := func(name string, set storage.RowSet, opts storage.ReadOptions, want int) {
			b.Run(fmt.Sprintf("%s/chunked=%t", name, chunked), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					n := 0
					it := table.ReadRows(b.Context(), set, opts)
					for it.Next() {
						n++
					}
					require.NoError(b, it.Err())
					require.NoError(b, it.Close())
					require.Equal(b, want, n)
				}
				perRow(b, want)
			})
		}
		read("all", storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{}, series*hours)
		read("keys", storage.RowSet{Ranges: []storage.RowRange{{}}},
			storage.ReadOptions{Filter: storage.Filter{KeysOnly: true}}, series*hours)
		prefix := string(rows[hours*100].Key[:len(rows[hours*100].Key)-7])
		read("series", storage.RowSet{Ranges: []storage.RowRange{{Start: []byte(prefix), End: []byte(prefix + ":")}}},
			storage.ReadOptions{}, hours)
		read("row", storage.RowSet{Keys: [][]byte{rows[hours*100+hours/2+5].Key}}, storage.ReadOptions{}, 1)
	}
}
