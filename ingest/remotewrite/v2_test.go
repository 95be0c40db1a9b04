package remotewrite_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"halite/ingest/remotewrite"
)

var boundsV2 = remotewrite.BoundsV2{SymbolsMax: 1 << 20, SeriesMax: 1 << 20}

func hash(symbol []byte) remotewrite.Key { return xxh3.Hash128Seed(symbol, 7) }

// richV2 is a request with everything that a sender may put in.
func richV2() *writev2.Request {
	symbols := writev2.NewSymbolTable()
	refs := func(texts ...string) (refs []uint32) {
		for _, text := range texts {
			refs = append(refs, symbols.Symbolize(text))
		}
		return refs
	}
	req := &writev2.Request{}
	for n := range 200 {
		req.Timeseries = append(req.Timeseries, writev2.TimeSeries{
			LabelsRefs: refs("__name__", "http_requests_total", "instance", string(rune('a'+n%26))+":9100", "path", string(rune('0'+n))),
			Samples:    []writev2.Sample{{Timestamp: 1_700_000_000_000 + int64(n), Value: float64(n) * 1.5}},
			Metadata: writev2.Metadata{
				Type: writev2.Metadata_METRIC_TYPE_COUNTER, HelpRef: refs("Requests.")[0], UnitRef: refs("1")[0],
			},
		})
	}
	req.Timeseries = append(req.Timeseries,
		writev2.TimeSeries{
			LabelsRefs: refs("__name__", "started"),
			Samples: []writev2.Sample{
				{Timestamp: 1_700_000_000_000, Value: 3, StartTimestamp: 1_699_999_999_000}, {Timestamp: -5, Value: math.Inf(-1)},
			},
			Exemplars: []writev2.Exemplar{
				{LabelsRefs: refs("trace_id", "abc", "span_id", "s"), Value: 1, Timestamp: 7}, {Value: 2, Timestamp: 8},
			},
		},
		writev2.TimeSeries{
			LabelsRefs: refs("__name__", "native"),
			Histograms: []writev2.Histogram{
				writev2.FromIntHistogram(5, 9, tsdbutil.GenerateTestHistogram(3)),
				writev2.FromFloatHistogram(0, 10, tsdbutil.GenerateTestFloatHistogram(4)),
				writev2.FromIntHistogram(5, 11, tsdbutil.GenerateTestCustomBucketsHistogram(5)),
				writev2.FromFloatHistogram(5, 12, tsdbutil.GenerateTestGaugeFloatHistogram(6)),
			},
		},
		writev2.TimeSeries{},
		writev2.TimeSeries{LabelsRefs: []uint32{0, 1, 2}},
		writev2.TimeSeries{LabelsRefs: []uint32{0, 100_000}},
		writev2.TimeSeries{Metadata: writev2.Metadata{UnitRef: 100_000}},
		writev2.TimeSeries{Exemplars: []writev2.Exemplar{{LabelsRefs: []uint32{1}}}},
	)
	req.Symbols = symbols.Symbols()
	return req
}

func marshalV2(t testing.TB, req *writev2.Request) []byte {
	b, err := req.Marshal()
	require.NoError(t, err)
	return b
}

// wrongRefs reports whether references are odd or outside the symbols.
func wrongRefs(refs []uint32, symbols []string) bool {
	for _, ref := range refs {
		if int(ref) >= len(symbols) {
			return true
		}
	}
	return len(refs)%2 != 0
}

// faulty reports whether a reference of a series is wrong.
func faulty(ts *writev2.TimeSeries, symbols []string) bool {
	m := ts.Metadata
	return wrongRefs(ts.LabelsRefs, symbols) || m.HelpRef != 0 && int(m.HelpRef) >= len(symbols) ||
		m.UnitRef != 0 && int(m.UnitRef) >= len(symbols)
}

