package index

import (
	"context"
	"fmt"
	"slices"
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
)

// remove takes hours of series that match out of the world: first from what a crash would replay, from memory and from the
// rows, then, if need be several times, from what is stored.
func (w *world) remove() {
	first := w.hourNow() - int64(w.rng.IntN(120))
	last := first + int64(w.rng.IntN(60))
	if w.long {
		first = w.hourNow() - int64(w.rng.IntN(24*60))
		last = first + int64(w.rng.IntN(24*40))
	}
	var selectors [][]*labels.Matcher
	for range 1 + w.rng.IntN(2) {
		selectors = append(selectors, []*labels.Matcher{w.matcher(), w.matcher()})
	}
	matched := map[string]bool{}
	var gone []storage.RowMutation
	for _, s := range w.series {
		if !slices.ContainsFunc(selectors, func(ms []*labels.Matcher) bool {
			return !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) })
		}) {
			continue
		}
		matched[s.labels.String()] = true
		for hour := range s.hours {
			if first <= hour && hour <= last {
				delete(s.hours, hour)
				delete(s.pending, hour)
				gone = append(gone, storage.RowMutation{Key: w.rowKey(s.labels, hour), Entries: []storage.Entry{{Kind: storage.DeleteRow}}})
			}
		}
	}
	data, err := w.store.Store.EnsureTable(context.Background(), storage.DataSchema(0))
	require.NoError(w.t, err)
	require.NoError(w.t, data.Apply(context.Background(), gone))
	sure := presence.Span{First: first + int64(w.rng.IntN(40)), Last: last - int64(w.rng.IntN(40))}
	w.unfinished = append(w.unfinished, func() error {
		found, err := w.x.Select(context.Background(), 0, 1<<60) // refs are others after a crash
		require.NoError(w.t, err)
		var refs []memory.Ref
		for _, s := range found {
			if s.Ref != 0 && matched[s.Labels.String()] {
				refs = append(refs, s.Ref)
			}
		}
		r, err := w.x.StartRemoval()
		require.NoError(w.t, err)
		defer r.Close()
		r.Clear(refs, first, last)
		return r.Fold(context.Background(), first, last, sure, selectors,
			func(_ context.Context, series []Series) ([][]presence.Span, error) {
				out := make([][]presence.Span, len(series))
				for i := range series {
					out[i] = series[i].Hours
				}
				return out, nil
			})
	})
	w.finish()
}

// finish ends removals that were cut off, unless they are cut off again.
func (w *world) finish() {
	w.unfinished = slices.DeleteFunc(w.unfinished, func(do func() error) bool {
		err := do()
		if err != nil {
			require.ErrorIs(w.t, err, errInjected)
		}
		return err == nil
	})
}

// rowKey is that of a series which need not be active.
func (w *world) rowKey(ls labels.Labels, hour int64) []byte {
	var tags []keyschema.Tag
	ls.Range(func(l labels.Label) {
		if l.Name != model.MetricNameLabel {
			tags = append(tags, keyschema.Tag{Name: l.Name, Value: l.Value})
		}
	})
	metric := ls.Get(model.MetricNameLabel)
	return keyschema.AppendHour(w.schema.RuleAt(metric, hour).AppendPrefix(nil, metric, tags), hour)
}

// TestRemovals is TestAgainstOracle with hours that go away, and most of them from days that are closed.
func TestRemovals(t *testing.T) {
	for seed := range seedCount(t, 8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			w.long = seed%3 == 0
			w.layout.RemovedRunsMax = []int{0, 3, 1 << 16, 1 << 16}[seed%4]
			w.x.store.Layout = w.layout
			for range 120 {
				switch op := w.rng.IntN(8); op {
				case 0, 1:
					t.Log("remove at hour", w.hourNow())
					w.remove()
				case 2:
					t.Log("remove with failures at hour", w.hourNow())
					w.store.budget.Store(int64(w.rng.IntN(4)))
					w.store.after = w.rng.IntN(2) == 0
					w.remove()
					w.failSome()
					w.finish()
				case 3:
					w.advance(time.Duration(w.rng.IntN(20)) * time.Hour)
				default:
					w.step()
				}
				require.Empty(t, w.unfinished)
				w.check()
			}
		})
	}
}

// TestRemovalIsSmall: what a closed day loses is said in its root and nowhere else, and the next Maintain leaves it out.
func TestRemovalIsSmall(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, 1)
	w.layout = segment.DefaultLayout()
	w.x.store.Layout = w.layout
	for n := range 600 {
		for hour := range int64(3) {
			w.touch(w.named(fmt.Sprint(n)), baseDay*24+hour)
		}
	}
	w.advance(48 * time.Hour)
	require.True(t, w.persist())
	require.True(t, w.maintain())
	before := w.storedCells()
	r, err := w.x.StartRemoval()
	require.NoError(t, err)
	span := presence.Span{First: baseDay * 24, Last: baseDay*24 + 1}
	require.NoError(t, r.Fold(ctx, span.First, span.Last, span,
		[][]*labels.Matcher{
			{labels.MustNewMatcher(labels.MatchEqual, "x", "7")}, {labels.MustNewMatcher(labels.MatchRegexp, "x", "[78]")},
		},
		func(context.Context, []Series) ([][]presence.Span, error) {
			t.Fatal("nobody need be asked")
			return nil, nil
		}))
	r.Close()
	after := w.storedCells()
	require.Len(t, after, len(before))
	grown := 0
	for i := range after {
		if string(after[i].cell.Value) != string(before[i].cell.Value) {
			require.Equal(t, []byte{segment.QualManifest}, after[i].cell.Qualifier)
			grown = len(after[i].cell.Value) - len(before[i].cell.Value)
		}
	}
	require.Positive(t, grown)
	require.Less(t, grown, 20)
	for range 2 {
		for n, hours := range map[string][]presence.Span{
			"7": {{First: baseDay*24 + 2, Last: baseDay*24 + 2}}, "9": {{First: baseDay * 24, Last: baseDay*24 + 2}},
		} {
			found, err := w.x.Select(ctx, 0, 1<<60, labels.MustNewMatcher(labels.MatchEqual, "x", n))
			require.NoError(t, err)
			require.Len(t, found, 1)
			require.Equal(t, hours, found[0].Hours)
		}
		require.True(t, w.maintain())
		require.False(t, w.x.store.Closed.Day(baseDay).Removed.Load())
	}
}

func (w *world) named(x string) *oracleSeries {
	ls := labels.FromStrings(model.MetricNameLabel, "m", "x", x)
	s := w.series[ls.String()]
	if s == nil {
		s = &oracleSeries{labels: ls, hours: map[int64]bool{}, pending: map[int64]bool{}}
		w.series[ls.String()] = s
		w.keys = append(w.keys, ls.String())
	}
	return s
}
