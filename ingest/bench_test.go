package ingest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/keyviz"
	"halite/storage/principal"
)

// benchSeries makes label sets as node_exporter does. The value is never 0, which would not be encoded.
func benchSeries(n int) prompb.TimeSeries {
	return series([]string{
		"__name__", fmt.Sprintf("node_filesystem_metric_%d_bytes", n%50), "cluster", "production-eu-west-1",
		"device", fmt.Sprintf("/dev/nvme%dn1p%d", n/50%4, n/200%8), "fstype", "ext4",
		"instance", fmt.Sprintf("node-%05d.example.internal:9100", n/1600), "job", "node-exporter",
		"mountpoint", "/var/lib/containers/storage", "namespace", "monitoring",
	}, sample(startMs, float64(n+1)))
}

// bodies holds plain WriteRequests of 2,000 series with one sample each; stamp moves their samples in time.
type bodies struct {
	plain [][]byte
	at    [][]int // offsets of the samples' last field
}

func newBodies(b testing.TB, seriesCount int) *bodies {
	bs := &bodies{}
	for from := 0; from < seriesCount; from += 2000 {
		req := &prompb.WriteRequest{}
		for n := from; n < min(from+2000, seriesCount); n++ {
			req.Timeseries = append(req.Timeseries, benchSeries(n))
		}
		plain, err := req.Marshal()
		require.NoError(b, err)
		var at []int
		for end := 0; end < len(plain); {
			size, n := binary.Uvarint(plain[end+1:])
			end += 1 + n + int(size)
			at = append(at, end)
		}
		bs.plain, bs.at = append(bs.plain, plain), append(bs.at, at)
	}
	return bs
}

// stamp gives all samples of a body a time and returns it compressed.
func (bs *bodies) stamp(dst []byte, n int, tsMs int64) []byte {
	for _, end := range bs.at[n] {
		binary.PutUvarint(bs.plain[n][end-6:], uint64(tsMs))
	}
	return snappy.Encode(dst[:cap(dst)], bs.plain[n])
}

// change gives the i-th sample of a body a time and a value.
func (bs *bodies) change(n int, sample func(i int) (tsMs int64, value float64)) {
	for i, end := range bs.at[n] {
		tsMs, value := sample(i)
		binary.PutUvarint(bs.plain[n][end-6:], uint64(tsMs))
		binary.LittleEndian.PutUint64(bs.plain[n][end-15:], math.Float64bits(value))
	}
}

// shuffle changes the order of the series in a body.
func (bs *bodies) shuffle(n int, rng *rand.Rand) {
	order := rng.Perm(len(bs.at[n]))
	plain := make([]byte, 0, len(bs.plain[n]))
	for k, i := range order {
		from := 0
		if i > 0 {
			from = bs.at[n][i-1]
		}
		plain = append(plain, bs.plain[n][from:bs.at[n][i]]...)
		order[k] = len(plain)
	}
	bs.plain[n], bs.at[n] = plain, order
}

// benchRig keeps log and tables in memory, so that no disk is measured.
func benchRig(b testing.TB, fs vfs.FS, c *ingesttest.Clock) *rig {
	return openRig(b, fs, c, func(o *Options) {
		o.Head.Stripes = 16
		o.WALCommitDelay = 0
		o.Limits.AheadMax = 1000 * time.Hour
	})
}

// countHeat lets a key heat map count the samples from now on.
func (r *rig) countHeat() {
	meta, err := r.store.EnsureTable(context.Background(), storage.MetaSchema())
	require.NoError(r.t, err)
	r.heat, err = keyviz.Open(context.Background(), keyviz.Options{Meta: meta, Now: r.clock.Now})
	require.NoError(r.t, err)
	r.heat.Start(r.index.AppendKey, 0)
}

// BenchmarkWriteRemote reports the time of one body of 2,000 known series with one sample each, 15 s after the previous
// body. Compression is the sender's and not counted; closed hours are flushed outside the measured time.
func BenchmarkWriteRemote(b *testing.B) {
	for _, count := range []int{10_000, 100_000} {
		benchWrites(b, count, "", false)
		benchWrites(b, count, "", true)
		benchWrites(b, count, "acme", false)
	}
}

