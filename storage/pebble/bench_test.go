package pebble_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/pebble"
)

const (
	benchSeries    = 10_000
	benchFirstHour = 475_008 // the first hour of a day
	benchHours     = 24
	benchBytes     = 257 // of a chunk of 240 samples
)

func benchPrefix(series int) string {
	return fmt.Sprintf("node_cpu_seconds_total#%02d#cluster=eu-west-1,cpu=%02d,environment=production,"+
		"host=host-%05d.example.com,instance=host-%05d.example.com:9100,job=node-exporter,mode=user,region=eu-west,"+
		"team=platform#", series*16/benchSeries, series%16, series, series)
}

func benchKey(series int, hour int64) []byte {
	return fmt.Appendf(nil, "%s%07d", benchPrefix(series), 9_999_999-hour)
}

// benchRows returns one hour of all series, sorted.
func benchRows(hour int64) []storage.RowMutation {
	rng := rand.New(rand.NewPCG(uint64(hour), 1))
	muts := make([]storage.RowMutation, benchSeries)
	for i := range muts {
		value := make([]byte, benchBytes)
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		muts[i] = storage.RowMutation{Key: benchKey(i, hour), Entries: []storage.Entry{{Family: storage.FamilySamples,
			Qualifier: []byte{1, 0, 0, 0, 0}, TsMs: (hour+1)*3_600_000 - 1, Value: value}}}
	}
	sortMutations(muts)
	return muts
}

func benchStore(b *testing.B) (*pebble.Store, storage.Table) {
	s, err := pebble.Open(pebble.Options{Dir: "/data", FS: vfs.NewMem()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	table, err := s.EnsureTable(b.Context(), storage.DataSchema(0))
	require.NoError(b, err)
	return s, table
}

// benchDay returns a table with a day of all series.
func benchDay(b *testing.B) storage.Table {
	s, table := benchStore(b)
	for h := range int64(benchHours) {
		require.NoError(b, table.Load(b.Context(), benchRows(benchFirstHour+h)))
	}
	require.NoError(b, s.Compact(b.Context()))
	return table
}

// perRow reports the time per row, not per iteration.
func perRow(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}

// BenchmarkLoad writes one hour of all series at a time; compactions run meanwhile.
func BenchmarkLoad(b *testing.B) {
	_, table := benchStore(b)
	hours := make([][]storage.RowMutation, 0, benchHours)
	for h := range int64(benchHours) {
		hours = append(hours, benchRows(benchFirstHour+h))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		require.NoError(b, table.Load(b.Context(), hours[i%len(hours)]))
		i++
	}
	perRow(b, benchSeries)
}

// BenchmarkApply writes rows in requests of 1,000.
func BenchmarkApply(b *testing.B) {
	_, table := benchStore(b)
	rows := benchRows(benchFirstHour)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		at := i * 1000 % benchSeries
		require.NoError(b, table.Apply(b.Context(), rows[at:at+1000]))
		i++
	}
	perRow(b, 1000)
}

// BenchmarkSeriesScan reads a day of one series, warm.
func BenchmarkSeriesScan(b *testing.B) {
	table := benchDay(b)
	prefix := benchPrefix(4321)
	set := storage.RowSet{Ranges: []storage.RowRange{{Start: []byte(prefix), End: []byte(prefix + ":")}}}
	benchScan(b, table, set, benchHours, benchHours)
}

// BenchmarkFullScan reads a day of all series with one range.
func BenchmarkFullScan(b *testing.B) {
	benchScan(b, benchDay(b), storage.RowSet{Ranges: []storage.RowRange{{}}}, benchHours, benchHours*benchSeries)
}

// BenchmarkSkipScan reads one hour of 2,000 series among 10,000, warm.
func BenchmarkSkipScan(b *testing.B) {
	table := benchDay(b)
	var set storage.RowSet
	for i := 0; i < benchSeries; i += 5 {
		start := benchKey(i, benchFirstHour+11)
		set.Ranges = append(set.Ranges, storage.RowRange{Start: start, End: append(start[:len(start):len(start)], 0)})
	}
	benchScan(b, table, set, benchHours, len(set.Ranges))
}

// BenchmarkPoint reads one row.
func BenchmarkPoint(b *testing.B) {
	benchScan(b, benchDay(b), storage.RowSet{Keys: [][]byte{benchKey(777, benchFirstHour+3)}}, benchHours, 1)
}

func benchScan(b *testing.B, table storage.Table, set storage.RowSet, hours int64, want int) {
	opts := storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilySamples},
		FromMs: benchFirstHour * 3_600_000, ToMs: (benchFirstHour + hours) * 3_600_000}}
	b.ReportAllocs()
	for b.Loop() {
		rows := 0
		it := table.ReadRows(b.Context(), set, opts)
		for it.Next() {
			rows++
		}
		require.NoError(b, it.Err())
		require.NoError(b, it.Close())
		if rows != want {
			b.Fatalf("%d rows, want %d", rows, want)
		}
	}
	perRow(b, want)
}
