package ingest

import (
	"context"
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
)

const (
	dayMs       = keyschema.HourMs * keyschema.DayHours
	keepForever = 10 * 365 * 24 * time.Hour
)

// TestBackfillLeavesFewFiles fills in weeks of some series, one after the other. In any order, a flush writes all rows
// of a day together, because each write to a day makes a file of its own.
func TestBackfillLeavesFewFiles(t *testing.T) {
	const days, count = 30, 60
	store := &recordingStore{}
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), func(o *Options) {
		store.Store, o.Store = o.Store, store
		o.Head.FlushBytes, o.Retention = 600<<10, keyschema.KeepFor(keepForever)
	})
	for n := range count {
		ts := numbered(n)
		for hour := range days * keyschema.DayHours {
			ts.Samples = append(ts.Samples, sample(startMs-(days+2)*dayMs+int64(hour)*keyschema.HourMs, float64(n*hour)))
		}
		r.write(ts)
	}
	// The rows of a day take a quarter of FlushBytes.
	r.flush()
	require.LessOrEqual(t, len(store.batches), days/2)
	require.InDelta(t, days+1, store.days, 1)
	for n := range count {
		want := column{}
		for hour := range days * keyschema.DayHours {
			want[startMs-(days+2)*dayMs+int64(hour)*keyschema.HourMs] = math.Float64bits(float64(n * hour))
		}
		r.requireSeries(labelsOf(numbered(n)), want)
	}
	r.close()
}

// TestBacklogGoesAtOnce checks that large old rows are flushed while they still grow. Rows of the last closed hour wait
// for the flush of that hour, and small old rows wait until they are idle.
func TestBacklogGoesAtOnce(t *testing.T) {
	c := ingesttest.NewClock()
	r := openRig(t, vfs.NewMem(), c, func(o *Options) {
		o.Head.BytesMax, o.Head.FlushInterval, o.Retention = 256<<10, -1, keyschema.KeepFor(keepForever)
		o.Head.Spread = 30 * time.Minute
	})
	write := func(n int, fromMs int64, hours int) {
		ts := numbered(n)
		for hour := range hours {
			ts.Samples = append(ts.Samples, sample(fromMs+int64(hour)*keyschema.HourMs, 1))
		}
		r.write(ts)
	}
	const oldMs = startMs - 100*dayMs
	write(1, startMs-keyschema.HourMs, 2)
	write(2, oldMs, 300)
	r.doStep()
	require.Equal(t, 302, r.Stats().Rows, "little memory: no hurry")
	write(3, oldMs, 500)
	r.doStep()
	require.Equal(t, 2, r.Stats().Rows)
	r.close()
}

// TestBackfillDuringLiveSamples backfills a series, newest hours first, while the series gets live samples. It flushes at
// random, rewrites hours whose rows are still in the head, and reads all samples.
func TestBackfillDuringLiveSamples(t *testing.T) {
	c, rng := ingesttest.NewClock(), rand.New(rand.NewPCG(1, 2))
	r := openRig(t, vfs.NewMem(), c, func(o *Options) { o.Retention = keyschema.KeepFor(keepForever) })
	want := column{}
	put := func(atMs int64) {
		v := rng.Float64()
		r.write(series(upNames, sample(atMs, v)))
		want[atMs] = math.Float64bits(v)
	}
	for n := range int64(3000) {
		put(c.Ms.Load())
		put(startMs - n*keyschema.HourMs/2)
		if rng.IntN(4) == 0 {
			put(startMs - rng.Int64N(n+1)*keyschema.HourMs/2)
		}
		if rng.IntN(400) == 0 {
			r.flush()
		}
		c.Advance(time.Second)
		if rng.IntN(40) == 0 {
			r.doStep()
		}
	}
	r.requireSeries(up, want)
	r.flush()
	r.requireSeries(up, want)
	r.close()
}

// BenchmarkBackfill reports the time per sample, with flushes, for 100 days of 100 series at 60 s. The series advance
// together, or one comes after the other, oldest or newest request first. The case day is one day of 10,000 series.
func BenchmarkBackfill(b *testing.B) {
	for _, kind := range []string{"day", "byTime", "bySeries", "backwards"} {
		b.Run(kind, func(b *testing.B) {
			count, days := 100, 100
			if kind == "day" {
				count, days = 10_000, 1
			}
			for b.Loop() {
				benchmarkBackfill(b, kind, count, days)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(count*days*24*60), "ns/sample")
		})
	}
}

func benchmarkBackfill(b *testing.B, kind string, count, days int) {
	b.StopTimer()
	c := ingesttest.NewClock()
	r := openRig(b, vfs.NewMem(), c, func(o *Options) {
		o.Head.Stripes, o.WALCommitDelay, o.Retention = 16, 0, keyschema.KeepFor(keepForever)
	})
	fromMs := c.Ms.Load() - int64(days+2)*dayMs
	const batch, perStep = 2000, 3_000_000
	all := count * days * 24 * 60
	values := make([]float64, count)
	rng := rand.New(rand.NewPCG(1, 2))
	req := &prompb.WriteRequest{}
	for n, sent := 0, 0; sent < all; n++ {
		req.Timeseries = req.Timeseries[:0]
		for range batch {
			i, minute := sent%count, sent/count
			if kind == "bySeries" || kind == "backwards" {
				i, minute = sent/(days*24*60), sent%(days*24*60)
			}
			if kind == "backwards" {
				minute = days*24*60 - 1 - minute
			}
			ts := benchSeries(i)
			ts.Samples = []prompb.Sample{sample(fromMs+int64(minute)*60_000, step(rng, &values[i], i))}
			req.Timeseries = append(req.Timeseries, ts)
			sent++
		}
		plain, err := req.Marshal()
		require.NoError(b, err)
		body := snappy.Encode(nil, plain)
		b.StartTimer()
		result, err := r.Write(context.Background(), Input{Body: body})
		if err != nil || result.Rejected > 0 {
			b.Fatal(result, err)
		}
		if n%(perStep/batch) == 0 {
			c.Advance(15 * time.Second)
			r.doStep()
		}
		b.StopTimer()
	}
	b.StartTimer()
	r.flush()
	b.StopTimer()
	r.close()
	b.StartTimer()
}

func labelsOf(ts prompb.TimeSeries) labels.Labels {
	builder := labels.NewScratchBuilder(8)
	return ts.ToLabels(&builder, nil)
}
