package ingest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
	"halite/storage/storagetest/seeds"
)

// writeV2 sends a request of 2.0.
func (r *rig) writeV2(req *writev2.Request) (Result, error) {
	r.t.Helper()
	return r.Write(context.Background(), Input{Body: bodyV2(r.t, req), Version: V2})
}

// TestV2EqualsV1 sends the same random requests by both versions to two stores, and alternately to a third. All must
// answer and hold the same.
func TestV2EqualsV1(t *testing.T) {
	rng := seeds.Rand(t, 1)
	limit := func(o *Options) {
		o.Limits.SeriesMax = 150
		o.Limits.LabelValueBytesMax = 20
	}
	one, two := openRig(t, vfs.NewMem(), ingesttest.NewClock(), limit), openRig(t, vfs.NewMem(), ingesttest.NewClock(), limit)
	both := openRig(t, vfs.NewMem(), ingesttest.NewClock(), limit)
	names := []string{"__name__", "a", "b", "c", "", "d"}
	ctx := context.Background()
	sent := map[string]labels.Labels{}
	for round := range 30 {
		var all []prompb.TimeSeries
		for range rng.IntN(80) {
			pairs := []string{"__name__", fmt.Sprint("m", rng.IntN(4)), "x", fmt.Sprint(rng.IntN(50))}
			for range rng.IntN(3) {
				pairs = append(pairs, names[rng.IntN(len(names))], []string{"", "v", "w", "a value that is far too long"}[rng.IntN(4)])
			}
			ts := series(pairs)
			for range rng.IntN(3) {
				at := startMs + int64(round)*15_000 + int64(rng.IntN(1000))
				if rng.IntN(20) == 0 {
					at = []int64{-1, 0, startMs + int64(1000*time.Hour/time.Millisecond), math.MaxInt64}[rng.IntN(4)]
				}
				ts.Samples = append(ts.Samples, sample(at, []float64{0, 1, rng.NormFloat64(), math.Inf(1)}[rng.IntN(4)]))
			}
			all = append(all, ts)
			ls := labels.EmptyLabels()
			for _, l := range ts.Labels {
				ls = labels.NewBuilder(ls).Set(l.Name, l.Value).Labels()
			}
			sent[ls.String()] = ls
		}
		bodies := map[Version][]byte{V1: body(t, &prompb.WriteRequest{Timeseries: all}), V2: bodyV2(t, toV2(all))}
		want, err := one.Write(ctx, Input{Body: bodies[V1]})
		require.NoError(t, err)
		got, err := two.Write(ctx, Input{Body: bodies[V2], Version: V2})
		require.NoError(t, err)
		got.First, want.First = "", "" // a series without samples is a fault of 2.0 only
		require.Equal(t, want, got)
		version := Version(rng.IntN(2))
		got, err = both.Ingester.Write(ctx, Input{Body: bodies[version], Version: version})
		require.NoError(t, err)
		got.First = ""
		require.Equal(t, want, got)
	}
	require.Equal(t, one.SeriesCount(), two.SeriesCount())
	require.Equal(t, one.SeriesCount(), both.SeriesCount())
	two = two.reopen(limit)
	for _, ls := range sent {
		want, err := one.read(ls)
		require.NoError(t, err)
		two.requireSeries(ls, want)
		both.requireSeries(ls, want)
	}
	one.close()
	two.close()
	both.close()
}

// TestV2KnownSeries: a series is found again by both versions, in another order of labels and symbols.
func TestV2KnownSeries(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	defer r.close()
	ctx := context.Background()
	all := podSeries(200)
	for round := range 6 {
		for n := range all {
			all[n].Samples[0].Timestamp = startMs + int64(round)*1000
		}
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		req := toV2(all)
		if round%2 == 1 { // other numbers
			req.Symbols = append(append([]string{""}, "unused"), req.Symbols[1:]...)
			for n := range req.Timeseries {
				for i := range req.Timeseries[n].LabelsRefs {
					req.Timeseries[n].LabelsRefs[i]++
				}
			}
		}
		result, err := r.writeV2(req)
		require.NoError(t, err)
		result.NewestMs = 0
		require.Equal(t, Result{Accepted: 200}, result)
	}
	_, err := r.Write(ctx, Input{Body: body(t, &prompb.WriteRequest{Timeseries: all})})
	require.NoError(t, err)
	require.Equal(t, 200, r.SeriesCount())
	require.Equal(t, 400, r.registry.Len(), "an encoding of 1.0 and a key of 2.0 for each series")
}

