package index

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

func TestOptions(t *testing.T) {
	_, err := Open(context.Background(), Options{CacheBytesMax: -1})
	for _, want := range []string{"Store", "Schema", "CacheBytesMax"} {
		require.ErrorContains(t, err, "Options."+want)
	}
	w := newWorld(t, 1)
	r := prometheus.NewRegistry()
	opts := Options{Store: w.store, Schema: w.schema, Registerer: r}
	_, err = Open(context.Background(), opts)
	require.NoError(t, err)
	families, err := r.Gather()
	require.NoError(t, err)
	require.Len(t, families, 19)
	_, err = Open(context.Background(), opts)
	require.ErrorContains(t, err, "register")
}

func TestBadLabels(t *testing.T) {
	w := newWorld(t, 1)
	for name, ls := range map[string]labels.Labels{
		"no metric name": labels.FromStrings("a", "b"),
		"metric name of": labels.FromStrings(model.MetricNameLabel, strings.Repeat("m", keyschema.MetricBytesMax+1)),
		"empty label":    labels.FromStrings("", "x", model.MetricNameLabel, "m"),
		"label name of":  labels.FromStrings(model.MetricNameLabel, "m", strings.Repeat("n", memory.LabelNameBytesMax+1), "x"),
		"label v of":     labels.FromStrings(model.MetricNameLabel, "m", "v", strings.Repeat("x", memory.LabelValueBytesMax+1)),
	} {
		_, _, err := w.x.Add(ls)
		require.ErrorIs(t, err, memory.ErrBadLabels, name)
		require.ErrorContains(t, err, name)
	}
	b := labels.NewScratchBuilder(0)
	b.Add(model.MetricNameLabel, "m")
	for i := range memory.ColumnsMax + 1 {
		b.Add(fmt.Sprintf("l%07d", i), "x")
	}
	_, _, err := w.x.Add(b.Labels())
	require.ErrorIs(t, err, memory.ErrBadLabels)
	require.Zero(t, w.x.Stats(0).Series)
}

func TestUnknownRefs(t *testing.T) {
	w := newWorld(t, 1)
	for _, ref := range []memory.Ref{0, 1, 5, 1 << 31, 1<<32 - 1} {
		w.x.MarkActive(ref, baseDay*24)
		require.True(t, w.x.Labels(ref).IsEmpty())
		require.Equal(t, "before", string(w.x.AppendRowKey([]byte("before"), ref, 1)))
	}
	ref, created, err := w.x.Add(labels.FromStrings(model.MetricNameLabel, "m"))
	require.NoError(t, err)
	require.True(t, created)
	for _, hour := range []int64{-1, keyschema.HourMax + 1, 1 << 60} {
		w.x.MarkActive(ref, hour)
	}
	require.Empty(t, w.x.open.All())
	w.x.MarkActive(ref, keyschema.HourMax)
	w.x.MarkActive(ref, 0)
	got, err := w.x.Select(context.Background(), nil, 0, 1<<62)
	require.NoError(t, err)
	require.Equal(t, []presence.Span{{First: 0, Last: 0}, {First: keyschema.HourMax, Last: keyschema.HourMax}}, got[0].Hours)
}

func TestRowKeys(t *testing.T) {
	w := newWorld(t, 1)
	ls := labels.FromStrings("A", "1", model.MetricNameLabel, "m1", "b", "x,y", "c", "")
	ref, _, err := w.x.Add(ls)
	require.NoError(t, err)
	tags := []keyschema.Tag{{Name: "A", Value: "1"}, {Name: "b", Value: "x,y"}}
	for _, hour := range []int64{baseDay * 24, (baseDay + 1) * 24} { // another rule holds from the second day
		want := w.schema.RuleAt("m1", hour).AppendPrefix([]byte("k"), "m1", tags)
		want = keyschema.AppendHour(want, hour)
		require.Equal(t, string(want), string(w.x.AppendRowKey([]byte("k"), ref, hour)))
	}
	require.NotEqual(t, w.x.AppendRowKey(nil, ref, baseDay*24)[:12], w.x.AppendRowKey(nil, ref, (baseDay+1)*24)[:12])
}

func TestLongLabelSets(t *testing.T) {
	w := newWorld(t, 1)
	ls := labels.FromStrings(model.MetricNameLabel, "m1", "a", "b", "long", strings.Repeat("#", 2000))
	hour := int64(baseDay * 24)
	ref, _, err := w.x.Add(ls)
	require.NoError(t, err)
	w.x.MarkActive(ref, hour)
	key, err := keyschema.ParseRowKey(w.x.AppendRowKey(nil, ref, hour))
	require.NoError(t, err)
	require.NotEmpty(t, key.TagsHash)
	_, err = w.x.LabelSet(context.Background(), "other", key.TagsHash)
	require.ErrorIs(t, err, storage.ErrCorrupt)
	want := []keyschema.Tag{{Name: "a", Value: "b"}, {Name: "long", Value: strings.Repeat("#", 2000)}}
	tags, err := w.x.LabelSet(context.Background(), "m1", key.TagsHash)
	require.NoError(t, err)
	require.Equal(t, want, tags, "not stored yet, but active")
	require.NoError(t, w.x.Persist(context.Background()))
	tags, err = w.x.LabelSet(context.Background(), "other", key.TagsHash)
	require.NoError(t, err)
	require.Equal(t, want, tags)
}

