package remotewrite_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/ingest/remotewrite"
)

// request builds a WriteRequest of n series with one sample each, as Prometheus sends it.
func request(n int) *prompb.WriteRequest {
	req := &prompb.WriteRequest{}
	for i := range n {
		req.Timeseries = append(req.Timeseries, prompb.TimeSeries{
			Labels: []prompb.Label{
				{Name: "__name__", Value: "http_requests_total"},
				{Name: "instance", Value: "host-" + string(rune('a'+i%26)) + ":9100"},
				{Name: "path", Value: "/api/v1/" + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26))},
			},
			Samples: []prompb.Sample{{Timestamp: 1_700_000_000_000 + int64(i), Value: float64(i) * 1.5}},
		})
	}
	return req
}

func marshal(t testing.TB, req *prompb.WriteRequest) []byte {
	b, err := req.Marshal()
	require.NoError(t, err)
	return b
}

// walk reads a whole body into the generated types, without the fast path.
func walk(body []byte) (*prompb.WriteRequest, int, error) {
	var w remotewrite.Walker
	w.Reset(body)
	req, unsupported := &prompb.WriteRequest{}, 0
	for {
		switch w.Next() {
		case remotewrite.TimeSeries:
			s, err := w.Series()
			if err != nil {
				return nil, 0, err
			}
			ts := prompb.TimeSeries{}
			if ts.Labels, err = remotewrite.AppendLabels(nil, s.Labels); err != nil {
				return nil, 0, err
			}
			for _, sample := range s.Samples {
				ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: sample.TsMs, Value: sample.Value})
			}
			unsupported += len(s.Exemplars) + len(s.Histograms)
			req.Timeseries = append(req.Timeseries, ts)
		case remotewrite.MetricMetadata:
			m, err := w.Metadata()
			if err != nil {
				return nil, 0, err
			}
			req.Metadata = append(req.Metadata, prompb.MetricMetadata{
				MetricFamilyName: m.Metric, Help: m.Help, Unit: m.Unit,
			})
		case remotewrite.End:
			return req, unsupported, w.Err()
		}
	}
}

// requireSame compares what the walker found with what the generated decoder found.
func requireSame(t *testing.T, want, got *prompb.WriteRequest) {
	require.Len(t, got.Timeseries, len(want.Timeseries))
	for i, ts := range want.Timeseries {
		g := got.Timeseries[i]
		require.Len(t, g.Labels, len(ts.Labels))
		for j, l := range ts.Labels {
			require.Equal(t, l.Name, g.Labels[j].Name)
			require.Equal(t, l.Value, g.Labels[j].Value)
		}
		require.Len(t, g.Samples, len(ts.Samples))
		for j, s := range ts.Samples {
			require.Equal(t, s.Timestamp, g.Samples[j].Timestamp)
			require.Equal(t, math.Float64bits(s.Value), math.Float64bits(g.Samples[j].Value))
		}
	}
	require.Len(t, got.Metadata, len(want.Metadata))
	for i, m := range want.Metadata {
		require.Equal(t, m.MetricFamilyName, got.Metadata[i].MetricFamilyName)
		require.Equal(t, m.Help, got.Metadata[i].Help)
		require.Equal(t, m.Unit, got.Metadata[i].Unit)
	}
}

// rich is a request with everything that a sender may put in.
func rich() *prompb.WriteRequest {
	req := request(3)
	req.Timeseries[0].Samples = append(req.Timeseries[0].Samples, prompb.Sample{Timestamp: -5, Value: math.Inf(-1)})
	req.Timeseries[1].Exemplars = []prompb.Exemplar{{
		Labels: []prompb.Label{{Name: "trace_id", Value: "abc"}}, Value: 1, Timestamp: 7,
	}}
	req.Timeseries[2].Histograms = []prompb.Histogram{{
		Count: &prompb.Histogram_CountInt{CountInt: 3}, Sum: 4, Schema: 2, Timestamp: 9,
		PositiveSpans: []prompb.BucketSpan{{Offset: 1, Length: 2}}, PositiveDeltas: []int64{1, 2},
	}}
	req.Timeseries = append(req.Timeseries, prompb.TimeSeries{})
	req.Metadata = []prompb.MetricMetadata{
		{Type: prompb.MetricMetadata_COUNTER, MetricFamilyName: "http_requests_total", Help: "Requests.", Unit: "1"},
	}
	return req
}

