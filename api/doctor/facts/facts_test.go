package facts

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"halite/api/doctor"
	"halite/api/senders"
	"halite/ingest"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/keyviz"
	"halite/storage/storagetest"
	"halite/storage/widerows"
)

// rig is a Collector over fakes, with a clock.
type rig struct {
	*Collector
	now      time.Time
	flushed  prometheus.Counter
	series   int
	free     int64
	diskErr  error
	senders  *senders.Tracker
	keyviz   *keyviz.Collector
	writeTo  storage.Table
	seriesOf map[string]uint64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	// The middle of a minute.
	r := &rig{now: time.Unix(1_763_000_010, 0), series: 1000, free: 100 << 30, seriesOf: map[string]uint64{"wide": 300}}
	clock := func() time.Time { return r.now }
	registry := prometheus.NewRegistry()
	r.flushed = prometheus.NewCounter(prometheus.CounterOpts{Name: doctor.FlushedRows})
	failures := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tsdb_ingest_head_rows"}, []string{"kind"})
	failures.WithLabelValues("a").Set(3)
	failures.WithLabelValues("b").Set(4)
	registry.MustRegister(r.flushed, failures)
	r.senders = senders.New(senders.Options{Now: clock})
	store := storagetest.NewModel(clock)
	meta, err := store.EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	r.keyviz, err = keyviz.Open(t.Context(), keyviz.Options{Meta: meta, Now: clock})
	require.NoError(t, err)
	r.writeTo, err = r.keyviz.Store(store).EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	schema, err := keyschema.NewSchema([]keyschema.Rule{{Pattern: "wide", Salts: 200}, {Pattern: "narrow", Salts: 2}})
	require.NoError(t, err)
	r.Collector, err = New(Options{
		Gatherer: registry, Now: clock, Senders: r.senders, Keyviz: r.keyviz, RuleAt: schema.RuleAt,
		Sizes: func(int) index.Sizes {
			out := index.Sizes{Series: r.series, ValuesByLabel: []index.NameCount{{Name: "pod", Count: uint64(r.series)}, {Name: "job"}}}
			for name, n := range r.seriesOf {
				out.SeriesByMetric = append(out.SeriesByMetric, index.NameCount{Name: name, Count: n})
			}
			return out
		},
		WideRows: func(int) []widerows.Row { return []widerows.Row{{Key: "m#00#a=1#9500000", SizeBytes: 5}} },
		Disk:     func() (int64, int64, error) { return r.free, 200 << 30, r.diskErr },
		SeriesLimits: func(int) ingest.SeriesLimitStatus {
			return ingest.SeriesLimitStatus{
				Series: ingest.LimitUse{Used: 90, Max: 100}, MemoryBytes: ingest.LimitUse{Used: 1, Max: 2, DryRun: true},
			}
		},
	})
	require.NoError(t, err)
	return r
}

func (r *rig) facts(t *testing.T) *doctor.Facts {
	t.Helper()
	f, err := r.Facts(t.Context())
	require.NoError(t, err)
	return f
}

// pass lets time pass with a sample each minute.
func (r *rig) pass(minutes int) {
	for range minutes {
		r.now = r.now.Add(time.Minute)
		r.Sample(context.Background())
	}
}

// TestRemembered: counters of the past hour become increases, whatever the uptime, and the rings are bounded.
func TestRemembered(t *testing.T) {
	r := newRig(t)
	r.flushed.Add(5)
	f := r.facts(t)
	require.Equal(t, 7.0, f.Values["tsdb_ingest_head_rows"], "the sum of all labels")
	require.Equal(t, 5.0, f.Increases[doctor.FlushedRows], "a counter starts at 0 with the server")
	require.Zero(t, f.Cardinality.Window)
	r.pass(30)
	r.flushed.Add(2)
	require.Equal(t, 7.0, r.facts(t).Increases[doctor.FlushedRows])
	flushedMs := r.now.UnixMilli()
	r.pass(60)
	f = r.facts(t)
	require.Equal(t, 2.0, f.Increases[doctor.FlushedRows])
	require.Equal(t, time.Hour, f.Window)
	require.Equal(t, flushedMs, f.FlushedMs)
	for range diskHours + 10 {
		r.now = r.now.Add(time.Hour)
		r.Sample(t.Context())
	}
	require.Len(t, r.minutes, minutesMax)
	require.Len(t, r.disk, diskHours)
	require.Len(t, r.sizes, sizesMax)
}