// requireSameHistogram compares bit for bit: the generated types write both in the same way.
func requireSameHistogram(t *testing.T, want writev2.Histogram, got remotewrite.Histogram) {
	t.Helper()
	require.Equal(t, want.Timestamp, got.TsMs)
	require.Equal(t, want.StartTimestamp, got.StartMs)
	require.Equal(t, want.IsFloatHistogram(), got.FH != nil)
	require.NotEqual(t, got.H == nil, got.FH == nil)
	var theirs, ours writev2.Histogram
	if got.FH != nil {
		theirs, ours = writev2.FromFloatHistogram(0, 0, want.ToFloatHistogram()), writev2.FromFloatHistogram(0, 0, got.FH)
	} else {
		theirs, ours = writev2.FromIntHistogram(0, 0, want.ToIntHistogram()), writev2.FromIntHistogram(0, 0, got.H)
	}
	a, err := theirs.Marshal()
	require.NoError(t, err)
	b, err := ours.Marshal()
	require.NoError(t, err)
	require.Equal(t, a, b)
}

// requireSeriesV2 compares a series with what the generated decoder found.
func requireSeriesV2(t *testing.T, want *writev2.TimeSeries, symbols []string, s remotewrite.Series) {
	t.Helper()
	require.Equal(t, faulty(want, symbols), s.Fault != nil, "%v: %v", want, s.Fault)
	require.Equal(t, append([]uint32{}, want.LabelsRefs...), append([]uint32{}, s.Refs...))
	require.Equal(t, remotewrite.MetadataRefs{
		Type: int32(want.Metadata.Type), HelpRef: want.Metadata.HelpRef, UnitRef: want.Metadata.UnitRef,
	}, s.Metadata)
	require.Len(t, s.Samples, len(want.Samples))
	for n, sample := range want.Samples {
		require.Equal(t, sample.Timestamp, s.Samples[n].TsMs)
		require.Equal(t, sample.StartTimestamp, s.Samples[n].StartMs)
		require.Equal(t, math.Float64bits(sample.Value), math.Float64bits(s.Samples[n].Value))
	}
	require.Len(t, s.Histograms, len(want.Histograms))
	for n := range want.Histograms {
		requireSameHistogram(t, want.Histograms[n], s.Histograms[n])
	}
	if s.Fault != nil {
		return
	}
	valid := slices.DeleteFunc(slices.Clone(want.Exemplars), func(e writev2.Exemplar) bool {
		return wrongRefs(e.LabelsRefs, symbols)
	})
	require.Equal(t, len(want.Exemplars)-len(valid), s.ExemplarFaults)
	require.Equal(t, s.ExemplarFaults > 0, s.ExemplarFault != nil)
	require.Len(t, s.Exemplars, len(valid))
	builder := labels.NewScratchBuilder(0)
	for n, e := range valid {
		theirs, err := e.ToExemplar(&builder, symbols)
		require.NoError(t, err)
		require.Equal(t, theirs.Ts, s.Exemplars[n].TsMs)
		require.Equal(t, math.Float64bits(theirs.Value), math.Float64bits(s.Exemplars[n].Value))
		if len(theirs.Labels.String()) < 4096 { // longer ones are cut off
			require.True(t, labels.Equal(theirs.Labels, s.Exemplars[n].Labels))
		}
	}
}

// requireFast compares FastSeries with Series.
func requireFast(t *testing.T, w *remotewrite.WalkerV2, s remotewrite.Series) {
	t.Helper()
	key, sample, metadata, ok := w.FastSeries()
	if !ok {
		return
	}
	require.NoError(t, s.Fault)
	require.Equal(t, w.Key(s.Refs), key)
	require.Equal(t, s.Metadata, metadata)
	require.Len(t, s.Samples, 1)
	require.Empty(t, s.Histograms)
	require.Empty(t, s.Exemplars)
	require.Equal(t, s.Samples[0].TsMs, sample.TsMs)
	require.Zero(t, s.Samples[0].StartMs)
	require.Equal(t, math.Float64bits(s.Samples[0].Value), math.Float64bits(sample.Value))
	_, metric := w.FastValueRef(0, "__name__")
	require.Equal(t, w.ValueRef(s.Refs, "__name__"), metric)
}

