package index

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
)

// TestSharedRemoval: hours that one process removes are gone for all, whether their days are folded or not, while the process
// is fenced by folds of others; what is told once more meanwhile stays, and so does everything else.
func TestSharedRemoval(t *testing.T) {
	for seed := range seedCount(t, 6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newSharedWorld(t, seed+100, 2)
			for i := range 60 {
				w.faults = i%20 > 10
				w.step()
			}
			w.faults = false
			for _, x := range w.nodes {
				require.NoError(t, x.Persist(t.Context()))
				require.NoError(t, x.Refresh(t.Context()))
				require.NoError(t, x.Refresh(t.Context()))
			}
			w.stored = maps.Clone(w.attempted)
			for f := range w.attempted {
				if !w.seesStored(f) {
					delete(w.stored, f)
				}
			}
			before := maps.Clone(w.stored)
			deleted := map[fact]bool{}
			for f := range w.stored {
				deleted[f] = f.series < `{__name__="m1", a="5"}` && w.rng.IntN(3) > 0
			}
			retold, perhaps := w.remove(deleted)
			for n, x := range append(w.nodes, w.start()) {
				require.NoError(t, x.Refresh(t.Context()))
				require.NoError(t, x.Refresh(t.Context()))
				found, err := x.Select(t.Context(), 0, keyschema.HourCellMs(w.clock.Load()))
				require.NoError(t, err)
				seen := map[fact]bool{}
				for _, s := range found {
					eachHourOf(s, func(hour int64) { seen[fact{s.Labels.String(), hour}] = true })
				}
				for f := range before {
					if perhaps[f] && !retold[f] {
						continue
					}
					require.Equal(t, !deleted[f] || retold[f], seen[f], "process %d: %v, deleted %v", n, f, deleted[f])
				}
				require.NoError(t, x.Fold(t.Context()))
			}
		})
	}
}

func eachHourOf(s Series, visit func(hour int64)) {
	for _, span := range s.Hours {
		for hour := span.First; hour <= span.Last; hour++ {
			visit(hour)
		}
	}
}

// remove has a process remove facts of m0 and m1. In the middle another one folds, or tells some of them once more, and with
// them perhaps what else it knows of the series and day.
func (w *sharedWorld) remove(deleted map[fact]bool) (retold, perhaps map[fact]bool) {
	retold, perhaps = map[fact]bool{}, map[fact]bool{}
	ms := [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchEqual, metricName, "m0")},
		{labels.MustNewMatcher(labels.MatchEqual, metricName, "m1")}}
	calls := 0
	err := w.nodes[0].RemoveShared(context.Background(), 0, w.clock.Load(), ms,
		func(_ context.Context, series []Series) ([][]HourSpan, error) {
			out := make([][]HourSpan, len(series))
			for i, s := range series {
				eachHourOf(s, func(hour int64) {
					f := fact{s.Labels.String(), hour}
					if !deleted[f] || retold[f] {
						return
					}
					out[i] = append(out[i], HourSpan{hour, hour})
					if w.rng.IntN(8) == 0 {
						ref, _, err := w.nodes[1].Add(s.Labels)
						require.NoError(w.t, err)
						w.nodes[1].Retell(ref, hour)
						require.NoError(w.t, w.nodes[1].Persist(context.Background()))
						retold[f] = true
						for g := range deleted {
							perhaps[g] = perhaps[g] || g.series == f.series && dayOf(g.hour) == dayOf(f.hour)
						}
					}
				})
			}
			if calls++; calls%3 == 0 {
				require.NoError(w.t, w.start().Fold(context.Background()))
			}
			return out, nil
		})
	require.NoError(w.t, err)
	return retold, perhaps
}