// TestV2Partial: wrong series are rejected by reason, the others of the request are stored.
func TestV2Partial(t *testing.T) {
	for _, c := range []struct {
		name   string
		series writev2.TimeSeries
		reason string
		counts int
		first  string
	}{
		{"reference outside", writev2.TimeSeries{LabelsRefs: []uint32{1, 99}}, ReasonInvalidReference, 1,
			"series {}: invalid_reference: reference 99 of a label is outside the table of 7 symbols"},
		{"odd", writev2.TimeSeries{LabelsRefs: []uint32{1, 2, 3}}, ReasonInvalidReference, 1,
			"series {}: invalid_reference: 3 references to labels, which is not an even number"},
		{"help", writev2.TimeSeries{LabelsRefs: []uint32{1, 2}, Metadata: writev2.Metadata{HelpRef: 99}}, ReasonInvalidReference, 1,
			"series {}: invalid_reference: reference 99 of metadata is outside the table of 7 symbols"},
		{"no name", writev2.TimeSeries{LabelsRefs: []uint32{3, 4}}, ReasonNoMetricName, 1,
			`series {a="b"}: missing_metric_name: no metric name`},
		{"duplicate", writev2.TimeSeries{LabelsRefs: []uint32{1, 2, 3, 4, 3, 2}}, ReasonDuplicateLabel, 1,
			`series m{a="b",a="m"}: duplicate_label: label "a" appears twice`},
		{"histogram", writev2.TimeSeries{LabelsRefs: []uint32{1, 2}, Histograms: []writev2.Histogram{
			{Timestamp: startMs, Schema: 99},
		}}, ReasonHistogramInvalid, 1, "series m{}: histogram_invalid: "},
		{"exemplar", writev2.TimeSeries{LabelsRefs: []uint32{1, 2}, Exemplars: []writev2.Exemplar{{Timestamp: 2 * startMs}}},
			ReasonTooFarAhead, 1, "series m{}: too_far_ahead: "},
		{"nothing", writev2.TimeSeries{LabelsRefs: []uint32{1, 2}}, ReasonEmptySeries, 0,
			"series m{}: empty_series: neither samples nor histograms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
			defer r.close()
			bad := c.series
			if len(bad.Histograms)+len(bad.Exemplars) == 0 && c.counts > 0 {
				bad.Samples = []writev2.Sample{{Timestamp: startMs, Value: 1}}
			}
			good := func(n uint32) writev2.TimeSeries {
				return writev2.TimeSeries{
					LabelsRefs: []uint32{1, 2, 3, 4 + n}, Samples: []writev2.Sample{{Timestamp: startMs, Value: float64(n)}},
				}
			}
			req := &writev2.Request{
				Symbols: []string{"", "__name__", "m", "a", "b", "c", "d"}, Timeseries: []writev2.TimeSeries{good(0), bad, good(1), good(2)},
			}
			for range 2 { // new and known
				result, err := r.writeV2(req)
				require.NoError(t, err)
				require.Equal(t, 3, result.Accepted)
				require.Equal(t, c.counts, result.Rejected)
				require.Equal(t, c.counts, result.Reasons[c.reason])
				require.True(t, strings.HasPrefix(result.First, c.first), result.First)
			}
			require.Equal(t, 2*float64(c.counts), r.rejected(c.reason))
			for n, value := range []string{"b", "c", "d"} {
				r.requireSeries(labels.FromStrings("__name__", "m", "a", value), column{startMs: math.Float64bits(float64(n))})
			}
		})
	}
}