// TestRetireFreesMemory: retirement frees refs, rows and values of idle series and leaves active ones unchanged.
func TestRetireFreesMemory(t *testing.T) {
	w := newWorld(t, 1)
	w.layout = segment.DefaultLayout()
	w.x.store.Layout = w.layout
	stay := labels.FromStrings(model.MetricNameLabel, "pods", "uid", "stays")
	stayRef, _, err := w.x.Add(stay)
	require.NoError(t, err)
	sizes := []int64{}
	for day := range 6 {
		for i := range 5000 {
			ls := labels.FromStrings(model.MetricNameLabel, "pods", "uid", fmt.Sprintf("%d-%0100d", day, i))
			ref, _, err := w.x.Add(ls)
			require.NoError(t, err)
			w.x.MarkActive(ref, w.hourNow())
		}
		w.x.MarkActive(stayRef, w.hourNow())
		w.advance(26 * time.Hour)
		require.True(t, w.maintain())
		gone := w.x.Retire(w.x.Idle(w.hourNow()-20), w.hourNow()-20, func(ref memory.Ref) bool { return ref == stayRef })
		require.Len(t, gone, 5000)
		require.True(t, w.maintain())
		sizes = append(sizes, w.x.SizeBytes())
		require.Equal(t, memory.WalkedBytes(w.x.active, w.x.open), w.x.SizeBytes())
		require.Equal(t, stay, w.x.Labels(stayRef))
		require.True(t, w.x.Labels(gone[7]).IsEmpty())
		again, created, err := w.x.Add(stay)
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, stayRef, again)
	}
	require.Less(t, sizes[5], 2*sizes[0])
	require.Less(t, sizes[5], int64(200_000))
	uids := labels.MustNewMatcher(labels.MatchRegexp, "uid", ".*0007|stays")
	got, err := w.x.Select(context.Background(), nil, 0, 1<<60, uids)
	require.NoError(t, err)
	require.Len(t, got, 6+1)
	require.Equal(t, stayRef, got[6].Ref)
	require.Len(t, got[6].Hours, 6)
}

func TestStats(t *testing.T) {
	w := newWorld(t, 1)
	for i := range 12 {
		metric, even := fmt.Sprint("m", i%3), fmt.Sprint(i%2 == 0)
		_, _, err := w.x.Add(labels.FromStrings(model.MetricNameLabel, metric, "even", even, "i", fmt.Sprint(i)))
		require.NoError(t, err)
	}
	s := w.x.Stats(2)
	require.Equal(t, 12, s.Series)
	require.Equal(t, 3+2+12, s.LabelPairs)
	require.Equal(t, []NameCount{{"m0", 4}, {"m1", 4}}, s.SeriesByMetric)
	require.Equal(t, []NameCount{{"i", 12}, {"__name__", 3}}, s.ValuesByLabel)
	require.Equal(t, []NameCount{{"even", 54}, {"__name__", 24}}, s.BytesByLabel)
	require.Equal(t, []NameCount{{"even=false", 6}, {"even=true", 6}}, s.SeriesByPair)
	require.Len(t, w.x.Stats(0).SeriesByPair, statsLimitDefault)
	require.Equal(t, Sizes{
		Series: 12, SeriesByMetric: []NameCount{{"m0", 4}, {"m1", 4}}, ValuesByLabel: []NameCount{{"i", 12}, {"even", 2}},
	}, w.x.Sizes(2))
	require.Len(t, w.x.Sizes(0).SeriesByMetric, 3)
}

func TestCancelled(t *testing.T) {
	w := lateWorld(t, 2)
	require.True(t, w.maintain())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := w.x.Select(ctx, nil, 0, 1<<60)
	require.ErrorIs(t, err, context.Canceled)
	_, err = w.x.LabelNames(ctx, 0, 1<<60, 0)
	require.ErrorIs(t, err, context.Canceled)
	_, err = w.x.LabelValues(ctx, "b", 0, 1<<60, 0)
	require.ErrorIs(t, err, context.Canceled)
	got, err := w.x.Select(context.Background(), nil, 10, 5)
	require.NoError(t, err)
	require.Empty(t, got)
}

// TestCacheBound fills the cache far beyond its bound.
func TestCacheBound(t *testing.T) {
	w := lateWorld(t, 2)
	require.True(t, w.maintain())
	x, err := Open(context.Background(), Options{Store: w.store, Schema: w.schema, Now: w.now, CacheBytesMax: 5000})
	require.NoError(t, err)
	w.x = x
	for _, s := range w.series {
		s.ref = 0
	}
	for range 50 {
		w.check()
		require.LessOrEqual(t, x.store.Cache.SizeBytes(), int64(5000))
	}
	require.NotEmpty(t, x.store.Cache.Items)
}

func TestEmpty(t *testing.T) {
	schema, err := keyschema.NewSchema(nil)
	require.NoError(t, err)
	x, err := Open(context.Background(), Options{Store: storagetest.NewModel(time.Now), Schema: schema})
	require.NoError(t, err)
	require.NoError(t, x.Persist(context.Background()))
	require.NoError(t, x.Maintain(context.Background()))
	require.NoError(t, x.Rebuild(context.Background(), 0, 3))
	require.Empty(t, x.Retire([]memory.Ref{1, 2, 77, 1 << 30}, 1<<40, nil))
	got, err := x.Select(context.Background(), nil, 0, time.Now().UnixMilli())
	require.NoError(t, err)
	require.Empty(t, got)
	require.Zero(t, x.Stats(1).Series)
}
