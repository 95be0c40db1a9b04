package ingest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"

	"halite/ingest/deletion"
	"halite/ingest/head"
	"halite/ingest/ingesttest"
	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
	"halite/storage"
	"halite/storage/histmetrics"
	"halite/storage/index"
)

// kindsOf holds the samples of a series of all kinds, as an exact text by kind and time.
type kindsOf map[string]string

func kindKey(kind keyschema.SampleKind, tsMs int64) string { return fmt.Sprintf("%d %s", tsMs, kind) }

func (k kindsOf) number(kind keyschema.SampleKind, tsMs int64, v float64) {
	k[kindKey(kind, tsMs)] = fmt.Sprintf("%x", math.Float64bits(v))
}

func (k kindsOf) histogram(s histchunk.Sample) {
	at := kindKey(keyschema.Histograms, s.TsMs)
	s.TsMs = 0
	k[at] = fmt.Sprintf("%x", histchunk.AppendRecord(nil, s))
}

// exemplar adds an exemplar. Its key has the value as well, because several exemplars may have one time.
func (k kindsOf) exemplar(e exemplar.Exemplar) {
	k[kindKey(keyschema.Exemplars, e.TsMs)+" "+fmt.Sprint(e.Value)] = e.Labels.String()
}

// readKinds reads a series as a query does: first the table, then the head. The head wins.
func (r *rig) readKinds(ls labels.Labels) (kindsOf, error) {
	out := kindsOf{}
	err := r.find(ls, func(ctx context.Context, s index.Series, tags []keyschema.Tag) error {
		return r.readKindsOf(ctx, s, tags, out)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (r *rig) readKindsOf(ctx context.Context, s index.Series, tags []keyschema.Tag, into kindsOf) error {
	data, err := r.store.Table(ctx, storage.TableData)
	if err != nil {
		return err
	}
	inHead := kindsOf{}
	if err := r.readKindsHead(s.Ref, inHead); err != nil {
		return err
	}
	metric := s.Labels.Get(model.MetricNameLabel)
	var set storage.RowSet
	for _, span := range s.Hours {
		for hour := span.First; hour <= span.Last; hour++ {
			prefix := r.schema.RuleAt(metric, hour).AppendPrefix(nil, metric, tags)
			set.Keys = append(set.Keys, keyschema.AppendHour(prefix, hour))
		}
	}
	rows := data.ReadRows(ctx, set, storage.ReadOptions{Filter: storage.Filter{VersionsMax: 1}})
	for rows.Next() {
		if err := r.readCells(rows.Row(), metric, into); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for at, v := range inHead {
		into[at] = v
	}
	return rows.Close()
}

// readCells reads a row of the table. Cells of one family come by ascending number, so the later one wins.
func (r *rig) readCells(row storage.Row, metric string, into kindsOf) error {
	key, err := keyschema.ParseRowKey(row.Key)
	if err != nil {
		return err
	}
	startMs := keyschema.HourStartMs(key.Hour)
	folds := map[string]*chunk.Row{}
	sequence := map[string]uint32{}
	for _, cell := range row.Cells {
		q, err := keyschema.ParseQualifier(cell.Qualifier)
		if err != nil {
			return err
		}
		if q.Seq < sequence[cell.Family] {
			return fmt.Errorf("cells of family %s do not ascend", cell.Family)
		}
		sequence[cell.Family] = q.Seq
		switch cell.Family {
		case storage.FamilyHistograms:
			if !r.Histograms().Has(metric, key.Hour, key.Hour) {
				return fmt.Errorf("metric %s has histograms in hour %d and is not in the set", metric, key.Hour)
			}
			samples, err := new(histchunk.Decoder).Decode(cell.Value, startMs, nil)
			if err != nil {
				return err
			}
			for _, s := range samples {
				into.histogram(s)
			}
		case storage.FamilyExemplars:
			list, err := new(exemplar.Decoder).Decode(cell.Value, startMs, nil)
			if err != nil {
				return err
			}
			for _, e := range list {
				into.exemplar(e)
			}
		default:
			if folds[cell.Family] == nil {
				folds[cell.Family] = new(chunk.Row)
				folds[cell.Family].Reset(startMs)
			}
			if err := folds[cell.Family].Add(cell.Qualifier, cell.Value); err != nil {
				return err
			}
		}
	}
	for family, kind := range map[string]keyschema.SampleKind{
		storage.FamilySamples: keyschema.Floats, storage.FamilyStartTimes: keyschema.StartTimes,
	} {
		if folds[family] == nil {
			continue
		}
		tsMs, values := folds[family].Columns()
		for i := range tsMs {
			into.number(kind, tsMs[i], values[i])
		}
	}
	return nil
}

func (r *rig) readKindsHead(ref index.Ref, into kindsOf) error {
	if ref == 0 {
		return nil
	}
	tsMs, values, err := r.AppendSamples(ref, 0, math.MaxInt64, nil, nil)
	if err != nil {
		return err
	}
	for i := range tsMs {
		into.number(keyschema.Floats, tsMs[i], values[i])
	}
	if tsMs, values, err = r.AppendStartTimes(ref, 0, math.MaxInt64, nil, nil); err != nil {
		return err
	}
	for i := range tsMs {
		into.number(keyschema.StartTimes, tsMs[i], values[i])
	}
	histograms, err := r.AppendHistograms(ref, 0, math.MaxInt64, nil)
	if err != nil {
		return err
	}
	for _, s := range histograms {
		into.histogram(s)
	}
	exemplars, err := r.AppendExemplars(ref, 0, math.MaxInt64, nil)
	for _, e := range exemplars {
		into.exemplar(e)
	}
	return err
}

// kindsModel writes samples of all kinds at random and keeps what must be readable.
type kindsModel struct {
	rng    *rand.Rand
	labels []labels.Labels
	want   []kindsOf
}

func newKindsModel(rng *rand.Rand, series int) *kindsModel {
	m := &kindsModel{rng: rng}
	for n := range series {
		m.labels = append(m.labels, labels.FromStrings("__name__", fmt.Sprint("m", n%3), "x", fmt.Sprint(n)))
		m.want = append(m.want, kindsOf{})
	}
	return m
}

func randomHistogram(rng *rand.Rand) (h *histogram.Histogram, fh *histogram.FloatHistogram) {
	h = &histogram.Histogram{
		Schema: int32(rng.IntN(9)), ZeroThreshold: 1e-9, CounterResetHint: histogram.CounterResetHint(rng.IntN(4)),
	}
	if rng.IntN(10) == 0 {
		h.Schema, h.ZeroThreshold, h.Sum = 0, 0, math.Float64frombits(value.StaleNaN)
		return h, nil
	}
	for n := rng.IntN(3); n > 0; n-- {
		h.PositiveSpans = append(h.PositiveSpans, histogram.Span{Offset: int32(rng.IntN(3)), Length: 2})
		h.PositiveBuckets = append(h.PositiveBuckets, int64(rng.IntN(3)), int64(rng.IntN(3)))
	}
	at := int64(0)
	for _, delta := range h.PositiveBuckets {
		at += delta
		h.Count += uint64(at)
	}
	h.Sum = rng.NormFloat64()
	if rng.IntN(2) == 0 {
		return h, nil
	}
	return nil, h.ToFloat(nil)
}

// samples returns random samples around a time, in order, late and rewritten, and adds them to what is wanted.
func (m *kindsModel) samples(nowMs int64) (list []Sample, histograms, exemplars int) {
	for range 1 + m.rng.IntN(60) {
		n := m.rng.IntN(len(m.labels))
		s := Sample{Labels: m.labels[n]}
		switch m.rng.IntN(4) {
		case 0:
			s.TsMs = nowMs - int64(m.rng.IntN(3*keyschema.HourMs))
		case 1: // bounds of hours
			s.TsMs = nowMs/keyschema.HourMs*keyschema.HourMs - int64(m.rng.IntN(2))
		default:
			s.TsMs = nowMs - int64(m.rng.IntN(20))*1000
		}
		want := m.want[n]
		if m.rng.IntN(2) == 0 {
			s.Value = m.rng.NormFloat64()
			want.number(keyschema.Floats, s.TsMs, s.Value)
		} else {
			s.H, s.FH = randomHistogram(m.rng)
			want.histogram(histchunk.Sample{TsMs: s.TsMs, H: s.H, FH: s.FH})
			histograms++
		}
		if m.rng.IntN(3) == 0 {
			s.StartMs = s.TsMs - int64(m.rng.IntN(keyschema.HourMs))
			want.number(keyschema.StartTimes, s.TsMs, float64(s.StartMs))
		}
		if m.rng.IntN(10) == 0 {
			e := exemplar.Exemplar{
				TsMs: nowMs - int64(m.rng.IntN(3*keyschema.HourMs)), Value: m.rng.Float64(),
				Labels: labels.FromStrings("trace_id", fmt.Sprintf("%x", m.rng.Uint64())),
			}
			s.Exemplars = []exemplar.Exemplar{e}
			want.exemplar(e)
			exemplars++
		}
		list = append(list, s)
	}
	return list, histograms, exemplars
}

func (m *kindsModel) write(t testing.TB, r *rig) {
	t.Helper()
	list, histograms, exemplars := m.samples(r.clock.Now().UnixMilli())
	result, err := r.Ingester.Write(context.Background(), SamplesInput(list))
	require.NoError(t, err)
	result.NewestMs = 0
	require.Equal(t, Result{Accepted: len(list) - histograms, Histograms: histograms, Exemplars: exemplars}, result)
}

func (m *kindsModel) check(t testing.TB, r *rig) {
	t.Helper()
	for n, ls := range m.labels {
		got, err := r.readKinds(ls)
		require.NoError(t, err)
		require.Equal(t, m.want[n], got, "%s", ls)
	}
}

// manyExemplars keeps all exemplars that the model writes.
func manyExemplars(o *Options) { o.Head.ExemplarsMax = 128 }

// TestKindsAreStored writes samples of all kinds at random, also alternating in one series, flushes, cuts the log and
// restarts. Head and table together hold what a map holds.
func TestKindsAreStored(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 5))
			m := newKindsModel(rng, 1+rng.IntN(12))
			r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), manyExemplars)
			for range 40 {
				switch rng.IntN(8) {
				case 0:
					r.clock.Advance(time.Duration(rng.IntN(90)) * time.Minute)
				case 1:
					r.doStep()
				case 2:
					r.flush()
				case 3:
					r = r.reopen(manyExemplars)
				default:
					m.write(t, r)
				}
			}
			m.check(t, r)
			r = r.reopen(manyExemplars)
			m.check(t, r)
			r.close()
		})
	}
}