func TestSeriesEqualsGeneratedDecoder(t *testing.T) {
	req := rich()
	got, unsupported, err := walk(marshal(t, req))
	require.NoError(t, err)
	require.Equal(t, 2, unsupported)
	requireSame(t, req, got)
}

func TestFastSampleReadsUsualShapes(t *testing.T) {
	req := request(2)
	req.Timeseries[1].Samples[0].Value = 0 // the generated encoder leaves it out
	var w remotewrite.Walker
	w.Reset(marshal(t, req))
	for _, ts := range req.Timeseries {
		require.Equal(t, remotewrite.TimeSeries, w.Next())
		guess, sample, ok := w.FastSample()
		require.True(t, ok)
		s, err := w.Series()
		require.NoError(t, err)
		require.Equal(t, s.Labels, guess)
		require.Equal(t, remotewrite.Sample{TsMs: ts.Samples[0].Timestamp, Value: ts.Samples[0].Value}, sample)
	}
	require.Equal(t, remotewrite.End, w.Next())
}

// TestFastSampleProvedMeansRight checks FastSample on messages of every shape: if the guessed label bytes equal the label
// bytes that a full walk finds, the sample is the only one of that message.
func TestFastSampleProvedMeansRight(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	times := []int64{0, 1, -1, 1 << 34, 1<<35 - 1, 1 << 35, 1_700_000_000_000, 1<<42 - 1, 1 << 42, math.MaxInt64}
	values := []float64{0, 1, math.NaN(), math.Copysign(0, -1), math.Inf(1), math.Float64frombits(0x1010101010101010)}
	req := request(400)
	for i := range req.Timeseries {
		ts := &req.Timeseries[i]
		ts.Samples = nil
		for range rng.IntN(3) {
			ts.Samples = append(ts.Samples, prompb.Sample{
				Timestamp: times[rng.IntN(len(times))], Value: values[rng.IntN(len(values))],
			})
		}
	}
	var w remotewrite.Walker
	w.Reset(marshal(t, req))
	proved := 0
	for w.Next() == remotewrite.TimeSeries {
		guess, sample, ok := w.FastSample()
		s, err := w.Series()
		require.NoError(t, err)
		if ok && bytes.Equal(guess, s.Labels) {
			proved++
			require.Len(t, s.Samples, 1)
			require.Equal(t, s.Samples[0].TsMs, sample.TsMs)
			require.Equal(t, math.Float64bits(s.Samples[0].Value), math.Float64bits(sample.Value))
		}
	}
	require.NoError(t, w.Err())
	require.Positive(t, proved)
}

func TestLabelsApartAreGathered(t *testing.T) {
	whole := marshal(t, &prompb.WriteRequest{Timeseries: request(1).Timeseries})
	var w remotewrite.Walker
	w.Reset(whole)
	require.Equal(t, remotewrite.TimeSeries, w.Next())
	s, err := w.Series()
	require.NoError(t, err)
	fields := bytes.Clone(s.Labels)
	// Put the sample between the first label and the others.
	first := 2 + int(fields[1])
	sample := whole[len(whole)-18:]
	message := append(append(bytes.Clone(fields[:first]), sample...), fields[first:]...)
	body := append([]byte{0x0a}, binary.AppendUvarint(nil, uint64(len(message)))...)
	body = append(body, message...)
	w.Reset(body)
	require.Equal(t, remotewrite.TimeSeries, w.Next())
	s, err = w.Series()
	require.NoError(t, err)
	require.Equal(t, fields, s.Labels)
	require.Len(t, s.Samples, 1)
}

func TestAppendFieldsIsWhatPrometheusWrites(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), 300))
	ls := labels.FromStrings("__name__", "m", "a", "b", "long", long)
	ts := prompb.TimeSeries{Labels: prompb.FromLabels(ls, nil)}
	want, err := ts.Marshal()
	require.NoError(t, err)
	require.Equal(t, want, remotewrite.AppendFields(nil, ls))
}

