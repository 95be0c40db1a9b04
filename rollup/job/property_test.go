package job

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/store"
	"halite/storage/storagetest/seeds"
)

// windowsPerSeed and the default number of seeds make 6,000 windows.
const windowsPerSeed = 400

// TestStatesEqualSamples writes, rewrites and deletes samples and computes states at random. Prometheus's engine evaluates
// random functions over random windows of the samples. The test evaluates the same windows from states, and from samples
// where there are no states. Both must give the same values.
func TestStatesEqualSamples(t *testing.T) {
	first, count := seeds.Range(t, seeds.Default{Full: 15, Short: 3})
	used, windows := 0, 0
	for seed := first; seed < first+count; seed++ {
		w := &world{T: t, rng: rand.New(rand.NewPCG(seed, 21)), seed: seed}
		w.run()
		used, windows = used+w.used, windows+w.windows
		if t.Failed() {
			t.Fatalf("reproduce: HALITE_SEED=%d HALITE_SEEDS=1 go test -run %s ./rollup/job", seed, t.Name())
		}
	}
	t.Logf("%d windows, %d states used", windows, used)
	require.Greater(t, used, windows*4, "the windows use states")
}

// world is one seed.
type world struct {
	*testing.T
	rng           *rand.Rand
	seed          uint64
	rig           *rig
	all           []*series
	kinds         []int
	intervals     []int64
	engine        *promql.Engine
	used, windows int
}

func (w *world) run() {
	days := int64(4 + w.rng.IntN(30))
	w.engine = promql.NewEngine(promql.EngineOpts{
		MaxSamples: 10_000_000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{EnableExperimentalFunctions: true}),
	})
	w.rig = openRig(w, vfs.NewMem(), newClock(firstDay), nil)
	defer w.rig.close(w)
	for n := range 3 {
		w.all = append(w.all, newSeries(n))
		w.kinds = append(w.kinds, w.rng.IntN(12))
		w.intervals = append(w.intervals, []int64{60_000, 300_000, 900_000, 7_000_000}[w.rng.IntN(4)])
	}
	sortSeries(w.all)
	for day := int64(firstDay); day < firstDay+days; {
		more := min(1+w.rng.Int64N(8), firstDay+days-day)
		w.fill(day, day+more)
		day += more
		w.rig.clock.Store(day*dayMs + w.rng.Int64N(dayMs))
		for range w.rng.IntN(4) {
			w.change(firstDay, day)
			if w.rng.IntN(2) == 0 {
				_, err := w.rig.Step(context.Background())
				require.NoError(w, err)
			}
		}
		switch w.rng.IntN(6) {
		case 0:
			w.rig.close(w)
			w.rig = openRig(w, w.rig.fs, w.rig.clock, nil)
		case 1, 2, 3:
			w.rig.work(w)
		}
		w.compareWindows(firstDay*dayMs, day*dayMs, windowsPerSeed/10)
	}
	w.rig.work(w)
	w.compareWindows(firstDay*dayMs, (firstDay+days)*dayMs, windowsPerSeed-w.windows)
}

// fill writes whole days.
func (w *world) fill(from, to int64) {
	for i, s := range w.all {
		if w.rng.IntN(8) == 0 {
			continue // the series pauses
		}
		w.rig.write(w, w.rng, s, generate(w.rng, w.kinds[i], from*dayMs, to*dayMs, w.intervals[i]))
	}
}

