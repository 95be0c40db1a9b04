package ingest

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
	"halite/keyschema"
	"halite/keyschema/daychunk"
	"halite/storage/pebble"
	"halite/storage/pebble/daycells"
)

// BenchmarkDays ingests three days of 5,000 series at 15 s with all background jobs, hour by hour. It reports the bytes
// that the engine wrote for each live byte at the end, and the bytes of a sample.
func BenchmarkDays(b *testing.B) {
	for b.Loop() {
		benchmarkDays(b, 5000, 3)
	}
}

func benchmarkDays(b *testing.B, count, days int) {
	const interval = 15 * time.Second
	c, reg, dir := ingesttest.NewClock(), prometheus.NewRegistry(), b.TempDir()
	store, err := pebble.Open(pebble.Options{Dir: dir + "/tables", Now: c.Now, Registerer: reg, DayChunks: &daycells.Codec{
		Name: daychunk.Format, Append: daychunk.Append, NewDecoder: func() daycells.Decoder { return new(daychunk.Decoder) },
	}})
	require.NoError(b, err)
	r, err := rigOn(context.Background(), b, vfs.Default, c, store, func(o *Options) {
		o.Dir, o.Head, o.Retention = dir+"/wal", HeadOptions{FlushInterval: -1}, keyschema.KeepFor(30*24*time.Hour)
	})
	require.NoError(b, err)
	bs := newBodies(b, count)
	values := make([]float64, count)
	rng := rand.New(rand.NewPCG(1, 2))
	var buf []byte
	for k := range days * 24 * int(time.Hour/interval) {
		atMs := c.Ms.Load()
		for n := range bs.plain {
			bs.change(n, func(i int) (int64, float64) {
				return atMs + int64(n)*700, step(rng, &values[n*2000+i], i)
			})
			buf = snappy.Encode(buf[:cap(buf)], bs.plain[n])
			result, err := r.Write(context.Background(), Input{Body: buf})
			require.NoError(b, err)
			require.Zero(b, result.Rejected)
		}
		c.Advance(interval)
		r.doStep()
		if k%int(time.Hour/interval) == 0 {
			require.NoError(b, r.maintain(context.Background()))
			awaitCompactions(reg)
		}
	}
	r.flush()
	awaitCompactions(reg)
	live := sumOf(reg, "tsdb_pebble_disk_bytes")
	written := sumOf(reg, "tsdb_pebble_level_flushed_bytes_total") + sumOf(reg, "tsdb_pebble_level_ingested_bytes_total") +
		sumOf(reg, "tsdb_pebble_level_compacted_bytes_total")
	b.ReportMetric(written/live, "written/live")
	b.ReportMetric(live/float64(count*days*24*int(time.Hour/interval)), "B/sample")
	r.close()
}

// step moves a value: of ten series one is constant, three are gauges, and six are counters.
func step(rng *rand.Rand, v *float64, i int) float64 {
	switch i % 10 {
	case 0:
		*v = 1
	case 1, 2, 3:
		*v = math.Round(math.Max(1, *v+rng.NormFloat64()*100))
	default:
		*v += float64(1 + rng.IntN(200))
	}
	return *v
}

// awaitCompactions waits until the engine has nothing to compact.
func awaitCompactions(reg *prometheus.Registry) {
	for idle := 0; idle < 5; {
		idle++
		if sumOf(reg, "tsdb_pebble_compactions_running") > 0 {
			idle = 0
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// sumOf adds up a metric over its labels.
func sumOf(reg *prometheus.Registry, name string) (sum float64) {
	families, _ := reg.Gather()
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}
