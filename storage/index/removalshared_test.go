package index

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// TestSharedRemoval: hours that one process removes are removed for all processes, on compacted and on other days,
// while compactions of other processes fence the process. Hours that are written again during the removal stay, and
// all other hours also stay.
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
			rewritten, perhaps := w.remove(deleted)
			for n, x := range append(w.nodes, w.start()) {
				require.NoError(t, x.Refresh(t.Context()))
				require.NoError(t, x.Refresh(t.Context()))
				found, err := x.Select(t.Context(), nil, 0, keyschema.HourCellMs(w.clock.Load()))
				require.NoError(t, err)
				seen := map[fact]bool{}
				for _, s := range found {
					eachHourOf(s, func(hour int64) { seen[fact{s.Labels.String(), hour}] = true })
				}
				for f := range before {
					if perhaps[f] && !rewritten[f] {
						continue
					}
					require.Equal(t, !deleted[f] || rewritten[f], seen[f], "process %d: %v, deleted %v", n, f, deleted[f])
				}
				require.NoError(t, x.Compact(t.Context()))
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

// remove has a process remove facts of m0 and m1. At the same time another process compacts, or writes some of the facts
// again. It may also write other facts of the same series and day.
func (w *sharedWorld) remove(deleted map[fact]bool) (rewritten, perhaps map[fact]bool) {
	rewritten, perhaps = map[fact]bool{}, map[fact]bool{}
	ms := [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "m0")},
		{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "m1")}}
	calls := 0
	err := w.nodes[0].RemoveHours(context.Background(), HourRemoval{
		Last: w.clock.Load(), Matchers: func(int64) [][]*labels.Matcher { return ms },
		Emptied: func(_ context.Context, series []Series) ([][]presence.Span, error) {
			out := make([][]presence.Span, len(series))
			for i, s := range series {
				eachHourOf(s, func(hour int64) {
					f := fact{s.Labels.String(), hour}
					if !deleted[f] || rewritten[f] {
						return
					}
					out[i] = append(out[i], presence.Span{First: hour, Last: hour})
					if w.rng.IntN(8) == 0 {
						ref, _, err := w.nodes[1].Add(s.Labels)
						require.NoError(w.t, err)
						w.nodes[1].MarkDirty(ref, hour)
						require.NoError(w.t, w.nodes[1].Persist(context.Background()))
						rewritten[f] = true
						for g := range deleted {
							perhaps[g] = perhaps[g] || g.series == f.series && presence.DayOf(g.hour) == presence.DayOf(f.hour)
						}
					}
				})
			}
			if calls++; calls%3 == 0 {
				require.NoError(w.t, w.start().Compact(context.Background()))
			}
			return out, nil
		},
	})
	require.NoError(w.t, err)
	return rewritten, perhaps
}

// TestSharedRemovalIsFenced: if other processes declare a process dead during its removal, it removes no more hours.
func TestSharedRemovalIsFenced(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		w := newSharedWorld(t, 1, 2)
		a, b := w.nodes[0], w.nodes[1]
		hour := int64(baseDay * 24)
		ref, _, err := a.Add(labels.FromStrings(model.MetricNameLabel, "m"))
		require.NoError(t, err)
		a.MarkActive(ref, hour)
		require.NoError(t, a.Persist(t.Context()))
		if compacted {
			w.clock.Add(72)
			require.NoError(t, a.Compact(t.Context()))
		}
		calls, held := 0, true
		errGaveUp := errors.New("given up")
		err = a.RemoveHours(t.Context(), HourRemoval{
			First: hour, Last: hour,
			Matchers: func(int64) [][]*labels.Matcher {
				return [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "m")}}
			},
			Emptied: func(context.Context, []Series) ([][]presence.Span, error) {
				if calls++; calls == 2 { // from this call on, the process uses the current state
					held = false
					require.NoError(t, b.FenceShared(t.Context(), hour, hour))
				}
				return [][]presence.Span{{{First: hour, Last: hour}}}, nil
			},
			Held: func(context.Context) error {
				if !held {
					return errGaveUp
				}
				return nil
			},
		})
		require.ErrorIs(t, err, errGaveUp)
		found, err := w.start().Select(t.Context(), nil, keyschema.HourStartMs(hour), keyschema.HourCellMs(hour))
		require.NoError(t, err)
		require.Len(t, found, 1, "compacted: %v", compacted)
	}
}