// TestCardinality names the label and the metric that have grown most.
func TestCardinality(t *testing.T) {
	r := newRig(t)
	r.pass(10)
	r.series, r.seriesOf["new"] = 9000, 70
	c := r.facts(t).Cardinality
	require.Equal(t, doctor.Cardinality{
		SeriesBefore: 1000, SeriesNow: 9000, Window: 9 * time.Minute, Label: "pod", ValuesBefore: 1000, ValuesNow: 9000,
		Metric: "new", MetricNow: 70,
	}, c)
	r.pass(120)
	require.LessOrEqual(t, r.facts(t).Cardinality.Window, time.Hour+sizesInterval)
}

// TestDisk: the growth of a week counts. A disk that cannot be measured leaves the facts out.
func TestDisk(t *testing.T) {
	r := newRig(t)
	r.pass(1)
	r.free -= 1 << 30
	r.now = r.now.Add(2 * time.Hour)
	f := r.facts(t)
	require.Equal(t, int64(1<<30), f.Disk[0].FreeBytes-f.Disk[len(f.Disk)-1].FreeBytes)
	broken := newRig(t)
	broken.diskErr = errors.New("gone")
	require.Empty(t, broken.facts(t).Disk)
}

// TestSenders: refusals come with their fix. Clocks that are ahead are found from refusals and from accepted samples.
func TestSenders(t *testing.T) {
	r := newRig(t)
	req := httptest.NewRequest("POST", "/api/v1/write", nil)
	req.RemoteAddr = "10.0.0.1:99"
	req.Header.Set("User-Agent", "Prometheus/3")
	r.senders.Add(req, &senders.Outcome{NewestMs: r.now.UnixMilli() + 300_000})
	r.senders.Add(req, &senders.Outcome{NewestMs: r.now.UnixMilli() + 120_000, Samples: map[string]int{ingest.ReasonRounded: 2}})
	req.RemoteAddr = "10.0.0.2:99"
	r.senders.Refuse(req, "p", 503, senders.ReasonOverload, errors.New("busy"))
	r.senders.Add(req, &senders.Outcome{Samples: map[string]int{ingest.ReasonTooFarAhead: 7}, Example: "series up{}"})
	f := r.facts(t)
	require.Equal(t, []doctor.Skew{
		{From: "10.0.0.2 (Prometheus/3)", Refused: true}, {From: "10.0.0.1 (Prometheus/3)", Ahead: 2 * time.Minute},
	}, f.Skews)
	require.Len(t, f.Refusals, 3)
	for _, got := range f.Refusals {
		require.Equal(t, got.Reason == senders.ReasonOverload, got.Temporary, got.Reason)
		require.Equal(t, got.Reason == ingest.ReasonRounded, got.Stored, got.Reason)
		require.NotEmpty(t, got.Words)
	}
	require.Equal(t, []doctor.Limit{{Name: "active series", Used: 90, Max: 100, Fix: "--ingest.max-series=0"}}, f.Limits)
	require.Equal(t, []doctor.WideRow{{Key: "m#00#a=1#9500000", SizeBytes: 5}}, f.WideRows)
	r.pass(61)
	require.Empty(t, r.facts(t).Skews)
}

// TestLoad: a metric that takes the whole load of the table is found hot, with its rate and its salts.
func TestLoad(t *testing.T) {
	r := newRig(t)
	hour := keyschema.HourOf(r.now.UnixMilli())
	for range 12 {
		var muts []storage.RowMutation
		for n := range 3000 {
			rule := keyschema.Rule{Salts: 2}
			key := rule.AppendPrefix(nil, "narrow", []keyschema.Tag{{Name: "n", Value: fmt.Sprintf("%04d", n)}})
			muts = append(muts, storage.RowMutation{Key: keyschema.AppendHour(key, hour), Entries: []storage.Entry{{
				Kind: storage.SetCell, Family: storage.FamilySamples, Qualifier: []byte("r0000"), Value: []byte("x"),
			}}})
		}
		require.NoError(t, r.writeTo.Apply(t.Context(), muts))
		r.keyviz.Tick(t.Context())
		r.pass(1)
	}
	f := r.facts(t)
	require.Len(t, f.Metrics, 2, "one with load, one with many salts: %+v", f.Metrics)
	require.Equal(t, doctor.MetricLoad{Metric: "narrow", Salts: 2, RowsPerSecond: 50}, f.Metrics[0])
	require.Equal(t, doctor.MetricLoad{Metric: "wide", Salts: 200, Series: 300}, f.Metrics[1])
	report, err := r.Report(t.Context())
	require.NoError(t, err)
	require.Equal(t, r.now.UnixMilli(), report.CheckedMs)
	require.NotEmpty(t, report.Verdicts)
}

// TestOptions: a Collector needs a gatherer, a clock and sensible thresholds.
func TestOptions(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "required")
	_, err = New(Options{Gatherer: prometheus.NewRegistry(), Now: time.Now, Thresholds: &doctor.Options{}})
	require.ErrorContains(t, err, "ListMax")
}
