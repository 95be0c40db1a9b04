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

// remove removes hours of matching series from the world: first from the touches that a crash would replay and from the
// rows, then from the index, several times if needed.
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
	var gone []storage.RowMutation
	for _, s := range w.series {
		if !slices.ContainsFunc(selectors, func(ms []*labels.Matcher) bool {
			return !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) })
		}) {
			continue
		}
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
	w.unfinished = append(w.unfinished, func() error {
		return w.x.RemoveHours(context.Background(), HourRemoval{
			First: first, Last: last, Matchers: func(int64) [][]*labels.Matcher { return selectors }, Emptied: emptyAll,
		})
	})
	w.finish()
}

// emptyAll finds samples in no hour.
func emptyAll(_ context.Context, series []Series) ([][]presence.Span, error) {
	out := make([][]presence.Span, len(series))
	for i := range series {
		out[i] = series[i].Hours
	}
	return out, nil
}

// dropMetric removes a metric from the world at once, and from its days later.
func (w *world) dropMetric() {
	if len(w.keys) == 0 {
		return
	}
	ctx := context.Background()
	metric := w.series[w.keys[w.rng.IntN(len(w.keys))]].labels.Get(model.MetricNameLabel)
	ms := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, metric)}
	var gone []storage.RowMutation
	for _, s := range w.series {
		if s.labels.Get(model.MetricNameLabel) != metric {
			continue
		}
		for hour := range s.hours {
			gone = append(gone, storage.RowMutation{Key: w.rowKey(s.labels, hour), Entries: []storage.Entry{{Kind: storage.DeleteRow}}})
		}
		clear(s.hours)
		clear(s.pending)
	}
	data, err := w.store.Store.EnsureTable(ctx, storage.DataSchema(0))
	require.NoError(w.t, err)
	require.NoError(w.t, data.Apply(ctx, gone))
	found, err := w.x.Select(ctx, nil, 0, 1<<60, ms...)
	require.NoError(w.t, err)
	var refs []memory.Ref
	for _, s := range found {
		if s.Ref != 0 {
			refs = append(refs, s.Ref)
		}
	}
	drop := w.x.StartDrop()
	drop.Clear(refs, 0, keyschema.HourMax)
	require.NoError(w.t, drop.Segments(ctx, metric, 0, keyschema.HourMax))
	drop.Close()
	w.check()
	w.step()
	w.check()
	w.unfinished = append(w.unfinished, func() error {
		return w.x.RemoveHours(ctx, HourRemoval{
			Last: keyschema.HourMax, Matchers: func(int64) [][]*labels.Matcher { return [][]*labels.Matcher{ms} },
			Emptied: func(_ context.Context, series []Series) ([][]presence.Span, error) {
				out := make([][]presence.Span, len(series))
				for i, s := range series {
					for _, span := range s.Hours {
						for hour := span.First; hour <= span.Last; hour++ {
							if !w.series[s.Labels.String()].hours[hour] {
								out[i] = append(out[i], presence.Span{First: hour, Last: hour})
							}
						}
					}
				}
				return out, nil
			},
		})
	})
	w.finish()
}

// finish repeats interrupted removals, which may be interrupted again.
func (w *world) finish() {
	w.unfinished = slices.DeleteFunc(w.unfinished, func(do func() error) bool {
		err := do()
		if err != nil {
			require.ErrorIs(w.t, err, errInjected)
		}
		return err == nil
	})
}

// rowKey is the row key of a series, active or not.
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

// TestRemovals is TestAgainstOracle with removed hours, most of them on closed days.
func TestRemovals(t *testing.T) {
	for seed := range seedCount(t, 8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			w.long = seed%3 == 0
			for range 120 {
				switch op := w.rng.IntN(9); op {
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
					t.Log("drop a metric at hour", w.hourNow())
					w.dropMetric()
				case 4:
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

// TestDropIsSmall: a drop changes only the manifest of a closed day, and RemoveHours rewrites the day without the metric.
func TestDropIsSmall(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, 1)
	w.layout = segment.DefaultLayout()
	w.x.store.Layout = w.layout
	for n := range 600 {
		for hour := range int64(3) {
			w.touch(w.named(fmt.Sprint(n)), baseDay*24+hour)
		}
	}
	other := labels.FromStrings(model.MetricNameLabel, "other")
	w.series[other.String()] = &oracleSeries{labels: other, hours: map[int64]bool{}, pending: map[int64]bool{}}
	w.touch(w.series[other.String()], baseDay*24)
	w.advance(48 * time.Hour)
	require.True(t, w.persist())
	require.True(t, w.maintain())
	before := w.storedCells()
	drop := func(last int64) {
		d := w.x.StartDrop()
		defer d.Close()
		require.NoError(t, d.Segments(ctx, "m", baseDay*24, last))
	}
	drop(baseDay*24 + 1)
	require.Equal(t, before, w.storedCells(), "the metric has another hour")
	drop(baseDay*24 + 2)
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
	for _, dropped := range []bool{true, false} {
		require.Equal(t, dropped, w.x.store.Closed.Day(baseDay).Dropped.Load())
		found, err := w.x.Select(ctx, nil, 0, 1<<60)
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, other, found[0].Labels)
		names, err := w.x.LabelNames(ctx, 0, 1<<60, 0)
		require.NoError(t, err)
		require.Equal(t, []string{model.MetricNameLabel}, names)
		require.NoError(t, w.x.RemoveHours(ctx, HourRemoval{
			Last: keyschema.HourMax, Emptied: emptyAll,
			Matchers: func(int64) [][]*labels.Matcher {
				return [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "m")}}
			},
		}))
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