// benchWrites writes as a tenant, or on a server without tenants. heat says that the key heat map counts the samples.
func benchWrites(b *testing.B, count int, tenant string, heat bool) {
	name, ctx := fmt.Sprint("series=", count), context.Background()
	if heat {
		name += "/heat"
	}
	if tenant != "" {
		name += "/tenant"
		ctx = principal.With(ctx, &principal.Principal{Name: "token", Tenants: []string{tenant}})
	}
	b.Run(name, func(b *testing.B) {
		c := ingesttest.NewClock()
		r := benchRig(b, vfs.NewMem(), c)
		if heat {
			r.countHeat()
		}
		bs := newBodies(b, count)
		var buf []byte
		write := func(n int, tsMs int64) {
			buf = bs.stamp(buf, n, tsMs)
			b.StartTimer()
			result, err := r.Write(ctx, Input{Body: buf})
			b.StopTimer()
			if err != nil || result.Rejected > 0 {
				b.Fatal(result, err)
			}
		}
		for n := range bs.plain {
			write(n, startMs)
			if heat {
				r.heat.Divide()
			}
		}
		if heat {
			c.Advance(time.Second)
			r.heat.Tick(ctx) // it learns the load
		}
		b.ReportAllocs()
		b.ResetTimer()
		b.StopTimer()
		for n := range b.N {
			round := 1 + n/len(bs.plain)
			if n%len(bs.plain) == 0 && round%240 == 0 {
				r.flush()
			}
			write(n%len(bs.plain), startMs+int64(round)*15_000)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/sample")
		r.close()
	})
}

// BenchmarkStreams reports the time for a sample of 10,000 series every 15 s, including the flush of each hour. Either
// all samples are in order, or some are not: a tenth comes a round late, a tenth repeats the sample of the previous
// round, the series change their order, or a tenth is from the previous hour.
func BenchmarkStreams(b *testing.B) {
	const late = 10 // one sample in ten
	for _, kind := range []string{"ordinary", "late", "rewritten", "shuffled", "hourBefore"} {
		b.Run(kind, func(b *testing.B) {
			c := ingesttest.NewClock()
			r := benchRig(b, vfs.NewMem(), c)
			bs := newBodies(b, 10_000)
			rng := rand.New(rand.NewPCG(1, 1))
			var buf []byte
			round := func(k int) {
				atMs := startMs + int64(k)*15_000
				for n := range bs.plain {
					bs.change(n, func(i int) (tsMs int64, value float64) {
						value = float64(i) + float64(k*i%97)
						if (i+k)%late != 0 || k%240 == 0 {
							return atMs, value
						}
						switch kind {
						case "late":
							return atMs - 20_000, value
						case "rewritten":
							return atMs - 15_000, value
						case "hourBefore":
							return atMs - keyschema.HourMs, value
						}
						return atMs, value
					})
					if kind == "shuffled" {
						bs.shuffle(n, rng)
					}
					buf = snappy.Encode(buf[:cap(buf)], bs.plain[n])
					b.StartTimer()
					result, err := r.Write(context.Background(), Input{Body: buf})
					b.StopTimer()
					if err != nil || result.Rejected > 0 {
						b.Fatal(result, err)
					}
				}
			}
			round(0)
			b.ReportAllocs()
			b.ResetTimer()
			b.StopTimer()
			for n := range b.N {
				for k := range 240 {
					round(n*240 + k + 1)
				}
				b.StartTimer()
				r.flush()
				b.StopTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/240/10_000, "ns/sample")
			r.close()
		})
	}
}

// BenchmarkFirstSight reports the time of a body of 2,000 series that were never seen before.
func BenchmarkFirstSight(b *testing.B) {
	c := ingesttest.NewClock()
	r := benchRig(b, vfs.NewMem(), c)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		req := &prompb.WriteRequest{}
		for k := range 2000 {
			req.Timeseries = append(req.Timeseries, benchSeries(n*2000+k))
		}
		encoded := body(b, req)
		b.StartTimer()
		if result, err := r.Write(context.Background(), Input{Body: encoded}); err != nil || result.Rejected > 0 {
			b.Fatal(result, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/series")
	r.close()
}

// BenchmarkFlush reports the time to flush 20,000 rows of 240 samples.
func BenchmarkFlush(b *testing.B) {
	const count = 20_000
	c := ingesttest.NewClock()
	r := benchRig(b, vfs.NewMem(), c)
	var samples []Sample
	for n := range count {
		ts := benchSeries(n)
		builder := labels.NewScratchBuilder(8)
		samples = append(samples, Sample{Labels: ts.ToLabels(&builder, nil), Value: float64(n)})
	}
	hour := keyschema.HourOf(startMs)
	b.StopTimer()
	b.ResetTimer()
	for range b.N {
		hour++
		for k := range 240 {
			for n := range samples {
				samples[n].TsMs = keyschema.HourStartMs(hour) + int64(k)*15_000
				samples[n].Value += float64(n % 10)
			}
			if result, err := r.Write(context.Background(), SamplesInput(samples)); err != nil || result.Rejected > 0 {
				b.Fatal(result, err)
			}
		}
		b.StartTimer()
		r.flush()
		b.StopTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/row")
	r.close()
}

// BenchmarkReplay reports the time to read back a log of 10,000 series with 100 samples each.
func BenchmarkReplay(b *testing.B) {
	fs := vfs.NewCrashableMem()
	c := ingesttest.NewClock()
	r := benchRig(b, fs, c)
	bs := newBodies(b, 10_000)
	var buf []byte
	for k := range 100 {
		for n := range bs.plain {
			buf = bs.stamp(buf, n, startMs+int64(k)*15_000)
			_, err := r.Write(context.Background(), Input{Body: buf})
			require.NoError(b, err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		clone := fs.CrashClone(vfs.CrashCloneCfg{})
		b.StartTimer()
		again := benchRig(b, clone, c)
		b.StopTimer()
		require.Equal(b, 1_000_000, again.Stats().Samples)
		require.NoError(b, again.log.Close())
		require.NoError(b, again.store.Close())
		again.jobs.Stop()
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e6, "ns/sample")
	r.close()
}
