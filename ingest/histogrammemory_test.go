package ingest

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
)

// manyHistograms makes bodies of both versions, each with n histograms of many buckets in each of some series.
func manyHistograms(t *testing.T, series, n int) map[Version][]byte {
	t.Helper()
	v1, v2 := &prompb.WriteRequest{}, &writev2.Request{Symbols: []string{"", "__name__", "m", "i", "a", "b", "c"}}
	for s := range series {
		one := prompb.TimeSeries{Labels: []prompb.Label{
			{Name: "__name__", Value: "m"}, {Name: "i", Value: string(rune('a' + s))},
		}}
		two := writev2.TimeSeries{LabelsRefs: []uint32{1, 2, 3, uint32(4 + s)}}
		for i := range n {
			deltas := make([]int64, 100) // one byte each
			one.Histograms = append(one.Histograms, prompb.Histogram{
				Count: &prompb.Histogram_CountInt{CountInt: 0}, ZeroCount: &prompb.Histogram_ZeroCountInt{ZeroCountInt: 0},
				PositiveSpans: []prompb.BucketSpan{{Length: 100}}, PositiveDeltas: deltas, Timestamp: startMs - int64(i),
			})
			two.Histograms = append(two.Histograms, writev2.Histogram{
				Count: &writev2.Histogram_CountInt{CountInt: 0}, ZeroCount: &writev2.Histogram_ZeroCountInt{ZeroCountInt: 0},
				PositiveSpans: []writev2.BucketSpan{{Length: 100}}, PositiveDeltas: deltas, Timestamp: startMs - int64(i),
			})
		}
		v1.Timeseries, v2.Timeseries = append(v1.Timeseries, one), append(v2.Timeseries, two)
	}
	first, err := v1.Marshal()
	require.NoError(t, err)
	second, err := v2.Marshal()
	require.NoError(t, err)
	return map[Version][]byte{V1: snappy.Encode(nil, first), V2: snappy.Encode(nil, second)}
}

// TestMemoryOfDecodedHistograms refuses a series whose histograms do not fit, before they are decoded. The memory counts as in
// flight and is given back. Series after each other use the same memory.
func TestMemoryOfDecodedHistograms(t *testing.T) {
	ctx := context.Background()
	const histogramsMax = 100 << 10 // of about 90 histograms
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), func(o *Options) { o.Limits.DecodedHistogramBytesMax = histogramsMax })
	inFlight := func() int64 { return r.admission.inFlight.Load() }
	for version, body := range manyHistograms(t, 3, 60) {
		res, err := r.Ingester.Write(ctx, Input{Body: body, Version: version})
		require.NoError(t, err, version)
		require.Equal(t, 180, res.Histograms, res.First)
		require.Zero(t, inFlight())
	}
	for version, body := range manyHistograms(t, 1, 120) {
		_, err := r.Ingester.Write(ctx, Input{Body: body, Version: version})
		require.ErrorIs(t, err, ErrTooLarge, version)
		require.ErrorContains(t, err, "--ingest.max-decoded-histogram-bytes")
		require.Zero(t, inFlight())
	}
	// Memory that others use is an overload: the same request succeeds later.
	for version, body := range manyHistograms(t, 1, 60) {
		others := r.admission.limits.InFlightBytesMax - 40<<10
		require.NoError(t, r.admission.grow(int(others)))
		_, err := r.Ingester.Write(ctx, Input{Body: body, Version: version})
		var overload *OverloadError
		require.ErrorAs(t, err, &overload, version)
		r.admission.inFlight.Add(-others)
		require.Zero(t, inFlight())
		_, err = r.Ingester.Write(ctx, Input{Body: body, Version: version})
		require.NoError(t, err)
	}
	r.close()
	// A request that does not fit even alone is too large.
	r = openRig(t, vfs.NewMem(), ingesttest.NewClock(), func(o *Options) { o.Limits.InFlightBytesMax = 40 << 10 })
	for version, body := range manyHistograms(t, 1, 60) {
		_, err := r.Ingester.Write(ctx, Input{Body: body, Version: version})
		require.ErrorIs(t, err, ErrTooLarge, version)
	}
	r.close()
}
