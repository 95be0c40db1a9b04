package load

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/loadtest/acked"
	"halite/loadtest/fleet"
)

// TestWireFormat checks that prompb decodes the requests that a batch encodes.
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
			id := acked.WriteID{Slot: uint32(i), Step: uint32(j)}
			b.add(sample{labels: AppendSeriesLabels(nil, s), tsMs: tsMs, value: v, id: id}, j == 0)
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
	var r Request
	b.encode(&r, nil)
	got := decode(t, r.Body)
	require.Len(t, got.Timeseries, len(want))
	for i := range want {
		require.Equal(t, want[i].Labels, got.Timeseries[i].Labels)
		require.Equal(t, want[i].Samples[0].Timestamp, got.Timeseries[i].Samples[0].Timestamp)
		require.Equal(t, math.Float64bits(want[i].Samples[0].Value), math.Float64bits(got.Timeseries[i].Samples[0].Value))
		require.Equal(t, acked.WriteID{Slot: uint32(i / 3), Step: uint32(i % 3)}, r.IDs[i])
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

// TestShuffleKeepsIDs checks that the ids of a shuffled request follow its samples.
func TestShuffleKeepsIDs(t *testing.T) {
	var b batch
	var r Request
	for i := range 100 {
		labels := AppendSeriesLabels(nil, fleet.Series{Metric: "m"})
		b.add(sample{labels: labels, tsMs: int64(i), id: acked.WriteID{Slot: uint32(i)}}, true)
	}
	b.encode(&r, rand.New(rand.NewPCG(1, 2)))
	moved := 0
	for i, ts := range decode(t, r.Body).Timeseries {
		require.Equal(t, int64(r.IDs[i].Slot), ts.Samples[0].Timestamp)
		if int(r.IDs[i].Slot) != i {
			moved++
		}
	}
	require.Greater(t, moved, 80)
	require.Equal(t, int64(99), r.DueMs)
}

func BenchmarkEncode(b *testing.B) {
	o := Options{Fleet: fleet.Options{Hosts: 20}, From: timeOf(0), To: timeOf(1e9), Senders: 1}
	l := newTestLoad(b, o, time.Now)
	s := NewStreams(&l.opts, l.fleet, l.timeline)[0]
	samples := 0
	b.ReportAllocs()
	for b.Loop() {
		err := s.SendStep(func(r *Request) error {
			samples += len(r.IDs)
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(samples), "ns/sample")
}
