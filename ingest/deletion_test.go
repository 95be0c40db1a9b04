package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest/deletion"
	"halite/ingest/ingesttest"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/pebble"
	"halite/storage/tombstone"
)

// deletionRig is a rig whose samples can be deleted.
func deletionRig(t testing.TB, fs vfs.FS, c *ingesttest.Clock, tweak func(*Options)) (*rig, error) {
	store, err := pebble.Open(pebble.Options{
		Dir: "/db/data", FS: fs, CacheBytes: 1 << 20, MemtableBytes: 256 << 10, Now: c.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("open the engine: %w", err)
	}
	return deletionRigOn(t, fs, c, store, tweak)
}

// deletionRigOn is deletionRig on an open store, which the rig closes.
func deletionRigOn(
	t testing.TB, fs vfs.FS, c *ingesttest.Clock, store storage.Store, tweak func(*Options),
) (*rig, error) {
	ctx := context.Background()
	set, err := tombstone.Open(ctx, tombstone.Options{Store: store})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	r, err := rigOn(ctx, t, fs, c, set.Store(), func(o *Options) {
		o.Tombstones = set
		if tweak != nil {
			tweak(o)
		}
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	set.SetLabelSets(r.index.LabelSet)
	return r, nil
}

func match(t testing.TB, pairs ...string) []*labels.Matcher {
	t.Helper()
	var ms []*labels.Matcher
	for p := range slices.Chunk(pairs, 3) {
		kind := map[string]labels.MatchType{
			"=": labels.MatchEqual, "!=": labels.MatchNotEqual, "=~": labels.MatchRegexp, "!~": labels.MatchNotRegexp,
		}[p[1]]
		ms = append(ms, labels.MustNewMatcher(kind, p[0], p[2]))
	}
	return ms
}

func (r *rig) delete(fromMs, toMs int64, ms ...[]*labels.Matcher) int {
	r.t.Helper()
	n, err := r.DeleteSeries(context.Background(), deletion.Request{Selectors: ms, FromMs: fromMs, ToMs: toMs})
	require.NoError(r.t, err)
	return n
}

// seriesWithin lists the series of a window, as look-ups show them.
func (r *rig) seriesWithin(fromMs, toMs int64) []string {
	r.t.Helper()
	found, err := r.index.Select(context.Background(), nil, fromMs, toMs)
	require.NoError(r.t, err)
	names := []string{}
	for _, s := range found {
		names = append(names, s.Labels.String())
	}
	return names
}

func TestDeleteInHeadAndTable(t *testing.T) {
	c := ingesttest.NewClock()
	r, err := deletionRig(t, vfs.NewMem(), c, nil)
	require.NoError(t, err)
	ctx := context.Background()
	a, b := labels.FromStrings("__name__", "m", "x", "a"), labels.FromStrings("__name__", "m", "x", "b")
	write := func(ls labels.Labels, ts int64, v float64) {
		t.Helper()
		_, err := r.Ingester.Write(ctx, SamplesInput([]Sample{{Labels: ls, TsMs: ts, Value: v}}))
		require.NoError(t, err)
	}
	hour := int64(keyschema.HourMs)
	base := int64(startMs-startMs%keyschema.HourMs) - 3*int64(hour)
	for h := range int64(3) {
		for s := range int64(4) {
			write(a, base+h*hour+s*1000, float64(h*10+s))
			write(b, base+h*hour+s*1000, 1)
		}
	}
	r.flush()
	write(a, base+2500, 99)       // late, in memory
	write(a, base+hour+1500, 100) // stays
	count, err := r.CountDeletion(ctx, deletion.Request{Selectors: [][]*labels.Matcher{match(t, "x", "=", "a")},
		FromMs: base, ToMs: base + hour + 1000})
	require.NoError(t, err)
	require.Equal(t, 1, count.Series)
	require.EqualValues(t, 4+1+2, count.Samples)
	require.Positive(t, count.Bytes)

	require.Equal(t, 1, r.delete(base, base+hour+1000, match(t, "x", "=", "a")))
	want := column{base + hour + 1500: math.Float64bits(100)}
	for s := range int64(4) {
		if s > 1 {
			want[base+hour+s*1000] = math.Float64bits(float64(10 + s))
		}
		want[base+2*hour+s*1000] = math.Float64bits(float64(20 + s))
	}
	r.requireSeries(a, want)
	require.Equal(t, []string{a.String(), b.String()}, r.seriesWithin(base, base+hour-1), "the lists follow later")
	require.NoError(t, r.deleter.CleanIndex(ctx))
	require.Equal(t, []string{b.String()}, r.seriesWithin(base, base+hour-1))
	require.Equal(t, []string{a.String(), b.String()}, r.seriesWithin(base+hour, base+2*hour-1))

	write(a, base+500, 7) // after the deletion
	want[base+500] = math.Float64bits(7)
	r.requireSeries(a, want)
	r.flush()
	r.requireSeries(a, want)
	require.Equal(t, []string{a.String(), b.String()}, r.seriesWithin(base, base+hour-1))

	report, err := r.CleanTombstones(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, report.Tombstones)
	require.EqualValues(t, 2, report.RowsRewritten)
	require.Zero(t, r.opts.Tombstones.Len())
	r.requireSeries(a, want)

	require.Equal(t, 2, r.delete(0, math.MaxInt64, match(t, "__name__", "=", "m")))
	require.Empty(t, r.seriesWithin(0, math.MaxInt64))
	r.requireSeries(a, column{})
	report, err = r.CleanTombstones(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 6, report.RowsRemoved)
	require.NoError(t, r.Close(ctx))
	require.NoError(t, r.store.Close())
}

func TestDeletionIsRefused(t *testing.T) {
	r, err := deletionRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	require.NoError(t, err)
	defer r.close()
	ctx := context.Background()
	one := [][]*labels.Matcher{match(t, "x", "=", "a")}
	for _, d := range []deletion.Request{
		{FromMs: 0, ToMs: 1}, {Selectors: one, FromMs: 2, ToMs: 1}, {Selectors: [][]*labels.Matcher{{}}, ToMs: 1},
		{Selectors: [][]*labels.Matcher{match(t, "x", "=", string(make([]byte, tombstone.BytesMax)))}, ToMs: 1},
	} {
		_, err := r.DeleteSeries(ctx, d)
		require.ErrorIs(t, err, deletion.ErrBadRequest)
		_, err = r.CountDeletion(ctx, d)
		require.ErrorIs(t, err, deletion.ErrBadRequest)
	}
	all := deletion.Request{Selectors: [][]*labels.Matcher{one[0], match(t, "__name__", "=~", ".+")}, ToMs: 1}
	_, err = r.DeleteSeries(ctx, all)
	require.ErrorIs(t, err, deletion.ErrDeletesEverything)
	all.Everything = true
	_, err = r.DeleteSeries(ctx, all)
	require.NoError(t, err)
}

func TestTombstoneLimit(t *testing.T) {
	store := pebbleOn(t, vfs.NewMem())
	set, err := tombstone.Open(context.Background(), tombstone.Options{Store: store, TombstonesMax: 1})
	require.NoError(t, err)
	c := ingesttest.NewClock()
	r, err := rigOn(context.Background(), t, vfs.NewMem(), c, set.Store(), func(o *Options) { o.Tombstones = set })
	require.NoError(t, err)
	defer r.close()
	ls := labels.FromStrings("__name__", "m")
	_, err = r.Write(context.Background(), SamplesInput([]Sample{{Labels: ls, TsMs: startMs, Value: 1}}))
	require.NoError(t, err)
	require.Equal(t, 1, r.delete(startMs+1, startMs+1, match(t, "__name__", "=", "m")))
	_, err = r.DeleteSeries(context.Background(), deletion.Request{
		Selectors: [][]*labels.Matcher{match(t, "__name__", "=", "m")}, ToMs: startMs})
	var limit *tombstone.LimitError
	require.ErrorAs(t, err, &limit)
	require.ErrorContains(t, err, "storage.tombstones-max")
	_, err = r.CleanTombstones(context.Background())
	require.NoError(t, err)
	require.Equal(t, 1, r.delete(0, startMs, match(t, "__name__", "=", "m")))
}

func pebbleOn(t testing.TB, fs vfs.FS) storage.Store {
	store, err := pebble.Open(pebble.Options{Dir: "/db/data", FS: fs, CacheBytes: 1 << 20, MemtableBytes: 256 << 10})
	require.NoError(t, err)
	return store
}

// deletionModel holds the expected values by series and time.
type deletionModel struct {
	labels  []labels.Labels
	columns []column
}

func matches(d deletion.Request, ls labels.Labels) bool {
	return slices.ContainsFunc(d.Selectors, func(ms []*labels.Matcher) bool {
		return !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(ls.Get(m.Name)) })
	})
}

func (m *deletionModel) delete(d deletion.Request) {
	for n, ls := range m.labels {
		if !matches(d, ls) {
			continue
		}
		maps.DeleteFunc(m.columns[n], func(ts int64, _ uint64) bool { return d.FromMs <= ts && ts <= d.ToMs })
	}
}

// check compares the samples of all series. It also compares the lists of series, label names and label values, for each hour
// and for all hours together. While a deletion is pending, the lists may show more.
func (m *deletionModel) check(t testing.TB, r *rig, hours []int64) {
	t.Helper()
	ctx := context.Background()
	for n, ls := range m.labels {
		r.requireSeries(ls, m.columns[n])
	}
	pending, _ := deletion.Pending(r.opts.Tombstones, r.clock.Now())
	compare := func(want, got any, about ...any) {
		t.Helper()
		if len(pending) == 0 {
			require.ElementsMatch(t, want, got, about...)
		} else {
			require.Subset(t, got, want, about...)
		}
	}
	windows := [][2]int64{{0, math.MaxInt64}}
	for _, h := range hours {
		windows = append(windows, [2]int64{keyschema.HourStartMs(h), keyschema.HourCellMs(h)})
	}
	for _, w := range windows {
		names, values, series := map[string]bool{}, map[string]bool{}, []string{}
		for n, ls := range m.labels {
			for ts := range m.columns[n] {
				if w[0] <= ts && ts <= w[1] {
					series = append(series, ls.String())
					ls.Range(func(l labels.Label) { names[l.Name] = true })
					if v := ls.Get("x"); v != "" {
						values[v] = true
					}
					break
				}
			}
		}
		compare(series, r.seriesWithin(w[0], w[1]), "series within %v", w)
		gotNames, err := r.index.LabelNames(ctx, w[0], w[1], 0)
		require.NoError(t, err)
		compare(slices.Collect(maps.Keys(names)), gotNames)
		gotValues, err := r.index.LabelValues(ctx, "x", w[0], w[1], 0)
		require.NoError(t, err)
		compare(slices.Collect(maps.Keys(values)), gotValues)
	}
}

func randomDeletion(t testing.TB, rng *rand.Rand, fromMs, toMs int64) deletion.Request {
	pick := [][]*labels.Matcher{
		match(t, "x", "=", fmt.Sprint(rng.IntN(4))), match(t, "__name__", "=", "m1", "x", "!=", "2"),
		match(t, "__name__", "=~", "m[01]", "x", "=~", "1|3"), match(t, "y", "!~", ".+"), match(t, "y", "=", "only"),
		match(t, "__name__", "=", "m0"), match(t, "__name__", "=~", ".+"),
	}
	d := deletion.Request{Selectors: [][]*labels.Matcher{pick[rng.IntN(len(pick))]}, Everything: true}
	if rng.IntN(3) == 0 {
		d.Selectors = append(d.Selectors, pick[rng.IntN(len(pick))])
	}
	span := toMs - fromMs
	switch rng.IntN(5) {
	case 0:
		d.FromMs, d.ToMs = 0, math.MaxInt64
	case 1: // whole hours
		d.FromMs = (fromMs + rng.Int64N(span)) / keyschema.HourMs * keyschema.HourMs
		d.ToMs = d.FromMs + (1+rng.Int64N(30))*keyschema.HourMs - 1
	case 2: // some milliseconds
		d.FromMs = fromMs + rng.Int64N(span)
		d.ToMs = d.FromMs + rng.Int64N(100_000)
	default:
		d.FromMs = fromMs + rng.Int64N(span)
		d.ToMs = d.FromMs + rng.Int64N(span/4)
	}
	return d
}

// TestDeletionModel writes in order, late and again, deletes, flushes, compacts days and months, cleans and restarts at
// random. It compares all look-ups and reads with a map.
func TestDeletionModel(t *testing.T) {
	first, count := crashSeeds(t)
	for seed := first; seed < first+max(4, count/60); seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { deletionSeed(t, seed) }) {
			t.Fatalf("reproduce: HALITE_SEED=%d HALITE_SEEDS=1 go test -run %s ./ingest", seed, t.Name())
		}
	}
}