// change writes late samples, rewrites samples or deletes some.
func (w *world) change(fromDay, toDay int64) {
	i := w.rng.IntN(len(w.all))
	s := w.all[i]
	fromMs := (fromDay + w.rng.Int64N(toDay-fromDay)) * dayMs
	fromMs += w.rng.Int64N(dayMs)
	switch w.rng.IntN(3) {
	case 0:
		w.rig.write(w, w.rng, s, generate(w.rng, w.rng.IntN(12), fromMs, fromMs+1+w.rng.Int64N(4*keyschema.HourMs), 50_000))
	case 1:
		tsMs, _ := s.columns(fromMs, fromMs+2*keyschema.HourMs)
		changed := map[int64]float64{}
		for _, ts := range tsMs {
			if w.rng.IntN(3) == 0 {
				changed[ts] = math.Floor(100 * w.rng.NormFloat64())
			}
		}
		if len(changed) > 0 {
			w.rig.write(w, w.rng, s, changed)
		}
	case 2:
		hour := keyschema.HourOf(fromMs)
		w.rig.remove(w, s, hour, hour+w.rng.Int64N(30))
	}
}

// compareWindows compares the values of random windows.
func (w *world) compareWindows(fromMs, toMs int64, count int) {
	columns := make([][]int64, len(w.all))
	values := make([][]float64, len(w.all))
	for i, s := range w.all {
		columns[i], values[i] = s.columns(0, math.MaxInt64)
	}
	for range count {
		i := w.rng.IntN(len(w.all))
		f := rollup.Func(w.rng.IntN(17))
		endMs := fromMs + w.rng.Int64N(toMs-fromMs+dayMs)
		lengthMs := 1000 * (1 + w.rng.Int64N((toMs-fromMs)/1000+7200))
		switch w.rng.IntN(4) {
		case 0:
			endMs -= endMs % keyschema.HourMs
			lengthMs = max(keyschema.HourMs, lengthMs-lengthMs%keyschema.HourMs)
		case 1:
			lengthMs = min(lengthMs, 1000*(1+w.rng.Int64N(50*3600)))
		}
		if n := len(columns[i]); n > 0 && w.rng.IntN(8) == 0 {
			endMs = columns[i][w.rng.IntN(n)]
		}
		w.windows++
		w.compare(f, w.all[i], columns[i], values[i], endMs-lengthMs, endMs)
		if w.Failed() {
			return
		}
	}
}

// compare evaluates one window from states and from samples.
func (w *world) compare(f rollup.Func, s *series, tsMs []int64, values []float64, startMs, endMs int64) {
	want, wantHas := w.reference(f, tsMs, values, startMs, endMs)
	state := w.window(f, s, tsMs, values, startMs, endMs)
	got, has, exact := f.Eval(&state, startMs, endMs)
	if !exact {
		return // a query would use the samples
	}
	relative, absolute := 0.0, 0.0
	lo, hi := between(tsMs, startMs, endMs)
	switch f {
	case rollup.SumOverTime, rollup.AvgOverTime:
		relative = 1e-12
		for _, v := range values[lo:hi] {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				absolute += math.Abs(v) * 1e-18
			}
		}
	case rollup.Rate, rollup.Increase:
		relative = 1e-12
	case rollup.StddevOverTime, rollup.StdvarOverTime:
		relative = 2e-12
		for _, v := range values[lo:hi] {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				absolute = max(absolute, v*v*1e-18)
			}
		}
	}
	if has != wantHas || has && !near(want, got, relative, absolute) {
		w.Errorf("seed %d: %s over (%d, %d] of %s: want %v %v, got %v %v, state %+v", w.seed, f, startMs, endMs, s.prefix,
			want, wantHas, got, has, state)
	}
}

func between(tsMs []int64, startMs, endMs int64) (lo, hi int) {
	lo, _ = slices.BinarySearch(tsMs, startMs+1)
	hi, _ = slices.BinarySearch(tsMs, endMs+1)
	return lo, hi
}

