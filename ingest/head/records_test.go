package head_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest/head"
	"halite/keyschema"
	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
)

// text makes values of all kinds comparable to the bit.
func text(values ...uint64) string { return fmt.Sprint(values) }

// randomHistogram returns a histogram with a few buckets, integer or float.
func randomHistogram(rng *rand.Rand) (s histchunk.Sample) {
	h := &histogram.Histogram{
		Schema: int32(rng.IntN(9)), ZeroThreshold: 1e-9, Sum: randomValue(rng), Count: uint64(rng.IntN(100)),
		CounterResetHint: histogram.CounterResetHint(rng.IntN(4)),
	}
	for n := rng.IntN(3); n > 0; n-- {
		h.PositiveSpans = append(h.PositiveSpans, histogram.Span{Offset: int32(rng.IntN(3)), Length: 2})
		h.PositiveBuckets = append(h.PositiveBuckets, int64(1+rng.IntN(50)), int64(rng.IntN(3)))
	}
	if rng.IntN(2) == 0 {
		return histchunk.Sample{H: h}
	}
	return histchunk.Sample{FH: h.ToFloat(nil)}
}

func histogramText(s histchunk.Sample) string {
	s.TsMs = 0
	return string(histchunk.AppendRecord(nil, s))
}

// kindsModel drives a head with samples of all kinds and an oracle: for each series and kind, a value by time. The
// values of exemplars of one time are in one text.
type kindsModel struct {
	t      *testing.T
	rng    *rand.Rand
	h      *head.Head
	series int
	oracle map[place]map[int64]string
	table  map[place]map[int64]string
	flying [][]head.Row
	saved  []map[place]map[int64]string
	tick   uint64
}

type place struct {
	ref  uint32
	kind keyschema.SampleKind
}

func put(into map[place]map[int64]string, at place, tsMs int64, value string) {
	if into[at] == nil {
		into[at] = map[int64]string{}
	}
	into[at][tsMs] = value
}

func (m *kindsModel) randomMs() int64 {
	at := int64(baseMs + m.rng.IntN(3)*keyschema.HourMs)
	switch m.rng.IntN(3) {
	case 0:
		return at + int64(m.rng.IntN(20))
	case 1:
		return at + keyschema.HourMs - 1 - int64(m.rng.IntN(2))
	}
	return at + int64(m.rng.IntN(240))*15_000
}

// write stores samples of one series and kind.
func (m *kindsModel) write() {
	at := place{uint32(1 + m.rng.IntN(m.series)), keyschema.SampleKind(m.rng.IntN(keyschema.SampleKinds))}
	stripe := m.h.Stripe(at.ref)
	m.tick++
	m.h.SetTick(uint32(m.tick))
	m.h.LockStripe(stripe)
	defer m.h.UnlockStripe(stripe)
	tsMs := m.randomMs()
	var numbers []head.Sample
	var records []head.Record
	for range 1 + m.rng.IntN(40) {
		switch at.kind {
		case keyschema.Histograms:
			s := randomHistogram(m.rng)
			records = append(records, head.Record{Ref: at.ref, TsMs: tsMs, Data: histchunk.AppendRecord(nil, s)})
			put(m.oracle, at, tsMs, histogramText(s))
		case keyschema.Exemplars:
			e := exemplar.Exemplar{Value: float64(m.rng.IntN(3)), Labels: labels.FromStrings("trace_id", "abc")}
			records = append(records, head.Record{Ref: at.ref, TsMs: tsMs, Data: exemplar.AppendRecord(nil, e)})
			m.putExemplar(m.oracle, at, tsMs, e)
		default:
			v := randomValue(m.rng)
			numbers = append(numbers, head.Sample{Ref: at.ref, TsMs: tsMs, Value: v})
			put(m.oracle, at, tsMs, text(math.Float64bits(v)))
		}
		if m.rng.IntN(8) > 0 {
			tsMs += int64(m.rng.IntN(20_000))
		}
	}
	var err error
	switch at.kind {
	case keyschema.Floats, keyschema.StartTimes:
		_, err = m.h.Append(stripe, at.kind, numbers, m.tick, nil)
	default:
		_, err = m.h.StoreRecords(stripe, at.kind, records, m.tick, nil)
	}
	require.NoError(m.t, err)
	require.True(m.t, m.h.HasKind(at.kind))
}

