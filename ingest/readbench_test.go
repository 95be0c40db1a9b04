package ingest

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
)

// podSeries makes series of pods: 11 labels, about 215 bytes, 40 metrics for each pod, as a sender batches them.
func podSeries(n int) []prompb.TimeSeries {
	all := make([]prompb.TimeSeries, 0, n)
	for i := range n {
		pod := i / 40
		all = append(all, series([]string{
			"__name__", fmt.Sprintf("container_network_metric_%d_total", i%40), "cluster", "production-eu-west-1",
			"container", "payments-api", "endpoint", "https-metrics", "id", fmt.Sprintf("/kubepods/burstable/pod%08x", pod*7919),
			"image", "registry.example/payments:v1.42.0", "instance", fmt.Sprintf("10.0.%d.%d:10250", pod/250, pod%250),
			"job", "kubelet", "namespace", "payments", "node", fmt.Sprintf("node-%03d.example.internal", pod%20),
			"pod", fmt.Sprintf("payments-api-7d9f8b6c5d-%05d", pod),
		}, sample(startMs, float64(i)+0.5)))
	}
	return all
}

// toV2 makes the request of 2.0 with the same series.
func toV2(all []prompb.TimeSeries) *writev2.Request {
	symbols := writev2.NewSymbolTable()
	req := &writev2.Request{}
	for _, ts := range all {
		var v2 writev2.TimeSeries
		for _, l := range ts.Labels {
			v2.LabelsRefs = append(v2.LabelsRefs, symbols.Symbolize(l.Name), symbols.Symbolize(l.Value))
		}
		for _, s := range ts.Samples {
			v2.Samples = append(v2.Samples, writev2.Sample{Timestamp: s.Timestamp, Value: s.Value})
		}
		req.Timeseries = append(req.Timeseries, v2)
	}
	req.Symbols = symbols.Symbols()
	return req
}

// bodyV2 encodes a request of 2.0 as Prometheus does.
func bodyV2(t testing.TB, req *writev2.Request) []byte {
	t.Helper()
	b, err := req.Marshal()
	require.NoError(t, err)
	return snappy.Encode(nil, b)
}

// BenchmarkRead reports the time to decode a compressed body into samples with refs. The body has 2,000 known series with one
// sample each. The cases are both versions of remote write, and version 2.0 with metadata for each series.
func BenchmarkRead(b *testing.B) {
	all := podSeries(2000)
	described := toV2(all)
	described.Symbols = append(described.Symbols, "Bytes received since the start.", "bytes")
	for n := range described.Timeseries {
		described.Timeseries[n].Metadata = writev2.Metadata{
			Type: writev2.Metadata_METRIC_TYPE_COUNTER, HelpRef: uint32(len(described.Symbols) - 2),
			UnitRef: uint32(len(described.Symbols) - 1),
		}
	}
	for _, bc := range []struct {
		name string
		in   Input
	}{
		{"version=1", Input{Body: body(b, &prompb.WriteRequest{Timeseries: all})}},
		{"version=2", Input{Body: bodyV2(b, toV2(all)), Version: V2}},
		{"version=2-metadata", Input{Body: bodyV2(b, described), Version: V2}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			r := benchRig(b, vfs.NewMem(), ingesttest.NewClock())
			defer r.close()
			ctx := context.Background()
			result, err := r.Ingester.Write(ctx, bc.in)
			require.NoError(b, err)
			require.Equal(b, 2000, result.Accepted)
			b.ReportAllocs()
			for b.Loop() {
				req, err := r.Begin(ctx, bc.in)
				if err != nil {
					b.Fatal(err)
				}
				r.LockSeries()
				err = req.Read()
				r.UnlockSeries()
				if err != nil || len(req.Samples()) != 2000 {
					b.Fatal(err)
				}
				req.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/sample")
			b.ReportMetric(float64(len(bc.in.Body)), "body-bytes")
		})
	}
}
