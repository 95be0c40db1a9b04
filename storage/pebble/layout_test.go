package pebble

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
)

// layoutCase is a way to fill the data table: few or many hours of a series are in one day.
type layoutCase struct {
	name          string
	series, hours int
	valueBytes    int
}

const layoutFirstHour = 475_008 // the first hour of a day

var layoutCases = []layoutCase{
	{"series-day", 20_000, 24, 150},
	{"two-hours", 100_000, 2, 150},
	{"slow-month", 300, 24 * 30, 80},
}

// layoutKey returns a row key of a fleet of hosts that export the same metrics.
func layoutKey(schema *keyschema.Schema, series int, hour int64) []byte {
	host, metric := series/100, series%100
	name := fmt.Sprintf("node_metric_%02d_total", metric/4)
	region := []string{"eu-central-1", "eu-west-1", "us-east-1", "ap-south-1"}[host%4]
	tags := []keyschema.Tag{{Name: "arch", Value: "x86_64"}, {Name: "cpu", Value: fmt.Sprint(metric % 4)},
		{Name: "datacenter", Value: region + "b"}, {Name: "env", Value: "production"},
		{Name: "instance", Value: fmt.Sprintf("host-%05d.%s.example.net:9100", host, region)}, {Name: "job", Value: "node"},
		{Name: "os", Value: "Debian13.1"}, {Name: "rack", Value: fmt.Sprintf("rack-%d", host/24%60)},
		{Name: "region", Value: region}, {Name: "service", Value: fmt.Sprintf("service-%d", host/5%8)}}
	return keyschema.AppendHour(schema.RuleAt(name, hour).AppendPrefix(nil, name, tags), hour)
}

// loadLayout loads the rows hour by hour; it returns the bytes of their values.
func loadLayout(tb testing.TB, table storage.Table, c layoutCase) (valueBytes int) {
	tb.Helper()
	schema, err := keyschema.NewSchema(nil)
	require.NoError(tb, err)
	rng := rand.New(rand.NewPCG(1, 1))
	for h := range int64(c.hours) {
		hour := layoutFirstHour + h
		muts := make([]storage.RowMutation, c.series)
		for i := range muts {
			value := make([]byte, c.valueBytes-10+rng.IntN(21))
			for j := range value {
				value[j] = byte(rng.Uint32())
			}
			value[0] = 0x84
			valueBytes += len(value)
			muts[i] = storage.RowMutation{Key: layoutKey(schema, i, hour), Entries: []storage.Entry{{
				Family: storage.FamilySamples, Qualifier: keyschema.AppendChunkQualifier(nil, uint32(40_000+h)),
				TsMs: keyschema.HourCellMs(hour), Value: value}}}
		}
		slices.SortFunc(muts, func(a, b storage.RowMutation) int { return bytes.Compare(a.Key, b.Key) })
		require.NoError(tb, table.Load(tb.Context(), muts))
	}
	return valueBytes
}

// TestRowsAreSmall: in addition to its value, a row takes a few bytes after compaction, and a fraction of its key before
// compaction. The bounds are a fifth above the measured sizes.
func TestRowsAreSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("measures the bytes of 100,000 rows, which takes long under the race detector")
	}
	c := layoutCase{"few", 4_000, 24, 150}
	before, after := measureLayout(t, c)
	require.Less(t, before, 30.0, "bytes of a row without its value, as loaded")
	require.Less(t, after, 9.0, "bytes of a row without its value, compacted")
	require.Greater(t, after, 0.0)
}

// measureLayout returns the bytes of a row on disk without its value, before and after compaction.
func measureLayout(tb testing.TB, c layoutCase) (before, after float64) {
	tb.Helper()
	s, err := Open(Options{Dir: "/data", FS: vfs.NewMem()})
	require.NoError(tb, err)
	table, err := s.EnsureTable(tb.Context(), storage.DataSchema(0))
	require.NoError(tb, err)
	values := loadLayout(tb, table, c)
	perRow := func() float64 {
		return (float64(s.db.Metrics().Total().TablesSize) - float64(values)) / float64(c.series*c.hours)
	}
	before = perRow()
	require.NoError(tb, s.Compact(tb.Context()))
	after = perRow()
	require.NoError(tb, s.Close())
	return before, after
}

// TestManifestIsSmall loads the same rows repeatedly. The manifest does not keep records of deleted files, and the store opens
// from it.
func TestManifestIsSmall(t *testing.T) {
	fs := vfs.NewMem()
	opts := Options{Dir: "/data", FS: fs}
	s, err := Open(opts)
	require.NoError(t, err)
	table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	for range 300 {
		loadLayout(t, table, layoutCase{"one", 1, 2, 50})
	}
	largest := func() (sizeBytes int64) {
		names, err := fs.List("/data/tree")
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasPrefix(name, "MANIFEST") {
				info, err := fs.Stat("/data/tree/" + name)
				require.NoError(t, err)
				sizeBytes = max(sizeBytes, info.Size())
			}
		}
		return sizeBytes
	}
	require.Less(t, largest(), int64(manifestFileBytesMax*5/4))
	require.NoError(t, s.Close())
	s, err = Open(opts)
	require.NoError(t, err)
	table, err = s.Table(t.Context(), storage.DataSchema(0).Name)
	require.NoError(t, err)
	it := table.ReadRows(t.Context(), storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
	rows := 0
	for it.Next() {
		rows++
	}
	require.NoError(t, it.Err())
	require.NoError(t, it.Close())
	require.Equal(t, 2, rows)
	require.NoError(t, s.Close())
}

// BenchmarkLayout reports the results of measureLayout.
func BenchmarkLayout(b *testing.B) {
	for _, c := range layoutCases {
		b.Run(c.name, func(b *testing.B) {
			var before, after float64
			for b.Loop() {
				before, after = measureLayout(b, c)
			}
			b.ReportMetric(before, "B/row-loaded")
			b.ReportMetric(after, "B/row-compacted")
		})
	}
}