func deletionSeed(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 77))
	ctx := context.Background()
	fs, c := vfs.NewMem(), ingesttest.NewClock()
	tweak := func(o *Options) {
		o.WALSegmentBytesMax = 16 << 10
		o.Head = HeadOptions{FlushBytes: 4 << 10, Stripes: 2, FlushInterval: -1, RowBytesMax: 300, BytesMax: 64 << 10,
			IdleAfter: 30 * time.Hour}
	}
	r, err := deletionRig(t, fs, c, tweak)
	require.NoError(t, err)
	m := &deletionModel{}
	for n := range 12 {
		ls := labels.FromStrings("__name__", fmt.Sprint("m", n%3), "x", fmt.Sprint(n/3))
		if n == 7 {
			ls = labels.FromStrings("__name__", "m1", "y", "only")
		}
		m.labels, m.columns = append(m.labels, ls), append(m.columns, column{})
	}
	start := c.Now().UnixMilli()
	for range 60 {
		switch rng.IntN(12) {
		case 0, 1, 2, 3:
			writeRandom(t, r, rng, m, start)
		case 4, 5:
			d := randomDeletion(t, rng, start-3*24*keyschema.HourMs, c.Now().UnixMilli()+1)
			want := m.counted(d)
			got, err := r.CountDeletion(ctx, d)
			require.NoError(t, err)
			require.Equal(t, want, got.Samples)
			_, err = r.DeleteSeries(ctx, d)
			require.NoError(t, err)
			m.delete(d)
		case 6:
			r.flush()
		case 7:
			c.Advance(time.Duration(rng.IntN(20)) * time.Hour)
			r.doStep()
		case 8:
			require.NoError(t, r.maintain(ctx))
			require.NoError(t, r.deleter.Maintain(ctx))
		case 9:
			_, err := r.CleanTombstones(ctx)
			require.NoError(t, err)
		case 10:
			require.NoError(t, r.log.Close()) // as a crash that loses nothing
			r.jobs.Wait()
			require.NoError(t, r.store.Close())
			r, err = deletionRig(t, fs, c, tweak)
			require.NoError(t, err)
		case 11:
			r.close()
			r, err = deletionRig(t, fs, c, tweak)
			require.NoError(t, err)
		}
		m.check(t, r, someHours(rng, start, c.Now().UnixMilli()))
	}
	r.close()
}