// compareV2 compares the walker with the generated decoder. It returns the walker's error.
func compareV2(t *testing.T, body []byte) error {
	t.Helper()
	var want writev2.Request
	wantErr := want.Unmarshal(body)
	var w remotewrite.WalkerV2
	err := w.Reset(body, boundsV2)
	if err == nil {
		w.HashSymbols(hash)
		for n := 0; w.Next() && err == nil; n++ {
			var s remotewrite.Series
			if s, err = w.Series(); err == nil {
				if wantErr == nil {
					requireSeriesV2(t, &want.Timeseries[n], want.Symbols, s)
				}
				requireFast(t, &w, s)
			}
		}
	}
	if wantErr == nil && len(want.Symbols) > 0 && want.Symbols[0] != "" {
		require.Error(t, err)
		return err
	}
	require.Equal(t, wantErr == nil, err == nil, "generated decoder: %v, walker: %v", wantErr, err)
	if err != nil {
		var format *remotewrite.FormatError
		require.ErrorAs(t, err, &format)
		return err
	}
	require.Equal(t, len(want.Symbols), w.Symbols())
	for n, symbol := range want.Symbols {
		require.Equal(t, symbol, string(w.Symbol(uint32(n))))
	}
	return nil
}

func TestV2EqualsGeneratedDecoder(t *testing.T) {
	require.NoError(t, compareV2(t, marshalV2(t, richV2())))
	require.NoError(t, compareV2(t, nil))
}

func TestV2EveryTruncation(t *testing.T) {
	req := richV2()
	req.Timeseries = req.Timeseries[len(req.Timeseries)-8:]
	body := marshalV2(t, req)
	for n := range len(body) {
		_ = compareV2(t, body[:n:n])
	}
}

// TestV2FieldOrder puts symbols after series, references outside of a packed list, and unknown fields in between.
func TestV2FieldOrder(t *testing.T) {
	req := richV2()
	symbols, series := &writev2.Request{Symbols: req.Symbols}, &writev2.Request{Timeseries: req.Timeseries}
	first, last := marshalV2(t, symbols), marshalV2(t, series)
	require.NoError(t, compareV2(t, append(bytes.Clone(last), first...)))
	unknown := []byte{0x78, 0x01} // field 15
	body := append(append(bytes.Clone(last), unknown...), first...)
	// Sample, one reference, unknown field, metadata, the other references.
	message := []byte{0x12, 0x02, 0x10, 0x05, 0x08, 0x01, 0x78, 0x01, 0x2a, 0x02, 0x08, 0x01, 0x08, 0x02, 0x0a, 0x02, 0x03, 0x04}
	body = append(binary.AppendUvarint(append(body, 0x2a), uint64(len(message))), message...)
	require.NoError(t, compareV2(t, body))
	var w remotewrite.WalkerV2
	require.NoError(t, w.Reset(body, boundsV2))
	var s remotewrite.Series
	for w.Next() {
		var err error
		s, err = w.Series()
		require.NoError(t, err)
	}
	require.Equal(t, []uint32{1, 2, 3, 4}, s.Refs)
}

func TestV2FirstSymbolMustBeEmpty(t *testing.T) {
	body := marshalV2(t, &writev2.Request{Symbols: []string{"__name__", "m"}})
	require.ErrorContains(t, compareV2(t, body), "malformed protobuf at byte 2: the first symbol is not empty")
}

func TestV2Bounds(t *testing.T) {
	body := marshalV2(t, richV2())
	var w remotewrite.WalkerV2
	require.ErrorIs(t, w.Reset(body, remotewrite.BoundsV2{SymbolsMax: 10, SeriesMax: 1000}), remotewrite.ErrTooLarge)
	require.ErrorIs(t, w.Reset(body, remotewrite.BoundsV2{SymbolsMax: 1000, SeriesMax: 10}), remotewrite.ErrTooLarge)
	require.NoError(t, w.Reset(body, remotewrite.BoundsV2{SymbolsMax: 1000, SeriesMax: 207}))
}

