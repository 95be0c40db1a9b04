package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
	"halite/storage/storagetest"
)

const baseDay = 20000

// oracleSeries is the entry of a series in a naive index.
type oracleSeries struct {
	labels  labels.Labels
	hours   map[int64]bool
	pending map[int64]bool // hours that may not be persisted; after a crash they are replayed
	ref     memory.Ref
}

// world applies the same operations to an Index and to a naive map.
type world struct {
	t      testing.TB
	rng    *rand.Rand
	clock  atomic.Int64 // Unix nanoseconds
	store  *faultyStore
	schema *keyschema.Schema
	x      *Index
	layout segment.Layout
	series map[string]*oracleSeries
	keys   []string
	// long is set for a world of months, in which data is later, windows are longer, and series come and go.
	long      bool
	retention time.Duration
	// monthSeriesMax is Options.MonthSeriesMax.
	monthSeriesMax int
	// unfinished are removals to repeat.
	unfinished []func() error
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 7)), series: map[string]*oracleSeries{},
	}
	w.clock.Store(keyschema.HourStartMs(baseDay*24+5) * 1e6)
	w.store = &faultyStore{Store: storagetest.NewModel(w.now)}
	w.store.budget.Store(1 << 60)
	var err error
	w.schema, err = keyschema.NewSchema([]keyschema.Rule{
		{Pattern: "m*", Salts: 4, Promoted: []string{"b"}, FromHour: (baseDay + 1) * 24},
	})
	require.NoError(t, err)
	w.layout = segment.DefaultLayout()
	if w.rng.IntN(4) > 0 { // small limits reach every path with few series
		w.layout = segment.Layout{
			SmallMetricRows: 1 + w.rng.IntN(8), SharedBlockRows: 1 + w.rng.IntN(20),
			SharedBlockColumns: 1 + w.rng.IntN(10), BlockRows: 1 + w.rng.IntN(30), InlineBytes: w.rng.IntN(40),
			CellBytes: 1 + w.rng.IntN(60), RecordRows: 1 + w.rng.IntN(20), RecordRuns: 1 + w.rng.IntN(20),
			ApplyBytes: 1 + w.rng.IntN(500), MonthRows: uint64(w.rng.IntN(100)),
			Months: segment.MonthRule{DaysMin: 1 + w.rng.IntN(4), Share: 1 + uint64(w.rng.IntN(3)*w.rng.IntN(1000))},
		}
	}
	w.reopen()
	return w
}

func (w *world) now() time.Time { return time.Unix(0, w.clock.Load()) }

func (w *world) advance(d time.Duration) { w.clock.Add(int64(d)) }

// reopen reopens the tables as after a crash, and replays touches that were not persisted.
func (w *world) reopen() {
	x, err := Open(context.Background(), Options{
		Store: w.store, Schema: w.schema, Now: w.now,
		Logger:        slog.New(slog.NewTextHandler(w.t.Output(), nil)),
		CacheBytesMax: int64(1 + w.rng.IntN(1<<uint(w.rng.IntN(20)))), Retention: keyschema.KeepFor(w.retention),
		MonthSeriesMax: w.monthSeriesMax,
	})
	require.NoError(w.t, err)
	x.store.Layout = w.layout
	w.x = x
	for _, s := range w.series {
		s.ref = 0
	}
	for _, s := range w.series { // the replay of the log also comes first
		for hour := range s.pending {
			w.touch(s, hour)
		}
	}
}

func (w *world) pick(values ...string) string { return values[w.rng.IntN(len(values))] }

func (w *world) randomLabels() labels.Labels {
	b := labels.NewBuilder(labels.EmptyLabels())
	tiny := fmt.Sprintf("tiny%d", w.rng.IntN(30))
	b.Set(model.MetricNameLabel, w.pick("m1", "m1", "m1", "m2", "m2", "up", "x:y", "größe", tiny))
	for _, name := range []string{"A", "b", "c", "z", "ünï"} {
		switch w.rng.IntN(4) {
		case 0:
		case 1:
			b.Set(name, w.pick("v1", "v2", "v", "x#y", "a=b,c", "日本", "\x01\xff"[:1]))
		default:
			b.Set(name, fmt.Sprintf("v%d", w.rng.IntN(40)))
		}
	}
	if w.rng.IntN(200) == 0 {
		b.Set("long", string(make([]byte, 3000))+fmt.Sprint(w.rng.IntN(3)))
	}
	return b.Labels()
}