// TestFineHistogramsAreReduced: PromQL knows no buckets below the width of schema 8.
func TestFineHistogramsAreReduced(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	defer r.close()
	fine := func(schema int32) *histogram.Histogram {
		return &histogram.Histogram{
			Schema: schema, ZeroThreshold: 1e-9, Count: 15, Sum: 3,
			PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}, {Offset: 5, Length: 1}}, PositiveBuckets: []int64{1, 2, 3},
			NegativeSpans: []histogram.Span{{Offset: -3, Length: 2}}, NegativeBuckets: []int64{2, 1},
		}
	}
	ls, want, nowMs := labels.FromStrings("__name__", "fine"), kindsOf{}, r.clock.Now().UnixMilli()
	var list []Sample
	for i, schema := range []int32{9, 20, 52} {
		for k, isFloat := range []bool{false, true} {
			s, reduced := Sample{Labels: ls, TsMs: nowMs + int64(2*i+k)}, fine(schema)
			require.NoError(t, reduced.ReduceResolution(8))
			stored := histchunk.Sample{TsMs: s.TsMs, H: reduced}
			if s.H = fine(schema); isFloat {
				s.H, s.FH = nil, s.H.ToFloat(nil)
				stored.H, stored.FH = nil, reduced.ToFloat(nil)
			}
			list = append(list, s)
			want.histogram(stored)
		}
	}
	_, err := r.Ingester.Write(t.Context(), SamplesInput(list))
	require.NoError(t, err)
	got, err := r.readKinds(ls)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestKindsSurviveKill stops without a close: replay restores exactly what was acknowledged.