// TestV2KeysDiffer checks that labels with the same symbols in other places have other keys.
func TestV2KeysDiffer(t *testing.T) {
	symbols := writev2.NewSymbolTable()
	for _, s := range []string{"a", "b", "c", "d", "e"} {
		symbols.Symbolize(s)
	}
	var w remotewrite.WalkerV2
	require.NoError(t, w.Reset(marshalV2(t, &writev2.Request{Symbols: symbols.Symbols()}), boundsV2))
	w.HashSymbols(hash)
	keys := map[remotewrite.Key][]uint32{}
	for n := range uint32(6 * 6 * 6 * 6) {
		refs := []uint32{n % 6, n / 6 % 6, n / 36 % 6, n / 216}
		if refs[0] > refs[2] || refs[0] == refs[2] && refs[1] > refs[3] {
			continue // the same labels in another order
		}
		key := w.Key(refs)
		require.NotContains(t, keys, key, refs)
		keys[key] = refs
	}
}

func TestV2MetadataFamily(t *testing.T) {
	for _, c := range []struct {
		typ            writev2.Metadata_MetricType
		metric, family string
		name           string
	}{
		{writev2.Metadata_METRIC_TYPE_HISTOGRAM, "a_seconds_bucket", "a_seconds", "histogram"},
		{writev2.Metadata_METRIC_TYPE_HISTOGRAM, "a_seconds", "a_seconds", "histogram"},
		{writev2.Metadata_METRIC_TYPE_GAUGEHISTOGRAM, "a_gsum", "a", "gaugehistogram"},
		{writev2.Metadata_METRIC_TYPE_SUMMARY, "a_count", "a", "summary"},
		{writev2.Metadata_METRIC_TYPE_SUMMARY, "a_bucket", "a_bucket", "summary"},
		{writev2.Metadata_METRIC_TYPE_COUNTER, "a_sum", "a_sum", "counter"},
		{writev2.Metadata_METRIC_TYPE_STATESET, "_sum", "_sum", "stateset"},
		{99, "a", "a", "unknown"},
	} {
		m := remotewrite.MetadataRefs{Type: int32(c.typ)}
		require.Equal(t, c.family, string(m.Family([]byte(c.metric))))
		require.Equal(t, c.name, m.TypeName())
	}
}

// TestV1HistogramsAndExemplars compares histograms and exemplars of 1.0 with the generated decoder.
func TestV1HistogramsAndExemplars(t *testing.T) {
	h, fh := tsdbutil.GenerateTestHistogram(3), tsdbutil.GenerateTestFloatHistogram(4)
	req := &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{{
		Histograms: []prompb.Histogram{prompb.FromIntHistogram(5, h), prompb.FromFloatHistogram(6, fh)},
		Exemplars: []prompb.Exemplar{{
			Labels: []prompb.Label{{Name: "trace_id", Value: "abc"}, {Name: "a", Value: "b"}}, Value: 1.5, Timestamp: 7,
		}},
	}}}
	var w remotewrite.Walker
	w.Reset(marshal(t, req))
	require.Equal(t, remotewrite.TimeSeries, w.Next())
	s, err := w.Series()
	require.NoError(t, err)
	require.Len(t, s.Histograms, 2)
	require.Equal(t, int64(5), s.Histograms[0].TsMs)
	require.True(t, h.Equals(s.Histograms[0].H))
	require.True(t, fh.Equals(s.Histograms[1].FH))
	require.Equal(t, histogram.UnknownCounterReset, s.Histograms[0].H.CounterResetHint)
	require.Equal(t, []remotewrite.Exemplar{
		{TsMs: 7, Value: 1.5, Labels: labels.FromStrings("a", "b", "trace_id", "abc")},
	}, s.Exemplars)
}