func (w *world) add() *oracleSeries {
	if len(w.keys) > 0 && w.rng.IntN(3) > 0 {
		if w.long { // most old series have no samples
			return w.series[w.keys[max(0, len(w.keys)-1-w.rng.IntN(1+w.rng.IntN(len(w.keys))))]]
		}
		return w.series[w.keys[w.rng.IntN(len(w.keys))]]
	}
	ls := w.randomLabels()
	key := ls.String()
	s := w.series[key]
	if s == nil {
		s = &oracleSeries{labels: ls, hours: map[int64]bool{}, pending: map[int64]bool{}}
		w.series[key] = s
		w.keys = append(w.keys, key)
	}
	return s
}

func (w *world) touch(s *oracleSeries, hour int64) {
	ref, created, err := w.x.Add(s.labels)
	require.NoError(w.t, err)
	if s.ref != 0 {
		require.Equal(w.t, s.ref, ref)
		require.False(w.t, created)
	}
	s.ref = ref
	require.Equal(w.t, s.labels, w.x.Labels(ref))
	w.x.MarkActive(ref, hour)
	s.hours[hour] = true
	s.pending[hour] = true
}

func (w *world) hourNow() int64 { return keyschema.HourOf(w.now().UnixMilli()) }

func (w *world) touchSome() {
	for range 1 + w.rng.IntN(30) {
		hour := w.hourNow()
		switch w.rng.IntN(12) {
		case 0:
			late := 100
			if w.long {
				late = 24 * 40
			}
			hour = max(0, hour-int64(w.rng.IntN(late)))
		case 1:
			hour += int64(w.rng.IntN(3))
		}
		w.touch(w.add(), hour)
	}
}

// flushRows writes the data rows of everything pending, as the head would before the index is persisted.
func (w *world) flushRows() {
	data, err := w.store.Store.EnsureTable(context.Background(), storage.DataSchema(0))
	require.NoError(w.t, err)
	for _, s := range w.series {
		for hour := range s.pending {
			require.NotZero(w.t, s.ref)
			key := w.x.AppendRowKey(nil, s.ref, hour)
			require.NotEmpty(w.t, key)
			require.NoError(w.t, data.Apply(context.Background(), []storage.RowMutation{{Key: key, Entries: []storage.Entry{{
				Kind: storage.SetCell, Family: storage.FamilySamples, Qualifier: []byte{1}, TsMs: keyschema.HourCellMs(hour),
				Value: []byte("x"),
			}}}}))
		}
	}
}

// persist returns false if it failed because the budget was used up.
func (w *world) persist() bool {
	w.flushRows()
	if err := w.x.Persist(context.Background()); err != nil {
		require.ErrorIs(w.t, err, errInjected)
		return false
	}
	for _, s := range w.series {
		clear(s.pending)
	}
	return true
}

func (w *world) maintain() bool {
	if err := w.x.Maintain(context.Background()); err != nil {
		require.ErrorIs(w.t, err, errInjected)
		return false
	}
	return true
}

func (w *world) retire() {
	busy := map[memory.Ref]bool{}
	for _, s := range w.series {
		busy[s.ref] = len(s.pending) > 0 // the head holds samples
	}
	before := w.hourNow() - int64(w.rng.IntN(40))
	gone := w.x.Retire(w.x.Idle(before), before, func(ref memory.Ref) bool { return ref%5 == 0 || busy[ref] })
	for _, s := range w.series {
		if slices.Contains(gone, s.ref) {
			require.NotZero(w.t, s.ref%5)
			require.Equal(w.t, labels.EmptyLabels(), w.x.Labels(s.ref))
			s.ref = 0
		}
	}
}

func (w *world) rebuild() {
	day := baseDay + int64(w.rng.IntN(8)) - 2
	if w.long {
		day = presence.DayOf(w.hourNow()) - int64(w.rng.IntN(45))
	}
	if err := w.x.Rebuild(context.Background(), day, day+int64(w.rng.IntN(2))); err != nil {
		require.ErrorIs(w.t, err, errInjected)
	}
}