func TestKindsSurviveKill(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 6))
			m := newKindsModel(rng, 1+rng.IntN(12))
			fs := vfs.NewCrashableMem()
			c := ingesttest.NewClock()
			r := openRig(t, fs, c, manyExemplars)
			for range 5 {
				for range 4 {
					switch rng.IntN(5) {
					case 0:
						r.doStep()
						c.Advance(time.Duration(rng.IntN(60)) * time.Minute)
					case 1:
						r.flush()
					default:
						m.write(t, r)
					}
				}
				// A power cut keeps only what was synced.
				after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(2) * 50, RNG: rng})
				r.close()
				fs = after
				r = openRig(t, fs, c, manyExemplars)
				m.check(t, r)
			}
			r.close()
		})
	}
}

// TestKindsAreDeleted deletes samples of all kinds at random, and cleans: readers never see a deleted one.
func TestKindsAreDeleted(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			m := newKindsModel(rng, 1+rng.IntN(8))
			r, err := deletionRig(t, vfs.NewMem(), ingesttest.NewClock(), manyExemplars)
			require.NoError(t, err)
			for range 40 {
				switch rng.IntN(8) {
				case 0:
					r.flush()
				case 1:
					m.delete(t, r)
					m.check(t, r)
				case 2:
					_, err := r.CleanTombstones(ctx)
					require.NoError(t, err)
					m.check(t, r)
				case 3:
					r.clock.Advance(time.Duration(rng.IntN(60)) * time.Minute)
				default:
					m.write(t, r)
				}
			}
			m.check(t, r)
			r.close()
		})
	}
}

