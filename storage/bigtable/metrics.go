package bigtable

import (
	"context"
	"path"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// metrics counts requests and responses. It is a stats.Handler, so it sees each attempt of a call, including the client's
// retries.
type metrics struct {
	requests     *prometheus.CounterVec
	seconds      *prometheus.HistogramVec
	sentBytes    *prometheus.CounterVec
	gotBytes     *prometheus.CounterVec
	rowsWritten  prometheus.Counter
	rowsRead     prometheus.Counter
	rowsFailed   prometheus.Counter
	mutations    prometheus.Counter
	writeBytes   prometheus.Histogram
	readRanges   prometheus.Histogram
	readsResumed prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "tsdb_bigtable_" + name, Help: help})
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tsdb_bigtable_" + name, Help: help}, labels)
	}
	m := &metrics{
		requests: vec("requests_total", "Attempts of calls to Bigtable, by method and status code.", "method", "code"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tsdb_bigtable_request_seconds",
			Help: "Duration of attempts of calls to Bigtable.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)},
			[]string{"method"}),
		sentBytes:   vec("sent_bytes_total", "Bytes of request messages.", "method"),
		gotBytes:    vec("received_bytes_total", "Bytes of response messages.", "method"),
		rowsWritten: counter("rows_written_total", "Rows whose mutation Bigtable acknowledged."),
		rowsRead:    counter("rows_read_total", "Rows that reads returned."),
		rowsFailed:  counter("rows_failed_total", "Rows whose mutation failed after all retries."),
		mutations:   counter("mutations_total", "Entries of acknowledged row mutations."),
		writeBytes: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tsdb_bigtable_write_request_bytes",
			Help:    "Keys, qualifiers and values of one bulk write request.",
			Buckets: prometheus.ExponentialBuckets(1<<10, 4, 10)}),
		readRanges: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tsdb_bigtable_read_request_ranges",
			Help: "Keys and ranges of one read request.", Buckets: prometheus.ExponentialBuckets(1, 4, 9)}),
		readsResumed: counter("reads_resumed_total", "Reads that this engine resumed after the client gave up."),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.seconds, m.sentBytes, m.gotBytes, m.rowsWritten, m.rowsRead,
		m.rowsFailed, m.mutations, m.writeBytes, m.readRanges, m.readsResumed} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Keys of values in call contexts.
type (
	methodKey  struct{}
	watcherKey struct{}
)

// watcher sees the messages of one call, in the goroutine that receives them.
type watcher interface {
	// began is called at the start of each attempt.
	began()
	// received is called for each message.
	received(message any)
}

func withWatcher(ctx context.Context, w watcher) context.Context {
	return context.WithValue(ctx, watcherKey{}, w)
}

// TagRPC implements stats.Handler.
func (m *metrics) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, methodKey{}, path.Base(info.FullMethodName))
}

// HandleRPC implements stats.Handler.
func (m *metrics) HandleRPC(ctx context.Context, s stats.RPCStats) {
	method, _ := ctx.Value(methodKey{}).(string)
	watch, _ := ctx.Value(watcherKey{}).(watcher)
	switch s := s.(type) {
	case *stats.Begin:
		if watch != nil {
			watch.began()
		}
	case *stats.OutPayload:
		m.sentBytes.WithLabelValues(method).Add(float64(s.Length))
	case *stats.InPayload:
		m.gotBytes.WithLabelValues(method).Add(float64(s.Length))
		if watch != nil {
			watch.received(s.Payload)
		}
	case *stats.End:
		m.requests.WithLabelValues(method, status.Code(s.Error).String()).Inc()
		m.seconds.WithLabelValues(method).Observe(s.EndTime.Sub(s.BeginTime).Seconds())
	}
}

// TagConn implements stats.Handler.
func (m *metrics) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (m *metrics) HandleConn(context.Context, stats.ConnStats) {}

// sampler collects the response of SampleRowKeys with the sizes, which the client drops.
type sampler struct{ samples []sample }

type sample struct {
	key    string // empty means the end of the table
	offset uint64 // approximate bytes before key
}

func (s *sampler) began() { s.samples = s.samples[:0] }

func (s *sampler) received(message any) {
	if r, ok := message.(*bigtablepb.SampleRowKeysResponse); ok {
		s.samples = append(s.samples, sample{key: string(r.RowKey), offset: uint64(max(0, r.OffsetBytes))})
	}
}