// putExemplar adds an exemplar to the others of its time; equal ones count once.
func (m *kindsModel) putExemplar(into map[place]map[int64]string, at place, tsMs int64, e exemplar.Exemplar) {
	all := []byte(into[at][tsMs])
	value := byte('0' + int(e.Value))
	if !slices.Contains(all, value) {
		all = append(all, value)
		slices.Sort(all)
	}
	put(into, at, tsMs, string(all))
}

// readInto adds the head's samples of a series and kind in [mintMs, maxtMs].
func (m *kindsModel) readInto(into map[place]map[int64]string, at place, mintMs, maxtMs int64) {
	t, h := m.t, m.h
	ascending := func(tsMs []int64, strictly bool) {
		for i, ts := range tsMs {
			require.True(t, mintMs <= ts && ts <= maxtMs)
			require.True(t, i == 0 || tsMs[i-1] < ts || !strictly && tsMs[i-1] == ts)
		}
	}
	switch at.kind {
	case keyschema.Histograms:
		got, err := h.AppendHistograms(at.ref, mintMs, maxtMs, make([]histchunk.Sample, 1))
		require.NoError(t, err)
		var tsMs []int64
		for _, s := range got[1:] {
			put(into, at, s.TsMs, histogramText(s))
			tsMs = append(tsMs, s.TsMs)
		}
		ascending(tsMs, true)
	case keyschema.Exemplars:
		got, err := h.AppendExemplars(at.ref, mintMs, maxtMs, make([]exemplar.Exemplar, 1))
		require.NoError(t, err)
		var tsMs []int64
		for _, e := range got[1:] {
			require.Equal(t, "abc", e.Labels.Get("trace_id"))
			m.putExemplar(into, at, e.TsMs, e)
			tsMs = append(tsMs, e.TsMs)
		}
		ascending(tsMs, false)
	default:
		read := h.AppendSamples
		if at.kind == keyschema.StartTimes {
			read = h.AppendStartTimes
		}
		tsMs, values, err := read(at.ref, mintMs, maxtMs, []int64{-1}, []float64{-1})
		require.NoError(t, err)
		for i, ts := range tsMs[1:] {
			put(into, at, ts, text(math.Float64bits(values[i+1])))
		}
		ascending(tsMs[1:], true)
	}
}

func (m *kindsModel) check(at place, mintMs, maxtMs int64) {
	got := map[place]map[int64]string{}
	for ts, v := range m.table[at] {
		if mintMs <= ts && ts <= maxtMs {
			put(got, at, ts, v)
		}
	}
	inHead := map[place]map[int64]string{}
	m.readInto(inHead, at, mintMs, maxtMs)
	m.merge(got, inHead)
	want := map[int64]string{}
	for ts, v := range m.oracle[at] {
		if mintMs <= ts && ts <= maxtMs {
			want[ts] = v
		}
	}
	if len(want)+len(got[at]) > 0 {
		require.Equal(m.t, want, got[at], "%v", at)
	}
}

// merge adds samples that come later.
func (m *kindsModel) merge(into, later map[place]map[int64]string) {
	for at, values := range later {
		for ts, v := range values {
			if at.kind != keyschema.Exemplars {
				put(into, at, ts, v)
				continue
			}
			for _, c := range []byte(v) {
				m.putExemplar(into, at, ts, exemplar.Exemplar{Value: float64(c - '0')})
			}
		}
	}
}