// TestV2WrongExemplar: an exemplar with a wrong reference costs neither the samples of its series nor other exemplars.
func TestV2WrongExemplar(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	defer r.close()
	for round := range int64(2) { // new and known
		result, err := r.writeV2(&writev2.Request{
			Symbols: []string{"", "__name__", "m"}, Timeseries: []writev2.TimeSeries{{
				LabelsRefs: []uint32{1, 2}, Samples: []writev2.Sample{{Timestamp: startMs + round, Value: 1}},
				Exemplars: []writev2.Exemplar{
					{LabelsRefs: []uint32{1, 99}, Timestamp: startMs + round}, {LabelsRefs: []uint32{1}, Timestamp: startMs + round},
					{LabelsRefs: []uint32{1, 2}, Timestamp: startMs + round},
				},
			}},
		})
		require.NoError(t, err)
		require.Equal(t, 1, result.Accepted)
		require.Equal(t, 1, result.Exemplars)
		require.Equal(t, map[string]int{ReasonInvalidReference: 2}, result.Reasons)
		require.Contains(t, result.First, "series m{}: invalid_reference: 1 references to labels of an exemplar, which is not")
	}
	one := math.Float64bits(1)
	r.requireSeries(labels.FromStrings("__name__", "m"), column{startMs: one, startMs + 1: one})
}

// TestV2PartialAmongMany rejects a wrong series once, though the series around it are looked up twice.
func TestV2PartialAmongMany(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	defer r.close()
	all := podSeries(300)
	_, err := r.writeV2(toV2(all))
	require.NoError(t, err)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) // so that the cursor is lost
	req := toV2(all)
	bad := req.Timeseries[0]
	bad.LabelsRefs = bad.LabelsRefs[:3]
	for n := 290; n > 0; n -= 10 {
		req.Timeseries = append(req.Timeseries[:n], append([]writev2.TimeSeries{bad}, req.Timeseries[n:]...)...)
	}
	req.Timeseries = append(req.Timeseries, toV2(podSeries(301)[300:]).Timeseries...)
	req.Timeseries[len(req.Timeseries)-1].LabelsRefs = []uint32{1, 2}
	result, err := r.writeV2(req)
	require.NoError(t, err)
	require.Equal(t, 301, result.Accepted)
	require.Equal(t, 29, result.Rejected)
}

// TestV2Broken: nothing of a malformed request is stored.
func TestV2Broken(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), func(o *Options) {
		o.Limits.RequestSymbolsMax, o.Limits.RequestSamplesMax = 10, 5
	})
	defer r.close()
	ctx := context.Background()
	good := toV2([]prompb.TimeSeries{series([]string{"__name__", "m"}, sample(startMs, 1))})
	plain, err := good.Marshal()
	require.NoError(t, err)
	var bad *BadRequestError
	for _, b := range [][]byte{
		nil, {1, 2, 3}, snappy.Encode(nil, plain[:len(plain)-1]), snappy.Encode(nil, append(plain, 0x2a, 0x02, 0x12, 0x05)),
		bodyV2(t, &writev2.Request{Symbols: []string{"__name__", "m"}, Timeseries: good.Timeseries}),
	} {
		_, err := r.Write(ctx, Input{Body: b, Version: V2})
		require.ErrorAs(t, err, &bad)
	}
	_, err = r.writeV2(&writev2.Request{Symbols: make([]string, 11)})
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = r.writeV2(&writev2.Request{Timeseries: make([]writev2.TimeSeries, 6)})
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = r.writeV2(&writev2.Request{Timeseries: []writev2.TimeSeries{{Samples: make([]writev2.Sample, 6)}}})
	require.ErrorIs(t, err, ErrTooLarge)
	require.Zero(t, r.SeriesCount())
	result, err := r.Write(ctx, Input{Body: snappy.Encode(nil, nil), Version: V2})
	require.NoError(t, err)
	require.Equal(t, Result{}, result)
}

