package wal

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	registerer prometheus.Registerer
	collectors []prometheus.Collector

	fsync     prometheus.Histogram
	group     prometheus.Histogram
	failures  *prometheus.CounterVec
	overloads prometheus.Counter
	stalls    prometheus.Counter
	slow      prometheus.Counter
	truncates prometheus.Counter
	tornBytes prometheus.Gauge
	lost      prometheus.Gauge
}

func newMetrics(l *Log, registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		registerer: registerer,
		fsync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tsdb_wal_fsync_duration_seconds", Help: "Time to sync one commit of the write-ahead log.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		group: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tsdb_wal_commit_size_bytes", Help: "Bytes that one commit of the write-ahead log made durable.",
			Buckets: prometheus.ExponentialBuckets(256, 4, 10),
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_wal_failures_total", Help: "Failures after which the write-ahead log refuses all frames.",
		}, []string{"operation"}),
		overloads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_wal_overloads_total", Help: "Appends that failed because the buffer was full or the log stalled.",
		}),
		stalls: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_wal_stalls_total", Help: "Times that the write-ahead log began to wait for disk space, descriptors or memory.",
		}),
		slow: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_wal_slow_commits_total", Help: "Commits of the write-ahead log that took a second or more.",
		}),
		truncates: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_wal_truncations_total", Help: "Checkpoints that replaced segments of the write-ahead log.",
		}),
		tornBytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tsdb_wal_replay_torn_bytes", Help: "Size of the torn tail that the last replay discarded.",
		}),
		lost: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tsdb_wal_replay_losses", Help: "Damaged parts of the log that the last replay accepted.",
		}),
	}
	m.collectors = []prometheus.Collector{m.fsync, m.group, m.failures, m.overloads, m.stalls,
		m.slow, m.truncates, m.tornBytes, m.lost}
	for _, g := range []struct {
		name, help string
		counter    bool
		value      func(Stats) float64
	}{
		{"tsdb_wal_frames_total", "Frames appended to the write-ahead log.", true,
			func(s Stats) float64 { return float64(s.FramesAppended) }},
		{"tsdb_wal_written_bytes_total", "Bytes of frames that the write-ahead log made durable.", true,
			func(s Stats) float64 { return float64(s.BytesWritten) }},
		{"tsdb_wal_segments", "Segment files of the write-ahead log.", false,
			func(s Stats) float64 { return float64(s.Segments) }},
		{"tsdb_wal_segment_current", "Number of the newest segment of the write-ahead log.", false,
			func(s Stats) float64 { return float64(s.Segment) }},
		{"tsdb_wal_size_bytes", "Size of the write-ahead log: all segments and the checkpoint.", false,
			func(s Stats) float64 { return float64(s.SizeBytes) }},
		{"tsdb_wal_buffer_bytes", "Bytes appended to the write-ahead log and not yet durable.", false,
			func(s Stats) float64 { return float64(s.BufferBytes) }},
		{"tsdb_wal_commit_age_seconds", "Time since the running commit of the write-ahead log began; 0 if none is running.", false,
			func(s Stats) float64 { return s.CommitAge.Seconds() }},
	} {
		value := func() float64 { return g.value(l.Stats()) }
		if g.counter {
			m.collectors = append(m.collectors,
				prometheus.NewCounterFunc(prometheus.CounterOpts{Name: g.name, Help: g.help}, value))
			continue
		}
		m.collectors = append(m.collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: g.name, Help: g.help}, value))
	}
	return m, m.register()
}

func (m *metrics) register() error {
	if m.registerer == nil {
		return nil
	}
	for i, c := range m.collectors {
		if err := m.registerer.Register(c); err != nil {
			for _, done := range m.collectors[:i] {
				m.registerer.Unregister(done)
			}
			return fmt.Errorf("register the log's metrics: %w", err)
		}
	}
	return nil
}

func (m *metrics) unregister() {
	if m.registerer == nil {
		return
	}
	for _, c := range m.collectors {
		m.registerer.Unregister(c)
	}
}

func (m *metrics) synced(d time.Duration) { m.fsync.Observe(d.Seconds()) }

func (m *metrics) committed(sizeBytes int) { m.group.Observe(float64(sizeBytes)) }