// delete deletes a range of some series, with all their kinds.
func (m *kindsModel) delete(t testing.TB, r *rig) {
	t.Helper()
	n := m.rng.IntN(len(m.labels))
	nowMs := r.clock.Now().UnixMilli()
	from := nowMs - int64(m.rng.IntN(4*keyschema.HourMs))
	to := from + int64(m.rng.IntN(2*keyschema.HourMs))
	m.checkCount(t, r, n, from, to)
	r.delete(from, to, match(t, "__name__", "=", m.labels[n].Get("__name__"), "x", "=", m.labels[n].Get("x")))
	for at := range m.want[n] {
		var tsMs int64
		_, err := fmt.Sscanf(at, "%d", &tsMs)
		require.NoError(t, err)
		if from <= tsMs && tsMs <= to {
			delete(m.want[n], at)
		}
	}
}

// checkCount counts what a deletion would delete of a series: the times with a float or a histogram.
func (m *kindsModel) checkCount(t testing.TB, r *rig, n int, fromMs, toMs int64) {
	t.Helper()
	times := map[int64]bool{}
	for at := range m.want[n] {
		var tsMs int64
		var kind string
		_, err := fmt.Sscanf(at, "%d %s", &tsMs, &kind)
		require.NoError(t, err)
		if fromMs <= tsMs && tsMs <= toMs && (kind == keyschema.Floats.String() || kind == keyschema.Histograms.String()) {
			times[tsMs] = true
		}
	}
	count, err := r.CountDeletion(context.Background(), deletion.Request{
		Selectors: [][]*labels.Matcher{match(t, "__name__", "=", m.labels[n].Get("__name__"), "x", "=", m.labels[n].Get("x"))},
		FromMs:    fromMs, ToMs: toMs,
	})
	require.NoError(t, err)
	require.EqualValues(t, len(times), count.Samples)
}