// freeze takes some rows of each stripe and reads them as a flush does.
func (m *kindsModel) freeze() {
	for stripe := range m.h.Stripes() {
		rows := freeze(m.h, stripe, func(r head.RowInfo) bool { return r.Frozen || m.rng.IntN(3) == 0 })
		if len(rows) == 0 {
			continue
		}
		var d head.Reader
		m.h.CopyRows(&d, rows)
		flushed := map[place]map[int64]string{}
		for from := 0; from < len(rows); {
			to := from + 1
			for to < len(rows) && rows[to].Ref == rows[from].Ref && rows[to].Hour() == rows[from].Hour() &&
				rows[to].Kind() == rows[from].Kind() {
				to++
			}
			m.unpack(&d, from, to, place{rows[from].Ref, rows[from].Kind()}, flushed)
			from = to
		}
		m.flying, m.saved = append(m.flying, rows), append(m.saved, flushed)
	}
}

func (m *kindsModel) unpack(d *head.Reader, from, to int, at place, into map[place]map[int64]string) {
	switch at.kind {
	case keyschema.Histograms:
		samples, err := d.Histograms(from, to)
		require.NoError(m.t, err)
		for _, s := range samples {
			put(into, at, s.TsMs, histogramText(s))
		}
	case keyschema.Exemplars:
		exemplars, err := d.Exemplars(from, to)
		require.NoError(m.t, err)
		for _, e := range exemplars {
			m.putExemplar(into, at, e.TsMs, e)
		}
	default:
		tsMs, values, err := d.Columns(from, to)
		require.NoError(m.t, err)
		for i, ts := range tsMs {
			put(into, at, ts, text(math.Float64bits(values[i])))
		}
	}
}

func (m *kindsModel) finishFlushes() {
	for i, rows := range m.flying {
		if m.rng.IntN(3) == 0 {
			m.h.Thaw(rows)
			continue
		}
		m.merge(m.table, m.saved[i])
		m.h.Free(rows)
	}
	m.flying, m.saved = nil, nil
}

// delete deletes a range of all kinds from some series. The table's part is deleted as a tombstone would.
func (m *kindsModel) delete() {
	m.finishFlushes()
	from := m.randomMs()
	to := from + int64(m.rng.IntN(keyschema.HourMs))
	var refs []uint32
	for ref := uint32(1); ref <= uint32(m.series); ref++ {
		if m.rng.IntN(2) == 0 {
			refs = append(refs, ref)
		}
	}
	_, err := m.h.Delete(refs, from, to, func() error { return nil }, func() {})
	require.NoError(m.t, err)
	for _, all := range []map[place]map[int64]string{m.oracle, m.table} {
		for at, values := range all {
			for ts := range values {
				if from <= ts && ts <= to && slices.Contains(refs, at.ref) {
					delete(values, ts)
				}
			}
		}
	}
}

// TestKindsAgainstMap writes samples of all kinds, freezes, frees, thaws, deletes and reads at random.
func TestKindsAgainstMap(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 77))
			m := &kindsModel{
				t: t, rng: rng, series: 1 + rng.IntN(30), oracle: map[place]map[int64]string{},
				table: map[place]map[int64]string{},
			}
			// Exemplars beyond the limit are tested elsewhere.
			m.h = newHead(t, head.Options{
				Stripes: 1 << rng.IntN(3), RowBytesMax: 500 + rng.IntN(8000), ExemplarsMax: head.ExemplarsUpperBound,
			}, m.series)
			for range 150 {
				switch rng.IntN(12) {
				case 0:
					m.finishFlushes()
					m.freeze()
				case 1:
					m.finishFlushes()
				case 2:
					m.delete()
				case 3:
					from := m.randomMs()
					m.check(place{uint32(1 + rng.IntN(m.series)), keyschema.SampleKind(rng.IntN(keyschema.SampleKinds))},
						from, from+int64(rng.IntN(2*keyschema.HourMs)))
				default:
					m.write()
				}
			}
			for at := range m.oracle {
				m.check(at, 0, math.MaxInt64)
			}
			m.finishAll()
		})
	}
}

// finishAll flushes everything. The accounted memory must be zero.
func (m *kindsModel) finishAll() {
	m.finishFlushes()
	for stripe := range m.h.Stripes() {
		m.h.Free(freeze(m.h, stripe, func(head.RowInfo) bool { return true }))
	}
	require.Zero(m.t, m.h.Bytes())
	require.Zero(m.t, m.h.Rows())
	require.Zero(m.t, m.h.Samples())
	require.Zero(m.t, m.h.Sealed())
	for kind := keyschema.Histograms; kind < keyschema.SampleKinds; kind++ {
		require.False(m.t, m.h.HasKind(kind))
	}
}

