package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
	"halite/ingest/remotewrite"
	"halite/ingest/wal"
	"halite/ingest/wal/record"
	"halite/keyschema"
	"halite/storage/storagetest"
)

// TestEachRejection sends one bad series between two good ones. The server stores the good ones, and counts and names
// the bad one.
func TestEachRejection(t *testing.T) {
	const retention = 30 * 24 * time.Hour
	now := sample(startMs, 1)
	good := []string{"__name__", "bad", "job", "x"}
	for _, tc := range []struct {
		reason string
		series prompb.TimeSeries
		says   []string
	}{
		{ReasonDuplicateLabel, series([]string{"__name__", "bad", "a", "1", "a", "2"}, now), []string{`"a" appears twice`}},
		{ReasonDuplicateLabel, series([]string{"b", "1", "__name__", "bad", "a", "2", "b", "1"}, now), []string{`"b" appears twice`}},
		{ReasonEmptyLabelName, series([]string{"", "x", "__name__", "bad"}, now), []string{`value "x" has an empty name`}},
		{ReasonInvalidUTF8, series([]string{"__name__", "bad", "a", "\xff"}, now), []string{`"a"`}},
		{ReasonInvalidUTF8, series([]string{"__name__", "bad", "a\xff", "x"}, now), []string{`a\xff`}},
		{ReasonInvalidUTF8, series([]string{"__name__", "bad\xff"}, now), nil},
		{ReasonNoMetricName, series([]string{"job", "x"}, now), []string{`{job="x"}`}},
		{ReasonNoMetricName, series([]string{"__name__", "", "job", "x"}, now), nil},
		{ReasonNoMetricName, series(nil, now), []string{"{}"}},
		{ReasonTooManyLabels, series(manyLabels(512, "v"), now), []string{"513 labels, more than --ingest.max-labels=512"}},
		{ReasonLabelNameTooLong, series([]string{"__name__", "bad", x(5000), "x"}, now), []string{
			"5000 bytes, more than --ingest.max-label-name-bytes=1024",
		}},
		{ReasonLabelValueTooLong, series([]string{"__name__", "bad", "a", x(70_000)}, now), []string{
			"70000 bytes, more than --ingest.max-label-value-bytes=65536",
		}},
		{ReasonMetricNameTooLong, series([]string{"__name__", x(5000)}, now), []string{
			"5000 bytes, more than --ingest.max-metric-name-bytes=1024",
		}},
		{ReasonLabelSetTooLong, series(manyLabels(5, x(60_000)), now), []string{
			"more than --ingest.max-label-set-bytes=262144",
		}},
		{ReasonBefore1970, series(good, sample(-1, 1)), []string{`bad{job="x"}`, "-1 ms"}},
		{ReasonBeforeRetention, series(good, sample(startMs-retention.Milliseconds()-1, 1)), []string{`bad{job="x"}`}},
		{ReasonTooFarAhead, series(good, sample(startMs+600_001, 1)), []string{`bad{job="x"}`, "600000 ms ahead"}},
		{ReasonTooFarAhead, series(good, sample(math.MaxInt64, 1)), nil},
		{ReasonBefore1970, series(good, sample(math.MinInt64, 1)), nil},
		{ReasonHistogramInvalid, prompb.TimeSeries{
			Labels: series(good).Labels, Histograms: []prompb.Histogram{{Timestamp: startMs, Schema: 99}},
		}, []string{`bad{job="x"}`}},
		{ReasonHistogramInvalid, prompb.TimeSeries{
			Labels: series(good).Labels, Histograms: []prompb.Histogram{{Timestamp: startMs, Schema: -5}},
		}, []string{`bad{job="x"}`, "between -4 and 8", "got schema -5"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			c := ingesttest.NewClock()
			r := openRig(t, vfs.NewMem(), c, func(o *Options) { o.Retention = keyschema.KeepFor(retention) })
			other := []string{"__name__", "good"}
			for range 2 { // the second time the good series are known
				result, err := r.Write(context.Background(), Input{Body: body(t, &prompb.WriteRequest{
					Timeseries: []prompb.TimeSeries{series(upNames, now), tc.series, series(other, now)},
				})})

				require.NoError(t, err)
				require.Equal(t, 2, result.Accepted)
				require.Equal(t, 1, result.Rejected)
				require.Equal(t, map[string]int{tc.reason: 1}, result.Reasons)
				require.Contains(t, result.First, tc.reason)
				for _, word := range tc.says {
					require.Contains(t, result.First, word)
				}
				require.Less(t, len(result.First), 1200)
			}
			require.Equal(t, 2.0, r.rejected(tc.reason))
			require.Equal(t, 2, r.Stats().Series)
			r.requireSeries(up, column{startMs: math.Float64bits(1)})
			r.requireSeries(labels.FromStrings(other...), column{startMs: math.Float64bits(1)})
			r.close()
		})
	}
}

// manyLabels are the names and values of a metric with n labels.
func manyLabels(n int, value string) []string {
	names := []string{"__name__", "bad"}
	for i := range n {
		names = append(names, fmt.Sprintf("label_%03d", i), value)
	}
	return names
}