func (w *world) matcher() *labels.Matcher {
	name := w.pick(model.MetricNameLabel, "A", "b", "c", "z", "ünï", "long", "nope")
	typ := labels.MatchType(w.rng.IntN(4))
	value := w.pick("", "v1", "v2", "m1", "m2", "up", "tiny3", "nope", "日本", fmt.Sprintf("v%d", w.rng.IntN(40)))
	if typ == labels.MatchRegexp || typ == labels.MatchNotRegexp {
		value = w.pick("", ".*", ".+", "v1|v2|v30", "v[0-4]", "v1.*", "(?i)V2.?", "m1|up", "m.", "tiny.*", "|v1", "v3.+",
			"nope", ".*1", "a=b,c|x#y", "(v1|v2)?", "m1|m2|tiny1|tiny2")
	}
	return labels.MustNewMatcher(typ, name, value)
}

func (w *world) window() (mint, maxt int64) {
	first := baseDay*24 - 30 + int64(w.rng.IntN(200))
	length := int64(w.rng.IntN(60))
	if w.rng.IntN(3) == 0 {
		first, length = int64(baseDay+w.rng.IntN(6)-1)*24, 24*int64(1+w.rng.IntN(4))-1
	}
	if w.long {
		first = w.hourNow() - int64(w.rng.IntN(24*80))
		length = int64(w.rng.IntN(1 + w.rng.IntN(24*80)))
		switch w.rng.IntN(4) {
		case 0: // whole days
			first, length = first/24*24, (length/24+1)*24-1
		case 1: // the whole history
			return 0, 1 << 60
		}
	}
	return keyschema.HourStartMs(first) + int64(w.rng.IntN(keyschema.HourMs)), keyschema.HourCellMs(first + length)
}

// expect is the result of the naive map.
func (w *world) expect(mint, maxt int64, ms []*labels.Matcher) []Series {
	if w.retention > 0 {
		mint = max(mint, w.now().Add(-w.retention).UnixMilli())
	}
	var out []Series
	for _, s := range w.series {
		ok := true
		for _, m := range ms {
			ok = ok && m.Matches(s.labels.Get(m.Name))
		}
		if !ok {
			continue
		}
		var hours []int64
		for h := range s.hours {
			if h >= mint/keyschema.HourMs && h <= maxt/keyschema.HourMs {
				hours = append(hours, h)
			}
		}
		if len(hours) == 0 {
			continue
		}
		slices.Sort(hours)
		e := Series{Labels: s.labels}
		for _, h := range hours {
			if k := len(e.Hours) - 1; k >= 0 && e.Hours[k].Last+1 == h {
				e.Hours[k].Last = h
			} else {
				e.Hours = append(e.Hours, presence.Span{First: h, Last: h})
			}
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Series) int { return labels.Compare(a.Labels, b.Labels) })
	return out
}

func (w *world) check() {
	ctx := context.Background()
	mint, maxt := w.window()
	var ms []*labels.Matcher
	for range w.rng.IntN(4) {
		ms = append(ms, w.matcher())
	}
	want := w.expect(mint, maxt, ms)
	got, err := w.x.Select(ctx, nil, mint, maxt, ms...)
	require.NoError(w.t, err)
	names, values := map[string]bool{}, map[string]bool{}
	label := w.pick(model.MetricNameLabel, "A", "b", "c", "z", "nope")
	for i := range want {
		want[i].Labels.Range(func(l labels.Label) { names[l.Name] = true })
		if v := want[i].Labels.Get(label); v != "" {
			values[v] = true
		}
	}
	for i := range got {
		if got[i].Ref != 0 {
			require.Equal(w.t, got[i].Labels, w.x.Labels(got[i].Ref))
		}
		if s := w.series[got[i].Labels.String()]; s != nil && s.ref != 0 {
			require.Equal(w.t, s.ref, got[i].Ref, "active series must come with their refs: %s", s.labels)
		}
		got[i].Ref = 0
	}
	w.same(want, got, fmt.Sprintf("window %d..%d matchers %v", mint/keyschema.HourMs, maxt/keyschema.HourMs, ms))
	w.checkPart(mint, maxt, ms, want)
	limit := w.rng.IntN(4)
	gotNames, err := w.x.LabelNames(ctx, mint, maxt, limit, ms...)
	require.NoError(w.t, err)
	require.Equal(w.t, sortedKeys(names, limit), append([]string{}, gotNames...), "names, %v", ms)
	gotValues, err := w.x.LabelValues(ctx, label, mint, maxt, limit, ms...)
	require.NoError(w.t, err)
	require.Equal(w.t, sortedKeys(values, limit), append([]string{}, gotValues...), "values of %s, %v", label, ms)
	for kind, found := range map[ResultKind]int{ResultSeries: len(want), ResultNames: len(names), ResultValues: len(values)} {
		work, err := w.x.Explain(ctx, nil, kind, label, mint, maxt, ms...)
		require.NoError(w.t, err)
		require.Equal(w.t, found, work.Found)
		require.GreaterOrEqual(w.t, work.Tested, work.Matched)
		require.True(w.t, found == 0 || work.Tested > 0 || len(ms) == 0)
	}
}