func (m *deletionModel) counted(d deletion.Request) int64 {
	rest := &deletionModel{labels: m.labels}
	before, after := 0, 0
	for _, c := range m.columns {
		rest.columns = append(rest.columns, maps.Clone(c))
		before += len(c)
	}
	rest.delete(d)
	for _, c := range rest.columns {
		after += len(c)
	}
	return int64(before - after)
}

func someHours(rng *rand.Rand, fromMs, toMs int64) []int64 {
	var hours []int64
	for range 6 {
		hours = append(hours, keyschema.HourOf(fromMs-3*24*keyschema.HourMs+rng.Int64N(toMs-fromMs+3*24*keyschema.HourMs+1)))
	}
	return hours
}

// writeRandom writes samples near the clock, late ones, and some again.
func writeRandom(t testing.TB, r *rig, rng *rand.Rand, m *deletionModel, startMs int64) {
	t.Helper()
	nowMs := r.clock.Now().UnixMilli()
	var samples []Sample
	for range 1 + rng.IntN(60) {
		n := rng.IntN(len(m.labels))
		ts := nowMs - rng.Int64N(20*60_000)
		if rng.IntN(3) == 0 {
			ts = startMs - 3*24*keyschema.HourMs + rng.Int64N(nowMs-startMs+3*24*keyschema.HourMs+1)
		}
		if rng.IntN(4) == 0 {
			for old := range m.columns[n] {
				ts = old
				break
			}
		}
		v := float64(rng.IntN(1000))
		samples = append(samples, Sample{Labels: m.labels[n], TsMs: ts, Value: v})
		m.columns[n][ts] = math.Float64bits(v)
	}
	result, err := r.Ingester.Write(context.Background(), SamplesInput(samples))
	require.NoError(t, err)
	require.Zero(t, result.Rejected)
}
