package loadtest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/loadtest/fleet"
)

// TestWireFormat: what a batch makes is what prompb reads.
func TestWireFormat(t *testing.T) {
	long := make([]byte, 300)
	for i := range long {
		long[i] = 'a' + byte(i%26)
	}
	all := []fleet.Series{
		{Metric: "up"},
		{Metric: "up", Tags: []keyschema.Tag{{Name: "A", Value: "before the metric"}, {Name: "job", Value: "x"}}},
		{Metric: string(long), Tags: []keyschema.Tag{{Name: "job", Value: string(long)}}},
	}
	var b batch
	var want []prompb.TimeSeries
	for i, v := range []float64{0, -1.5, math.NaN(), math.Inf(1), math.MaxFloat64, math.Float64frombits(1)} {
		for j, s := range all {
			tsMs := []int64{0, 127, 1_763_683_200_123}[(i+j)%3]
			b.add(sample{labels: appendSeriesLabels(nil, s), tsMs: tsMs, value: v, mark: mark{uint32(i), uint32(j)}}, j == 0)
			ts := prompb.TimeSeries{Samples: []prompb.Sample{{Timestamp: tsMs, Value: v}}}
			named := false
			for _, tag := range s.Tags {
				if !named && tag.Name > "__name__" {
					ts.Labels, named = append(ts.Labels, prompb.Label{Name: "__name__", Value: s.Metric}), true
				}
				ts.Labels = append(ts.Labels, prompb.Label{Name: tag.Name, Value: tag.Value})
			}
			if !named {
				ts.Labels = append(ts.Labels, prompb.Label{Name: "__name__", Value: s.Metric})
			}
			want = append(want, ts)
		}
	}
	var r request
	b.encode(&r, nil)
	got := decode(t, r.body)
	require.Len(t, got.Timeseries, len(want))
	for i := range want {
		require.Equal(t, want[i].Labels, got.Timeseries[i].Labels)
		require.Equal(t, want[i].Samples[0].Timestamp, got.Timeseries[i].Samples[0].Timestamp)
		require.Equal(t, math.Float64bits(want[i].Samples[0].Value), math.Float64bits(got.Timeseries[i].Samples[0].Value))
		require.Equal(t, mark{uint32(i / 3), uint32(i % 3)}, r.marks[i])
	}
	require.Empty(t, b.samples)
}

func decode(t testing.TB, body []byte) prompb.WriteRequest {
	t.Helper()
	message, err := snappy.Decode(nil, body)
	require.NoError(t, err)
	var req prompb.WriteRequest
	require.NoError(t, req.Unmarshal(message))
	return req
}

// TestShuffleKeepsMarks: a permuted request says of each sample what it said before.
func TestShuffleKeepsMarks(t *testing.T) {
	var b batch
	var r request
	for i := range 100 {
		b.add(sample{labels: appendSeriesLabels(nil, fleet.Series{Metric: "m"}), tsMs: int64(i), mark: mark{uint32(i), 0}}, true)
	}
	b.encode(&r, rand.New(rand.NewPCG(1, 2)))
	moved := 0
	for i, ts := range decode(t, r.body).Timeseries {
		require.Equal(t, int64(r.marks[i].slot), ts.Samples[0].Timestamp)
		if int(r.marks[i].slot) != i {
			moved++
		}
	}
	require.Greater(t, moved, 80)
	require.Equal(t, int64(99), r.dueMs)
}

func BenchmarkEncode(b *testing.B) {
	o := Options{Fleet: fleet.Options{Hosts: 20}, From: timeOf(0), To: timeOf(1e9), Senders: 1}
	r := newTestRunner(b, o)
	s := newStreams(&r.opts, r.fleet, r.timeline)[0]
	var req request
	samples := 0
	b.ReportAllocs()
	for b.Loop() {
		err := s.next(func(x *batch) error {
			samples += len(x.samples)
			x.encode(&req, nil)
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(samples), "ns/sample")
}