// checkPart selects with some of the labels.
func (w *world) checkPart(mint, maxt int64, ms []*labels.Matcher, want []Series) {
	names := []string{w.pick(model.MetricNameLabel, "A", "b"), w.pick("c", "z", "nope"), w.pick("ünï", "long", "A")}[w.rng.IntN(3):]
	got, err := w.x.SelectProjected(context.Background(), nil, names, mint, maxt, ms...)
	require.NoError(w.t, err)
	groups := map[uint32]labels.Labels{}
	builder := labels.NewScratchBuilder(8)
	for i := range got {
		s := &got[i]
		all := s.AllLabels(&builder)
		if s.Ref != 0 {
			require.Equal(w.t, all, w.x.Labels(s.Ref))
		}
		if s.Group == 0 {
			require.Equal(w.t, all, s.Labels)
		} else {
			require.Equal(w.t, all.MatchLabels(true, append(names, model.MetricNameLabel)...), s.Labels)
			require.LessOrEqual(w.t, int(s.Group), len(got))
			if of, known := groups[s.Group]; known {
				require.Equal(w.t, of, s.Labels)
			}
			groups[s.Group] = s.Labels
		}
		s.Labels, s.Ref = all, 0
	}
	w.same(want, got, fmt.Sprintf("%v of window %d..%d matchers %v", names, mint/keyschema.HourMs, maxt/keyschema.HourMs, ms))
}

// same compares two results and prints only the differences.
func (w *world) same(want, got []Series, what string) {
	w.t.Helper()
	lines := map[string]int{}
	for _, s := range want {
		lines[fmt.Sprintf("%.300s %v", s.Labels, s.Hours)]++
	}
	for _, s := range got {
		lines[fmt.Sprintf("%.300s %v", s.Labels, s.Hours)]--
	}
	for line, n := range lines {
		if n != 0 {
			w.t.Errorf("%s: %+d in the oracle: %s", what, n, line)
		}
	}
	require.True(w.t, slices.IsSortedFunc(got, func(a, b Series) int { return labels.Compare(a.Labels, b.Labels) }), what)
	require.False(w.t, w.t.Failed(), what)
}

var errInjected = errors.New("injected")

// faultyStore fails every Apply and Load after a given number of them.
type faultyStore struct {
	storage.Store
	budget atomic.Int64
	// after makes the failing call take effect before it fails.
	after bool
}

func (s *faultyStore) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	t, err := s.Store.EnsureTable(ctx, schema)
	return &faultyTable{Table: t, s: s}, err
}

func (s *faultyStore) Sync(ctx context.Context) error {
	if s.budget.Load() <= 0 {
		return errInjected
	}
	return s.Store.Sync(ctx)
}

type faultyTable struct {
	storage.Table
	s *faultyStore
}

func (t *faultyTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	if left := t.s.budget.Add(-1); left < 0 {
		if left == -1 && t.s.after {
			if err := t.Table.Apply(ctx, muts); err != nil {
				return err
			}
		}
		return errInjected
	}
	return t.Table.Apply(ctx, muts)
}

func sortedKeys(set map[string]bool, limit int) []string {
	keys := append([]string{}, slices.Sorted(maps.Keys(set))...)
	if limit > 0 {
		keys = keys[:min(limit, len(keys))]
	}
	return keys
}