// TestSetIsStoredBeforeHistograms flushes without a checkpoint. A reader that then opens the tables finds the metric.
func TestSetIsStoredBeforeHistograms(t *testing.T) {
	ctx := context.Background()
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	result, err := r.Ingester.Write(ctx, SamplesInput([]Sample{
		{Labels: labels.FromStrings("__name__", "m"), TsMs: startMs, H: &histogram.Histogram{}},
		{Labels: labels.FromStrings("__name__", "n"), TsMs: startMs, Value: 1},
	}))
	require.NoError(t, err)
	result.NewestMs = 0
	require.Equal(t, Result{Accepted: 1, Histograms: 1}, result)
	r.flusher.Lock()
	rows, err := r.flusher.FlushRows(ctx, func(head.RowInfo) bool { return true })
	r.flusher.Unlock()
	require.NoError(t, err)
	require.Equal(t, 2, rows)
	set, err := histmetrics.Open(ctx, r.meta)
	require.NoError(t, err)
	hour := keyschema.HourOf(startMs)
	require.True(t, set.Has("m", hour, hour))
	require.False(t, set.Has("n", hour, hour))
	r.close()
}

// TestHistogramsBeforeTheirRetention refuses histograms older than their own age. Floats and exemplars of that time are stored.
func TestHistogramsBeforeTheirRetention(t *testing.T) {
	two := 2 * keyschema.AgeMin
	schema, err := keyschema.NewSchema([]keyschema.Rule{
		{Pattern: "short", Retention: &keyschema.RuleRetention{Histograms: &two}},
	})
	require.NoError(t, err)
	ages, err := schema.Retention(keyschema.RetentionByTier{9 * keyschema.AgeMin, 0, 0, 4 * keyschema.AgeMin})
	require.NoError(t, err)
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), func(o *Options) {
		o.Retention = ages.Tier(keyschema.Raw)
	})
	for metric, days := range map[string]int64{"short": 2, "other": 4} {
		ls, first := labels.FromStrings(model.MetricNameLabel, metric), startMs-days*24*keyschema.HourMs
		for range 2 { // a new series, then a known one
			res, err := r.Write(context.Background(), SamplesInput([]Sample{
				{Labels: ls, TsMs: first - 1, H: &histogram.Histogram{Sum: 1}},
				{Labels: ls, TsMs: first, H: &histogram.Histogram{Sum: 2}},
				{Labels: ls, TsMs: first - 1, Value: 3, Exemplars: []exemplar.Exemplar{{TsMs: first - 1, Value: 4}}},
			}))
			require.NoError(t, err)
			require.Equal(t, map[string]int{ReasonBeforeRetention: 1}, res.Reasons)
			require.Contains(t, res.First, "before the retention of native histograms")
			require.Equal(t, []int{1, 1, 1}, []int{res.Accepted, res.Histograms, res.Exemplars})
		}
	}
	r.close()
}

// TestMaintenanceRemovesExpiredHistogramMetrics removes a metric from the set of metrics with histograms once all its hours are
// older than every age.
func TestMaintenanceRemovesExpiredHistogramMetrics(t *testing.T) {
	c := ingesttest.NewClock()
	tweak := func(o *Options) { o.Retention = keyschema.KeepFor(48 * time.Hour) }
	r := openRig(t, vfs.NewMem(), c, tweak)
	write := func(metric string) {
		_, err := r.Write(context.Background(), SamplesInput([]Sample{
			{Labels: labels.FromStrings(model.MetricNameLabel, metric), TsMs: c.Ms.Load(), H: &histogram.Histogram{Sum: 1}},
		}))
		require.NoError(t, err)
	}
	write("old")
	r.flush()
	c.Advance(47 * time.Hour)
	write("young")
	r.flush()
	require.NoError(t, r.maintain(context.Background()))
	require.Equal(t, 2, r.Histograms().Len())
	c.Advance(50 * time.Hour) // the age, a day, and the rest of the day that is stored
	require.NoError(t, r.maintain(context.Background()))
	require.Equal(t, 1, r.Histograms().Len())
	r = r.reopen(tweak)
	require.Equal(t, 1, r.Histograms().Len())
	r.close()
}