func storeRecord(t testing.TB, h *head.Head, kind keyschema.SampleKind, ref uint32, tsMs int64, data []byte) {
	t.Helper()
	stripe := h.Stripe(ref)
	h.LockStripe(stripe)
	defer h.UnlockStripe(stripe)
	_, err := h.StoreRecords(stripe, kind, []head.Record{{Ref: ref, TsMs: tsMs, Data: data}}, 1, nil)
	require.NoError(t, err)
}

// TestExemplarsAreBounded writes far more exemplars than a row keeps: the newest stay, whatever their order.
func TestExemplarsAreBounded(t *testing.T) {
	const most, count = 20, 300
	h := newHead(t, head.Options{Stripes: 1, RowBytesMax: 1 << 16, ExemplarsMax: most}, 1)
	rng := rand.New(rand.NewPCG(3, 3))
	for _, n := range rng.Perm(count) {
		e := exemplar.Exemplar{Value: float64(n), Labels: labels.FromStrings("trace_id", fmt.Sprint(n))}
		storeRecord(t, h, keyschema.Exemplars, 1, baseMs+int64(n), exemplar.AppendRecord(nil, e))
	}
	got, err := h.AppendExemplars(1, 0, math.MaxInt64, nil)
	require.NoError(t, err)
	require.LessOrEqual(t, len(got), most+most/4)
	require.LessOrEqual(t, h.Samples(), most+most/4)
	for i := range most {
		e := got[len(got)-1-i]
		require.Equal(t, exemplar.Exemplar{
			TsMs: baseMs + int64(count-1-i), Value: float64(count - 1 - i), Labels: labels.FromStrings("trace_id", fmt.Sprint(count-1-i)),
		}, e)
	}
}

// TestRepeatedExemplarsCountOnce sends the same exemplar as often as a scraper finds it.
func TestRepeatedExemplarsCountOnce(t *testing.T) {
	h := newHead(t, head.Options{Stripes: 1, RowBytesMax: 1 << 16, ExemplarsMax: 4}, 1)
	first := exemplar.AppendRecord(nil, exemplar.Exemplar{Value: 1, Labels: labels.FromStrings("trace_id", "a")})
	storeRecord(t, h, keyschema.Exemplars, 1, baseMs, first)
	second := exemplar.AppendRecord(nil, exemplar.Exemplar{Value: 2, Labels: labels.FromStrings("trace_id", "b")})
	for range 100 {
		storeRecord(t, h, keyschema.Exemplars, 1, baseMs+5, second)
	}
	got, err := h.AppendExemplars(1, 0, math.MaxInt64, nil)
	require.NoError(t, err)
	require.Len(t, got, 2)
}

// TestHistogramsArePacked checks that a row of histograms takes a fraction of its records' bytes.
func TestHistogramsArePacked(t *testing.T) {
	h := newHead(t, head.Options{Stripes: 1, RowBytesMax: 1 << 18}, 1)
	recordBytes := 0
	sample := &histogram.Histogram{Schema: 3, ZeroThreshold: 1e-128, PositiveSpans: []histogram.Span{{Length: 40}}}
	sample.PositiveBuckets = make([]int64, 40)
	for n := range 240 {
		sample.PositiveBuckets[n%40]++
		sample.PositiveBuckets[(n+1)%40]--
		sample.Count += 10
		data := histchunk.AppendRecord(nil, histchunk.Sample{H: sample})
		recordBytes += len(data)
		storeRecord(t, h, keyschema.Histograms, 1, baseMs+int64(n)*15_000, data)
	}
	require.Less(t, int(h.Bytes()), recordBytes/2)
	got, err := h.AppendHistograms(1, 0, math.MaxInt64, nil)
	require.NoError(t, err)
	require.Len(t, got, 240)
}