func x(n int) string { return strings.Repeat("x", n) }

// TestTimesWithinBoundsAreTaken sends the first and last acceptable timestamps.
func TestTimesWithinBoundsAreTaken(t *testing.T) {
	for _, retention := range []time.Duration{0, time.Hour} {
		r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), func(o *Options) { o.Retention = keyschema.KeepFor(retention) })
		first := int64(0)
		if retention > 0 {
			first = startMs - retention.Milliseconds()
		}
		r.write(series(upNames, sample(first, 1), sample(startMs+600_000, 2)))
		r.requireSeries(up, column{first: math.Float64bits(1), startMs + 600_000: math.Float64bits(2)})
		r.close()
	}
}

// TestBadExemplarsAreCountedSilently sends bad exemplars by remote write 1.0. The server counts them but does not report
// them, because the sender would take the report for rejected samples.
func TestBadExemplarsAreCountedSilently(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	ts := series(upNames, sample(startMs, 1))
	long := []prompb.Label{{Name: "trace_id", Value: strings.Repeat("x", 121)}}
	ts.Exemplars = []prompb.Exemplar{
		{Value: 1, Timestamp: startMs, Labels: long}, {Value: 2, Timestamp: startMs * 2}, {Value: 3, Timestamp: startMs},
	}
	r.write(ts)
	require.Equal(t, 1.0, r.rejected(ReasonExemplarTooLong))
	require.Equal(t, 1.0, r.rejected(ReasonTooFarAhead))
	r.requireSeries(up, column{startMs: math.Float64bits(1)})
	r.close()
}

// TestBrokenBodiesStoreNothing sends good series followed by a fault.
func TestBrokenBodiesStoreNothing(t *testing.T) {
	req := &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{series(upNames, sample(startMs, 1))}}
	plain, err := req.Marshal()
	require.NoError(t, err)
	badLabel := append(bytes.Clone(plain), 0x0a, 4, 0x0a, 2, 0x0a, 9) // a label whose name is cut off
	whole := snappy.Encode(nil, plain)
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	const notSnappy = -1
	for name, tc := range map[string]struct {
		body   []byte
		offset int
	}{
		"empty":           {nil, notSnappy},
		"not snappy":      {[]byte("hello, world"), notSnappy},
		"cut snappy":      {whole[:len(whole)-3], notSnappy},
		"cut protobuf":    {snappy.Encode(nil, plain[:len(plain)-3]), 1}, // the length of the message is too large
		"field 0":         {snappy.Encode(nil, append(bytes.Clone(plain), 0)), len(plain)},
		"bad label":       {snappy.Encode(nil, badLabel), len(plain) + 5},
		"wrong wire type": {snappy.Encode(nil, append(bytes.Clone(plain), 0x08, 1)), len(plain)},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := r.Write(context.Background(), Input{Body: tc.body})
			var bad *BadRequestError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, Result{}, result)
			require.Zero(t, r.Stats().Rows)
			var format *remotewrite.FormatError
			if tc.offset == notSnappy {
				require.ErrorIs(t, err, remotewrite.ErrCorrupt)
				return
			}
			require.ErrorAs(t, err, &format)
			require.ErrorContains(t, err, "at byte")
			require.Equal(t, tc.offset, format.Offset)
		})
	}
	require.Equal(t, 7.0, r.counter("tsdb_ingest_bad_requests_total", "", ""))
	r.write(series(upNames, sample(startMs, 1)))
	r.close()
}

func TestLimitsOfARequest(t *testing.T) {
	ctx := context.Background()
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), func(o *Options) {
		o.Limits = Limits{BodyBytesMax: 2000, DecodedBytesMax: 4000, RequestSamplesMax: 50, SeriesMax: 2}
	})
	_, err := r.Write(ctx, Input{Body: make([]byte, 2001)})
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = r.Write(ctx, Input{Body: append(binary.AppendUvarint(nil, 4001), 0)})
	require.ErrorIs(t, err, ErrTooLarge)
	ts := series(upNames)
	for n := range 51 {
		ts.Samples = append(ts.Samples, sample(startMs+int64(n), 1))
	}
	_, err = r.Write(ctx, Input{Body: body(t, &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{ts}})})
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = r.Write(ctx, Input{Body: body(t, &prompb.WriteRequest{Timeseries: make([]prompb.TimeSeries, 51)})})
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = r.Write(ctx, SamplesInput(make([]Sample, 51)))
	require.ErrorIs(t, err, ErrTooLarge)
	require.Zero(t, r.Stats().Series)

	r.write(series(upNames, sample(startMs, 1)), series([]string{"__name__", "a"}, sample(startMs, 1)))
	result, err := r.Write(ctx, Input{Body: body(t, &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{
		series([]string{"__name__", "b"}, sample(startMs, 1)), series(upNames, sample(startMs+1, 1)),
		series([]string{"__name__", "a", "empty", ""}, sample(startMs+1, 1)),
	}})})

	require.NoError(t, err)
	require.Equal(t, 2, result.Accepted)
	require.Equal(t, map[string]int{ReasonSeriesLimit: 1}, result.Reasons)
	r.close()
}