// TestV2Metadata: the series of a family describe their family, and their metadata is stored once.
func TestV2Metadata(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	symbols := writev2.NewSymbolTable()
	req := &writev2.Request{}
	add := func(metric string, typ writev2.Metadata_MetricType, help, unit string, samples int) {
		ts := writev2.TimeSeries{
			LabelsRefs: []uint32{symbols.Symbolize("__name__"), symbols.Symbolize(metric)},
			Metadata:   writev2.Metadata{Type: typ, HelpRef: symbols.Symbolize(help), UnitRef: symbols.Symbolize(unit)},
		}
		for n := range samples {
			ts.Samples = append(ts.Samples, writev2.Sample{Timestamp: startMs + int64(n), Value: 1, StartTimestamp: int64(n)})
		}
		req.Timeseries = append(req.Timeseries, ts)
	}
	add("up", writev2.Metadata_METRIC_TYPE_GAUGE, "Whether it is up.", "", 1)
	add("wait_seconds_bucket", writev2.Metadata_METRIC_TYPE_HISTOGRAM, "Waits.", "seconds", 1)
	add("wait_seconds_count", writev2.Metadata_METRIC_TYPE_HISTOGRAM, "Waits.", "seconds", 2)
	add("alone", writev2.Metadata_METRIC_TYPE_COUNTER, "Without samples.", "", 0)
	add("nothing", writev2.Metadata_METRIC_TYPE_UNSPECIFIED, "", "", 1)
	req.Symbols = symbols.Symbols()
	want := map[string][]Metadata{
		"up": {{"gauge", "Whether it is up.", ""}}, "wait_seconds": {{"histogram", "Waits.", "seconds"}},
		"alone": {{"counter", "Without samples.", ""}},
	}
	for n := range 3 {
		result, err := r.writeV2(req)
		require.NoError(t, err)
		result.NewestMs = 0
		require.Equal(t, Result{Accepted: 5}, result)
		require.Equal(t, want, r.Metadata("", 0))
		if n > 0 {
			require.Empty(t, requestMetadata(t, r, req), "known metadata is not written again")
		}
	}
	r = r.reopen(nil)
	require.Equal(t, want, r.Metadata("", 0))
	r.close()
}

// TestV2MetadataOfTargets: two targets describe a metric in two ways, and each keeps its description.
func TestV2MetadataOfTargets(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	defer r.close()
	symbols := writev2.NewSymbolTable()
	req := &writev2.Request{}
	for n := range 6 {
		pairs := []string{"__name__", "up", "instance", fmt.Sprint("i", n%3), "job", "j", "n", fmt.Sprint(n)}
		ts := writev2.TimeSeries{
			Samples: []writev2.Sample{{Timestamp: startMs, Value: 1}},
			Metadata: writev2.Metadata{
				Type: writev2.Metadata_METRIC_TYPE_GAUGE, HelpRef: symbols.Symbolize([]string{"old", "new", "new"}[n%3]),
			},
		}
		for _, text := range pairs {
			ts.LabelsRefs = append(ts.LabelsRefs, symbols.Symbolize(text))
		}
		req.Timeseries = append(req.Timeseries, ts)
	}
	req.Symbols = symbols.Symbols()
	for range 3 { // unknown, then known series
		_, err := r.writeV2(req)
		require.NoError(t, err)
	}
	require.Len(t, r.Metadata("up", 0)["up"], 2)
	require.Empty(t, requestMetadata(t, r, req))
	for instance, help := range map[string]string{"i0": "old", "i1": "new", "i2": "new"} {
		m, known := r.TargetMetadata("up", "j", instance)
		require.True(t, known)
		require.Equal(t, Metadata{"gauge", help, ""}, m, instance)
	}
	other, known := r.TargetMetadata("up", "j", "another")
	require.True(t, known)
	require.Equal(t, r.Metadata("up", 0)["up"][0], other, "the newest")
	_, known = r.TargetMetadata("absent", "j", "i0")
	require.False(t, known)
}

// requestMetadata returns how much metadata of a request would be stored.
func requestMetadata(t *testing.T, r *rig, req *writev2.Request) []string {
	request, err := r.Begin(context.Background(), Input{Body: bodyV2(t, req), Version: V2})
	require.NoError(t, err)
	defer request.Release()
	r.LockSeries()
	defer r.UnlockSeries()
	require.NoError(t, request.Read())
	var metrics []string
	for _, m := range request.metadata {
		metrics = append(metrics, m.Metric)
	}
	return metrics
}
