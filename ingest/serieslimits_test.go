package ingest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
	"halite/ingest/tenantlimits"
	"halite/keyschema"
	"halite/storage/principal"
)

// newSeries makes n series of a metric, from the given number on.
func newSeries(metric string, from, n int, tsMs int64) (all []prompb.TimeSeries) {
	for i := from; i < from+n; i++ {
		names := []string{"__name__", metric, "id", fmt.Sprintf("%08d", i), "job", "bomb"}
		all = append(all, series(names, sample(tsMs, float64(i))))
	}
	return all
}

// send writes series and returns the result.
func (r *rig) send(all ...prompb.TimeSeries) Result {
	r.t.Helper()
	result, err := r.Write(context.Background(), Input{Body: body(r.t, &prompb.WriteRequest{Timeseries: all})})
	require.NoError(r.t, err)
	return result
}

// TestSeriesMemoryIsBounded sends more and more series. Their memory stays below its limit. The server refuses new
// series and still accepts known ones, also in the same request.
func TestSeriesMemoryIsBounded(t *testing.T) {
	fs := vfs.NewCrashableMem()
	tweak := func(o *Options) { o.Head.TotalBytesMax = 8 << 20 }
	r := openRig(t, fs, ingesttest.NewClock(), tweak)
	known := newSeries("known", 0, 100, startMs)
	r.write(known...)
	limit := int64(8<<20) / 4 * 3
	refused := Result{}
	for n := 0; refused.Rejected < 5000; n++ {
		require.Less(t, n, 200, "nothing is refused")
		refused = r.send(newSeries(fmt.Sprintf("bomb_%d", n%3), n*1000, 1000, startMs)...)
		refused = r.send(append(newSeries("wide", n*5000, 5000, startMs), newSeries("known", 0, 100, startMs+int64(n))...)...)
		require.GreaterOrEqual(t, refused.Accepted, 100)
		r.doStep()
		require.LessOrEqual(t, r.head.Bytes()+r.admission.memory.seriesBytes(), int64(8<<20), "series leave less for rows")
	}
	require.Equal(t, map[string]int{ReasonSeriesMemory: 5000}, refused.Reasons)
	require.Contains(t, refused.First, "series wide{")
	require.Contains(t, refused.First, "the memory of active series has reached its limit")
	require.GreaterOrEqual(t, r.admission.memory.seriesBytes(), limit)
	require.Less(t, r.admission.memory.seriesBytes(), limit+limit/4, "a limit is passed by the growth of one array at most")
	require.Equal(t, float64(1), r.counter("tsdb_ingest_series_limit_warnings", "limit", "memory"))
	status := r.SeriesLimits(10)
	require.True(t, status.MemoryBytes.warns())
	require.Equal(t, limit, status.MemoryBytes.Max)
	require.Equal(t, "wide", status.Refused[0].Metric)
	r.write(newSeries("known", 0, 100, startMs+60_000)...)

	count := r.Stats().Series
	r = r.reopen(tweak)
	require.Equal(t, count, r.Stats().Series)
	require.Equal(t, 100, r.index.ActiveSeries("known"))
	require.Equal(t, 1, r.send(append(newSeries("late", 0, 1, startMs), newSeries("known", 0, 100, startMs+61_000)...)...).Rejected)
	r.close()
}

// TestIdleSeriesMakeRoom sends a burst of series that ends after a day. The server soon removes these series, and
// accepts new ones.
func TestIdleSeriesMakeRoom(t *testing.T) {
	ctx := context.Background()
	c := ingesttest.NewClock()
	r := openRig(t, vfs.NewCrashableMem(), c, func(o *Options) { o.Head.TotalBytesMax, o.Limits.AheadMax = 8<<20, time.Minute })
	for n := 0; r.send(newSeries("bomb", n*2000, 2000, startMs)...).Rejected == 0; n++ {
		require.Less(t, n, 200)
		r.doStep()
	}
	used := r.admission.memory.seriesBytes()
	c.Advance(30 * time.Hour)
	nowMs := c.Now().UnixMilli()
	require.Equal(t, 10, r.send(newSeries("fresh", 0, 10, nowMs)...).Rejected, "the bomb is still there")
	r.flush()
	require.NoError(t, r.maintain(ctx))
	require.Less(t, r.admission.memory.seriesBytes(), used/2)
	require.Zero(t, r.Stats().Series)
	r.write(newSeries("fresh", 0, 10, nowMs)...)
	require.Equal(t, 10, r.Stats().Series)
	r.close()
}