func requireOverload(t *testing.T, err error) {
	t.Helper()
	var overload *OverloadError
	require.ErrorAs(t, err, &overload)
	require.GreaterOrEqual(t, overload.RetryAfter, time.Second)
	require.LessOrEqual(t, overload.RetryAfter, 10*time.Second)
	require.NotEmpty(t, overload.Reason)
}

func TestOverloadIsRefused(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	r := openRig(t, fs, ingesttest.NewClock(), func(o *Options) {
		o.Limits = Limits{ConcurrencyMax: 1, QueueWaitMax: time.Millisecond, InFlightBytesMax: 1000}
		o.Head.BytesMax = 1000
	})
	one := body(t, &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{series(upNames, sample(startMs, 1))}})
	try := func() error { _, err := r.Write(ctx, Input{Body: one}); return err }
	require.NoError(t, try())

	r.admission.slots <- struct{}{}
	requireOverload(t, try())
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	r.limits.QueueWaitMax = time.Hour
	_, err := r.Write(cancelled, Input{Body: one})
	require.ErrorIs(t, err, context.Canceled)
	<-r.admission.slots
	require.NoError(t, try())

	r.admission.inFlight.Add(990)
	requireOverload(t, try())
	r.admission.inFlight.Add(-990)
	require.NoError(t, try())
	require.Zero(t, r.admission.inFlight.Load())

	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 20})
	r.checkSpace()
	requireOverload(t, try())
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 2 << 30})
	r.checkSpace()
	require.NoError(t, try())

	for n := 0; r.head.Bytes() <= r.admission.memory.rowBytesMax()/4*5; n++ {
		ls := labels.FromStrings("__name__", "m", "n", string(rune('a'+n)))
		_, err := r.Write(ctx, SamplesInput([]Sample{{Labels: ls, TsMs: startMs}}))
		require.NoError(t, err)
	}
	requireOverload(t, try())
	r.doStep()
	require.NoError(t, try())
	for _, resource := range []string{resourceConcurrency, resourceBytes, resourceSpace, resourceHead} {
		require.Equal(t, 1.0, r.counter("tsdb_ingest_overload_total", "resource", resource), resource)
	}
	r.close()
}

// TestOrphansAreNamed opens a log that has samples without their series.
func TestOrphansAreNamed(t *testing.T) {
	fs, c := vfs.NewMem(), ingesttest.NewClock()
	log, err := wal.Open(wal.Options{Dir: "/db/wal", FS: fs})
	require.NoError(t, err)
	_, err = log.Replay(func(byte, []byte, wal.Position) error { return nil }, nil)
	require.NoError(t, err)
	pos, err := log.Append(record.KindSamples, record.AppendSamples(nil, []record.Sample{{Ref: 5, TsMs: startMs}}))
	require.NoError(t, err)
	require.NoError(t, log.Wait(context.Background(), pos))
	require.NoError(t, log.Close())
	_, err = tryRig(t, fs, c, func(o *Options) { o.AcceptTableLoss = true })
	require.ErrorIs(t, err, errOrphan)
	r := openRig(t, fs, c, func(o *Options) { o.AcceptTableLoss, o.AcceptWALLoss = true, true })
	require.Equal(t, 1.0, r.counter("tsdb_ingest_replayed_orphans_total", "", ""))
	r.write(series(upNames, sample(startMs, 1)))
	r.close()
}

// FuzzWriteRemote sends any bytes. Nothing panics, the counts of the response are consistent, and the server accepts good
// writes afterwards.
func FuzzWriteRemote(f *testing.F) {
	good, err := (&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{
		series(upNames, sample(startMs, 1), sample(startMs-1, 2)), series([]string{"a", "b"}, sample(5, 0)),
	}, Metadata: []prompb.MetricMetadata{{MetricFamilyName: "up", Help: "h"}}}).Marshal()
	require.NoError(f, err)
	f.Add(good, false)
	f.Add(snappy.Encode(nil, good), true)
	c := ingesttest.NewClock()
	r, err := rigOn(context.Background(), f, vfs.NewMem(), c, storagetest.NewModel(c.Now), func(o *Options) {
		o.Limits.RequestSamplesMax, o.Limits.DecodedBytesMax = 1000, 1<<16
	})
	require.NoError(f, err)
	f.Cleanup(func() { r.close() })
	f.Fuzz(func(t *testing.T, b []byte, encoded bool) {
		if !encoded {
			b = snappy.Encode(nil, b)
		}
		result, err := r.Write(context.Background(), Input{Body: b})
		var bad *BadRequestError
		if err != nil && !errors.As(err, &bad) && !errors.Is(err, ErrTooLarge) {
			t.Fatal(err)
		}
		total := 0
		for _, n := range result.Reasons {
			total += n
		}
		if total != result.Rejected || err != nil && result.Accepted > 0 {
			t.Fatalf("%+v, %v", result, err)
		}
		r.t = t
		r.write(series(upNames, sample(startMs, 1)))
	})
}