// TestLongExemplars: an exemplar costs little memory, however long its labels are and however often it refers to them. Enough is
// left of it for the writer to reject it.
func TestLongExemplars(t *testing.T) {
	const longest = 3 * 4096
	long := strings.Repeat("x", 1<<24)
	var w remotewrite.Walker
	w.Reset(marshal(t, &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{{
		Exemplars: []prompb.Exemplar{{Labels: []prompb.Label{{Name: "trace_id", Value: long}}}},
	}}}))
	require.Equal(t, remotewrite.TimeSeries, w.Next())
	s, err := w.Series()
	require.NoError(t, err)
	require.InDelta(t, longest, len(s.Exemplars[0].Labels.String()), longest-512)

	refs := make([]uint32, 20_000)
	for i := range refs {
		refs[i] = 1
	}
	var v2 remotewrite.WalkerV2
	require.NoError(t, v2.Reset(marshalV2(t, &writev2.Request{
		Symbols:    []string{"", long[:5000]},
		Timeseries: []writev2.TimeSeries{{Exemplars: []writev2.Exemplar{{LabelsRefs: refs}}}},
	}), boundsV2))
	v2.HashSymbols(hash)
	require.True(t, v2.Next())
	got, err := v2.Series()
	require.NoError(t, err)
	require.InDelta(t, longest, len(got.Exemplars[0].Labels.String()), longest-512)
}

func TestV2DoesNotAllocate(t *testing.T) {
	req := richV2()
	req.Timeseries = req.Timeseries[:202] // up to the histograms; exemplars allocate
	req.Timeseries[200].Exemplars = nil
	body := marshalV2(t, req)
	var w remotewrite.WalkerV2
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if w.Reset(body, boundsV2) != nil {
			t.Fatal("not read")
		}
		w.HashSymbols(hash)
		for w.Next() {
			if _, _, _, ok := w.FastSeries(); ok {
				continue
			}
			if _, err := w.Series(); err != nil {
				t.Fatal(err)
			}
		}
	}))
}

func FuzzV2EqualsGeneratedDecoder(f *testing.F) {
	req := richV2()
	for _, n := range []int{0, 200, 201, 203} {
		f.Add(marshalV2(f, &writev2.Request{Symbols: req.Symbols[:12], Timeseries: req.Timeseries[n : n+2]}))
	}
	f.Add([]byte{0x22, 0x00, 0x22, 0x01, 'a', 0x2a, 0x04, 0x0a, 0x02, 0x01, 0x81})
	f.Fuzz(func(t *testing.T, body []byte) { _ = compareV2(t, body) })
}

// FuzzV1Histogram compares a histogram of 1.0 with the generated decoder.
func FuzzV1Histogram(f *testing.F) {
	h := prompb.FromIntHistogram(5, tsdbutil.GenerateTestHistogram(3))
	seed, err := h.Marshal()
	require.NoError(f, err)
	f.Add(seed)
	f.Fuzz(func(t *testing.T, message []byte) {
		series := append(binary.AppendUvarint([]byte{0x22}, uint64(len(message))), message...)
		body := append(binary.AppendUvarint([]byte{0x0a}, uint64(len(series))), series...)
		var want prompb.Histogram
		wantErr := want.Unmarshal(message)
		var w remotewrite.Walker
		w.Reset(body)
		require.Equal(t, remotewrite.TimeSeries, w.Next())
		s, err := w.Series()
		require.Equal(t, wantErr == nil, err == nil, "generated decoder: %v, walker: %v", wantErr, err)
		if err != nil {
			var format *remotewrite.FormatError
			require.True(t, errors.As(err, &format))
			return
		}
		got := s.Histograms[0]
		require.Equal(t, want.Timestamp, got.TsMs)
		if got.FH != nil {
			require.True(t, want.IsFloatHistogram())
			requireFloat(t, want.ToFloatHistogram(), got.FH)
			return
		}
		a, b := writev2.FromIntHistogram(0, 0, want.ToIntHistogram()), writev2.FromIntHistogram(0, 0, got.H)
		require.Equal(t, a.String(), b.String())
	})
}

func requireFloat(t *testing.T, want, got *histogram.FloatHistogram) {
	a, b := writev2.FromFloatHistogram(0, 0, want), writev2.FromFloatHistogram(0, 0, got)
	ours, err := a.Marshal()
	require.NoError(t, err)
	theirs, err := b.Marshal()
	require.NoError(t, err)
	require.Equal(t, ours, theirs)
}