// TestWriterAfterSharedRemoval: a writer refreshes at any moment of a removal, or its refresh fails at any read. It writes a
// removed hour again when the hour gets samples.
func TestWriterAfterSharedRemoval(t *testing.T) {
	moments := 0
	for writes := 0; writerAfterRemoval(t, writes, 0); writes++ {
		moments++
	}
	for reads := 1; writerAfterRemoval(t, -1, reads); reads++ {
		moments++
	}
	require.Greater(t, moments, 8)
}

// writerAfterRemoval lets a writer refresh before the given write of the removal, and fails the given read of its next
// refresh. It reports whether there were that many writes and reads.
func writerAfterRemoval(t *testing.T, beforeWrite, failedRead int) (were bool) {
	w := newSharedWorld(t, 1, 0)
	hour := int64(baseDay * 24)
	store := &readsStore{Store: w.tables}
	var removal func()
	open := func() *Index {
		hook := func() (before, after error) {
			if removal != nil {
				removal()
			}
			return nil, nil
		}
		x, err := Open(t.Context(), Options{Store: &hookedStore{store, hook}, Schema: w.schema, Now: w.now,
			Writer: segment.NewWriter()})
		require.NoError(t, err)
		return x
	}
	writer, remover := open(), open()
	write := func() {
		ref, _, err := writer.Add(labels.FromStrings(model.MetricNameLabel, "m"))
		require.NoError(t, err)
		if !writer.IsPersisted(ref, hour) {
			writer.MarkActive(ref, hour)
			require.NoError(t, writer.Persist(t.Context()))
		}
	}
	write()
	removal = func() {
		if beforeWrite--; beforeWrite == -1 {
			were = true
			require.NoError(t, writer.Refresh(t.Context()))
		}
	}
	require.NoError(t, remover.RemoveHours(t.Context(), HourRemoval{
		First: hour, Last: hour,
		Matchers: func(int64) [][]*labels.Matcher {
			return [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "m")}}
		},
		Emptied: func(context.Context, []Series) ([][]presence.Span, error) {
			return [][]presence.Span{{{First: hour, Last: hour}}}, nil
		},
	}))
	removal = nil
	store.failIn = failedRead
	if err := writer.Refresh(t.Context()); err != nil {
		were = true
		require.ErrorIs(t, err, errInjected)
	}
	store.failIn = 0
	require.NoError(t, writer.Refresh(t.Context()))
	write()
	found, err := open().Select(t.Context(), nil, keyschema.HourStartMs(hour), keyschema.HourCellMs(hour))
	require.NoError(t, err)
	require.Len(t, found, 1, "look before write %d, failing at read %d", beforeWrite, failedRead)
	return were
}

// readsStore fails one read of its tables.
type readsStore struct {
	storage.Store
	failIn int // reads, 0 for none
}

func (s *readsStore) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	t, err := s.Store.EnsureTable(ctx, schema)
	return &readsTable{t, s}, err
}

type readsTable struct {
	storage.Table
	s *readsStore
}

func (t *readsTable) ReadRows(ctx context.Context, set storage.RowSet, opts storage.ReadOptions) storage.RowIter {
	if t.s.failIn--; t.s.failIn == 0 {
		return failedRows{}
	}
	return t.Table.ReadRows(ctx, set, opts)
}

type failedRows struct{}

func (failedRows) Next() bool       { return false }
func (failedRows) Row() storage.Row { return storage.Row{} }
func (failedRows) Err() error       { return errInjected }
func (failedRows) Close() error     { return nil }