// TestMetricSeriesLimit limits metrics by rules, which change while the ingester runs.
func TestMetricSeriesLimit(t *testing.T) {
	var log bytes.Buffer
	c := ingesttest.NewClock()
	r := openRig(t, vfs.NewCrashableMem(), c, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	limit := func(rules ...keyschema.Rule) {
		next, err := keyschema.NewSchema(rules)
		require.NoError(t, err)
		require.NoError(t, r.schema.Replace(next, keyschema.HourOf(startMs)))
	}
	limit(keyschema.Rule{Pattern: "pod_*", MaxSeries: new(10), MaxSeriesWarn: 5}, keyschema.Rule{Pattern: "*", MaxSeries: new(1000)})
	r.write(newSeries("pod_a", 0, 5, startMs)...)
	require.NotContains(t, log.String(), "near the limit")
	r.write(newSeries("pod_a", 5, 5, startMs)...)
	require.Equal(t, 1, strings.Count(log.String(), "near the limit of active series"), log.String())
	require.Equal(t, float64(1), r.counter("tsdb_ingest_series_limit_warnings", "limit", "metric"))

	result := r.send(append(newSeries("pod_a", 0, 30, startMs+1), newSeries("pod_b", 0, 3, startMs)...)...)
	require.Equal(t, map[string]int{ReasonMetricSeriesLimit: 20}, result.Reasons)
	require.Equal(t, 13, result.Accepted)
	require.Contains(t, result.First,
		`metric pod_a has reached its limit of 10 active series, set by the rule with the pattern "pod_*"`)
	require.Equal(t, float64(20), r.rejected(ReasonMetricSeriesLimit))
	status := r.SeriesLimits(10)
	require.Equal(t, []RefusedSamples{{Metric: "pod_a", Samples: 20}}, status.Refused)
	require.Equal(t, []MetricLimitUse{{"pod_a", "pod_*", LimitUse{Used: 10, Warn: 5, Max: 10}}}, status.Metrics)
	require.Equal(t, 1, strings.Count(log.String(), "refusing new series"), log.String())
	c.Advance(limitLogInterval)
	r.send(newSeries("pod_a", 0, 30, startMs+1)...)
	require.Equal(t, 2, strings.Count(log.String(), "refusing new series"), log.String())
	require.Contains(t, log.String(), "metric=pod_a series=20")

	limit(keyschema.Rule{Pattern: "pod_*", MaxSeries: new(10), MaxSeriesDryRun: true})
	r.write(newSeries("pod_a", 0, 30, startMs+2)...)
	require.Equal(t, float64(20), r.counter("tsdb_ingest_series_limit_dry_run_total", "limit", "metric"))
	require.Equal(t, 1, strings.Count(log.String(), "the limit is a dry run"), log.String())
	require.Equal(t, float64(40), r.rejected(ReasonMetricSeriesLimit))
	limit(keyschema.Rule{Pattern: "pod_a", MaxSeries: new(0)}, keyschema.Rule{Pattern: "pod_*", MaxSeries: new(10)})
	r.write(newSeries("pod_a", 30, 30, startMs+2)...)
	r.close()
}

// TestSeriesLimitDryRun warns and counts, and accepts all series.
func TestSeriesLimitDryRun(t *testing.T) {
	r := openRig(t, vfs.NewCrashableMem(), ingesttest.NewClock(), func(o *Options) {
		o.Limits.SeriesMax, o.Limits.SeriesWarn, o.Limits.SeriesDryRun = 10, 0.5, true
	})
	r.write(newSeries("m", 0, 25, startMs)...)
	require.Equal(t, float64(15), r.counter("tsdb_ingest_series_limit_dry_run_total", "limit", "series"))
	require.Equal(t, LimitUse{Used: 25, Warn: 5, Max: 10, DryRun: true}, r.SeriesLimits(1).Series)
	require.Equal(t, float64(10), r.counter("tsdb_ingest_series_limit", "", ""))
	require.Equal(t, float64(1), r.counter("tsdb_ingest_series_limit_warnings", "limit", "series"))
	r.close()
}

// TestRepeatedSeriesCountOnce repeats each new series in one request, as protocols do that send one sample a line. The limits
// count each series once.
func TestRepeatedSeriesCountOnce(t *testing.T) {
	r := openRig(t, vfs.NewCrashableMem(), ingesttest.NewClock(), func(o *Options) {
		o.Limits.Tenants, o.Limits.SeriesMax = true, 5
	})
	r.SetTenantLimits(map[string]TenantLimits{tenantlimits.Each: {Series: Limit{Max: 4}}})
	write := func(tenant string, from, n int) Result {
		var samples []Sample
		for i := range 3 {
			for id := from; id < from+n; id++ {
				ls := labels.FromStrings("__name__", "m", "id", strconv.Itoa(id))
				samples = append(samples, Sample{Labels: ls, TsMs: startMs + int64(i), Value: 1})
			}
		}
		ctx := principal.With(t.Context(), &principal.Principal{Name: tenant, Tenants: []string{tenant}})
		result, err := r.Write(ctx, SamplesInput(samples))
		require.NoError(t, err)
		return result
	}
	require.Equal(t, Result{Accepted: 12, NewestMs: startMs}, write("a", 0, 4))
	require.Equal(t, map[string]int{ReasonTenantSeriesLimit: 3}, write("a", 3, 2).Reasons)
	require.Equal(t, map[string]int{ReasonSeriesLimit: 3}, write("b", 0, 2).Reasons)
	require.Equal(t, 5, r.Stats().Series)
	r.close()
}

// TestMetricCountsAreBounded counts far more metrics than have a place: a metric with a large count keeps its own.
func TestMetricCountsAreBounded(t *testing.T) {
	c := newMetricCounts(100)
	for n := range 50_000 {
		c.add(fmt.Sprintf("bomb_%d", n), 1)
		if n%10 == 9 {
			c.add("culprit", 20)
		}
	}
	require.Len(t, c.byMetric, 100)
	require.Len(t, c.heap, 100)
	first := c.largest(3)
	require.Len(t, first, 3)
	require.Equal(t, "culprit", first[0].Metric)
	require.LessOrEqual(t, first[0].Samples, uint64(100_000))
	require.GreaterOrEqual(t, first[0].Samples+first[0].Uncounted, uint64(100_000))
	require.Greater(t, first[0].Samples, uint64(90_000))
}

// TestLimitsOfTenants: a tenant reaches its own limits, others continue, and the status shows its use.
func TestLimitsOfTenants(t *testing.T) {
	r := openRig(t, vfs.NewCrashableMem(), ingesttest.NewClock(), func(o *Options) { o.Limits.Tenants = true })
	r.SetTenantLimits(map[string]TenantLimits{
		"a":                     {Series: Limit{Max: 5, Warn: 0.5}, SamplesPerSecond: Limit{Max: 100}},
		tenantlimits.Each:       {Series: Limit{Max: 7}},
		keyschema.DefaultTenant: {Series: Limit{Max: 3, DryRun: true}},
	})
	write := func(tenant string, from, n int) (Result, error) {
		ctx := principal.With(t.Context(), &principal.Principal{Name: tenant, Tenants: []string{tenant}})
		return r.Write(ctx, Input{Body: body(t, &prompb.WriteRequest{Timeseries: newSeries("m", from, n, startMs)})})
	}
	for tenant, most := range map[string]int{"a": 5, "b": 7, "c": 7, keyschema.DefaultTenant: 9} {
		result, err := write(tenant, 0, 9)
		require.NoError(t, err)
		require.Equal(t, most, result.Accepted, tenant)
		if most < 9 {
			require.Equal(t, map[string]int{ReasonTenantSeriesLimit: 9 - most}, result.Reasons)
			require.Contains(t, result.First, fmt.Sprintf("series m{id=\"0000000%d\",job=\"bomb\"}", most))
			require.Contains(t, result.First, "tenant "+tenant+" has reached its limit")
		}
		require.Equal(t, float64(most), r.counter("tsdb_tenant_series", "tenant", tenant))
		require.Equal(t, float64(9), r.counter("tsdb_tenant_samples_total", "tenant", tenant), "with the refused ones")
	}
	_, err := write("a", 0, 200) // a large request passes, and the next one waits
	require.NoError(t, err)
	_, err = write("a", 0, 1)
	overload := new(OverloadError)
	require.ErrorAs(t, err, &overload)
	require.Contains(t, overload.Reason, "samples per second")
	_, err = write("b", 0, 1)
	require.NoError(t, err)
	r.close()
}