func TestEveryTruncationIsAnErrorOrAPrefix(t *testing.T) {
	body := marshal(t, rich())
	for n := range len(body) {
		cut := body[:n:n]
		var want prompb.WriteRequest
		wantErr := want.Unmarshal(cut)
		got, _, err := walk(cut)
		require.Equal(t, wantErr == nil, err == nil, "cut at %d: %v, %v", n, wantErr, err)
		if err != nil {
			var format *remotewrite.FormatError
			require.ErrorAs(t, err, &format)
			require.LessOrEqual(t, format.Offset, n)
			continue
		}
		requireSame(t, &want, got)
	}
}

func TestSnappyChecksSizeBeforeAllocating(t *testing.T) {
	huge := append(binary.AppendUvarint(nil, 1<<31), 0)
	allocated := testing.AllocsPerRun(10, func() {
		_, err := remotewrite.Snappy(huge, 1<<20)
		require.ErrorIs(t, err, remotewrite.ErrTooLarge)
	})
	require.Less(t, allocated, 20.0)
	for _, bad := range [][]byte{nil, {0xff, 0xff}, append(binary.AppendUvarint(nil, 100), 1, 2, 3)} {
		_, err := remotewrite.Snappy(bad, 1<<20)
		require.ErrorIs(t, err, remotewrite.ErrCorrupt)
	}
	buf, err := remotewrite.Snappy(snappy.Encode(nil, []byte("hello")), 5)
	require.NoError(t, err)
	require.Equal(t, "hello", string(buf.Bytes()))
	buf.Release()
	_, err = remotewrite.Snappy(snappy.Encode(nil, []byte("hello!")), 5)
	require.ErrorIs(t, err, remotewrite.ErrTooLarge)
}

func FuzzWalkEqualsGeneratedDecoder(f *testing.F) {
	f.Add(marshal(f, rich()))
	f.Add(marshal(f, request(2)))
	f.Add([]byte{0x0a, 0x00})
	f.Add([]byte{0x13, 0x08, 0x01, 0x14})
	f.Add([]byte{0x0a, 0x04, 0x0b, 0x10, 0x01, 0x0c})
	f.Fuzz(func(t *testing.T, body []byte) {
		var want prompb.WriteRequest
		wantErr := want.Unmarshal(body)
		got, _, err := walk(body)
		if (wantErr == nil) != (err == nil) {
			t.Fatalf("generated decoder: %v, walker: %v", wantErr, err)
		}
		if err == nil {
			requireSame(t, &want, got)
		}
	})
}

func FuzzSnappyNeverPanics(f *testing.F) {
	f.Add(snappy.Encode(nil, marshal(f, request(2))))
	f.Fuzz(func(t *testing.T, body []byte) {
		buf, err := remotewrite.Snappy(body, 1<<20)
		if err != nil {
			if !errors.Is(err, remotewrite.ErrCorrupt) && !errors.Is(err, remotewrite.ErrTooLarge) {
				t.Fatalf("unnamed error %v", err)
			}
			return
		}
		defer buf.Release()
		var w remotewrite.Walker
		w.Reset(buf.Bytes())
		for w.Next() == remotewrite.TimeSeries {
			w.FastSample()
		}
	})
}

// BenchmarkWalk reports the time for a body of 2,000 series with one sample each.
func BenchmarkWalk(b *testing.B) {
	body := marshal(b, request(2000))
	b.Run("fast", func(b *testing.B) {
		var w remotewrite.Walker
		b.ReportAllocs()
		for b.Loop() {
			w.Reset(body)
			for w.Next() == remotewrite.TimeSeries {
				if _, _, ok := w.FastSample(); !ok {
					b.Fatal("not the usual shape")
				}
			}
		}
	})
	b.Run("full", func(b *testing.B) {
		var w remotewrite.Walker
		b.ReportAllocs()
		for b.Loop() {
			w.Reset(body)
			for w.Next() == remotewrite.TimeSeries {
				if _, err := w.Series(); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