// window joins the state of a window from whole days, else from whole hours, else from samples.
func (w *world) window(f rollup.Func, s *series, tsMs []int64, values []float64, startMs, endMs int64) rollup.State {
	fields := f.Fields()
	if w.rng.IntN(4) == 0 {
		fields = rollup.FieldsAll
	}
	var hours, days rollup.Columns
	w.read(s, store.Hours, startMs, endMs, fields, &hours)
	w.read(s, store.Days, startMs, endMs, fields, &days)
	firstDay, endDay := days.Inside(startMs, endMs)
	firstHour, endHour := hours.Inside(startMs, endMs)
	var out rollup.State

	for d := range days.Len() {
		if d >= firstDay && d < endDay && days.Known[d] {
			out = rollup.Join(out, days.State(d))
			w.used++
			continue
		}
		fromMs := days.FromMs + int64(d)*dayMs
		for fromHour := max(fromMs, hours.FromMs); fromHour < fromMs+dayMs; fromHour += keyschema.HourMs {
			h := int((fromHour - hours.FromMs) / keyschema.HourMs)
			if h >= hours.Len() {
				break
			}
			if h >= firstHour && h < endHour && hours.Known[h] {
				out = rollup.Join(out, hours.Join(h, h+1))
				w.used++
				continue
			}
			lo, hi := between(tsMs, max(startMs+1, fromHour)-1, min(endMs, fromHour+keyschema.HourMs-1))
			out = rollup.Join(out, rollup.FromColumns(tsMs[lo:hi], values[lo:hi]))
		}
	}
	return out
}

func (w *world) read(s *series, unit store.Unit, startMs, endMs int64, fields rollup.Fields, into *rollup.Columns) {
	from := max(0, startMs) / unit.Ms()
	err := w.rig.Read(context.Background(), store.Request{
		Prefixes: [][]byte{s.prefix}, Unit: unit, From: from, To: endMs / unit.Ms(), Fields: fields,
	}, func(_ int, c *rollup.Columns) error {
		into.Reset(c.FromMs, c.BucketMs, c.Len(), fields)
		for i := range c.Len() {
			if c.Known[i] {
				into.Set(i, c.State(i))
			}
		}
		return nil
	})
	require.NoError(w, err)
}

// reference evaluates a function in Prometheus's engine.
func (w *world) reference(f rollup.Func, tsMs []int64, values []float64, startMs, endMs int64) (v float64, has bool) {
	text := fmt.Sprintf("%s(m[%dms])", f, endMs-startMs)
	q, err := w.engine.NewInstantQuery(context.Background(), samplesOf{tsMs, values}, nil, text, time.UnixMilli(endMs))
	require.NoError(w, err, text)
	defer q.Close()
	result := q.Exec(context.Background())
	require.NoError(w, result.Err, text)
	vector, err := result.Vector()
	require.NoError(w, err)
	if len(vector) == 0 {
		return 0, false
	}
	return vector[0].F, true
}

// samplesOf is a storage with one series.
type samplesOf struct {
	tsMs   []int64
	values []float64
}

func (s samplesOf) Querier(int64, int64) (promstorage.Querier, error) { return oneSeries{s}, nil }

type oneSeries struct{ samplesOf }

func (q oneSeries) Select(
	_ context.Context, _ bool, hints *promstorage.SelectHints, _ ...*labels.Matcher,
) promstorage.SeriesSet {
	lo, hi := between(q.tsMs, hints.Start-1, hints.End)
	samples := make([]chunks.Sample, 0, hi-lo)
	for i := lo; i < hi; i++ {
		samples = append(samples, point{q.tsMs[i], q.values[i]})
	}
	return &oneSet{series: promstorage.NewListSeries(labels.FromStrings("__name__", "m"), samples)}
}

func (oneSeries) LabelValues(
	context.Context, string, *promstorage.LabelHints, ...*labels.Matcher,
) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (oneSeries) LabelNames(
	context.Context, *promstorage.LabelHints, ...*labels.Matcher,
) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (oneSeries) Close() error { return nil }

// oneSet is a set of one series.
type oneSet struct {
	series promstorage.Series
	seen   bool
}

func (s *oneSet) Next() bool {
	first := !s.seen
	s.seen = true
	return first
}
func (s *oneSet) At() promstorage.Series            { return s.series }
func (s *oneSet) Err() error                        { return nil }
func (s *oneSet) Warnings() annotations.Annotations { return nil }
