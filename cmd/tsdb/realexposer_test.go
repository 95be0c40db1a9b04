//go:build realinput

package main_test

import (
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

const (
	exposerPaths    = 20
	exposerInterval = 20 * time.Millisecond
	// exposerResets is the number of rounds after which the histograms begin at zero.
	exposerResets = 4000
)

// startExposer serves metrics of all kinds that client_golang does not count for itself: integer histograms with resets,
// float histograms, gauge histograms, classic histograms that Prometheus converts to custom buckets, and exemplars.
func startExposer(t *testing.T) (address string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	integer := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "exposer_latency_seconds", Help: "An integer histogram.",
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMaxExemplars: 1,
	}, []string{"path"})
	classic := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "exposer_classic_seconds", Help: "A classic histogram.", Buckets: prometheus.DefBuckets,
	}, []string{"path"})
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "exposer_requests_total", Help: "A counter with exemplars.",
	}, []string{"path"})
	registry.MustRegister(integer, classic, counter)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	gatherer := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := registry.Gather()
		return append(families, floatHistograms(time.Now())...), err
	})
	server := &http.Server{Handler: promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true})}
	go server.Serve(listener)
	ended := make(chan struct{})
	go func() {
		random := rand.New(rand.NewPCG(1, 2))
		for round := 1; ; round++ {
			select {
			case <-ended:
				return
			case <-time.After(exposerInterval):
			}
			if round%exposerResets == 0 {
				integer.Reset()
			}
			for i := range exposerPaths {
				if round%(i+1) != 0 {
					continue // counts of paths differ, so topk has no ties
				}
				path := "/" + strconv.Itoa(i)
				seconds := math.Exp(random.NormFloat64()-3) * float64(i+1)
				exemplar := prometheus.Labels{"trace_id": strconv.FormatUint(random.Uint64(), 16)}
				integer.WithLabelValues(path).(prometheus.ExemplarObserver).ObserveWithExemplar(seconds, exemplar)
				classic.WithLabelValues(path).Observe(seconds)
				counter.WithLabelValues(path).(prometheus.ExemplarAdder).AddWithExemplar(1, exemplar)
			}
		}
	}()
	t.Cleanup(func() { close(ended); server.Close() })
	return listener.Addr().String()
}

// floatHistograms are a counter and a gauge, which client_golang cannot make.
func floatHistograms(at time.Time) []*dto.MetricFamily {
	age := float64(at.UnixMilli()%3_600_000) / 1000
	wave := 2 + math.Sin(age/20)
	return []*dto.MetricFamily{
		floatFamily("exposer_float_seconds", dto.MetricType_HISTOGRAM, age/3, age/7, age/11),
		floatFamily("exposer_gauge_seconds", dto.MetricType_GAUGE_HISTOGRAM, wave, wave*wave, 1/wave),
	}
}

func floatFamily(name string, kind dto.MetricType, zero, positive, negative float64) *dto.MetricFamily {
	h := &dto.Histogram{
		SampleCountFloat: proto.Float64(zero + 3*positive + negative), SampleSum: proto.Float64(positive - negative),
		Schema: proto.Int32(2), ZeroThreshold: proto.Float64(0.001), ZeroCountFloat: proto.Float64(zero),
		PositiveSpan: []*dto.BucketSpan{
			{Offset: proto.Int32(-3), Length: proto.Uint32(2)}, {Offset: proto.Int32(4), Length: proto.Uint32(1)},
		},
		PositiveCount: []float64{positive, positive / 2, positive * 3 / 2},
		NegativeSpan:  []*dto.BucketSpan{{Offset: proto.Int32(1), Length: proto.Uint32(1)}},
		NegativeCount: []float64{negative},
	}
	return &dto.MetricFamily{
		Name: &name, Help: proto.String("A histogram of floats."), Type: &kind, Metric: []*dto.Metric{{Histogram: h}},
	}
}
