package direct

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/ingest/deletion"
	"halite/ingest/ingesttest"
	"halite/keyschema"
	rollupstore "halite/rollup/store"
	"halite/storage"
	"halite/storage/tombstone"
)

// sharedDay has several servers and a series with only the state of a day.
type sharedDay struct {
	*sharedStates
	startMs int64 // of the day
}

func newSharedDay(t *testing.T) *sharedDay {
	w := &sharedDay{sharedStates: newSharedStates(t, 1)}
	for _, n := range w.nodes {
		n.opts.WriteTimeout = time.Minute // no server is killed, and other servers work during its writes
	}
	w.startMs = (w.clock.Ms.Load()/dayMs + 1) * dayMs
	w.clock.Ms.Store(w.startMs + dayMs - 1)
	for _, hour := range []int64{2, 10, 20} {
		w.put(w.nodes[0], hour)
	}
	w.settle(w.nodes[0])
	for range 40 {
		w.clock.Advance(24 * time.Hour)
		w.settle(w.nodes[0])
	}
	w.retire(storage.TableData, storage.FamilySamples)
	w.retire(storage.TableRollup, storage.FamilyHours)
	for _, n := range w.nodes {
		require.NoError(t, n.refresh(t.Context()))
	}
	require.Equal(t, []int64{2, 10, 20}, w.listed(w.nodes[1]))
	return w
}

// put writes a sample to an hour of the day.
func (w *sharedDay) put(n *Direct, hour int64) {
	w.t.Helper()
	_, err := n.Write(w.t.Context(), ingest.SamplesInput([]ingest.Sample{
		{Labels: seriesLabels(1), TsMs: w.startMs + hour*keyschema.HourMs + 1000, Value: float64(hour)},
	}))
	require.NoError(w.t, err)
}

// retire drops the expired data of a family, as retention does.
func (w *sharedDay) retire(table, family string) {
	w.t.Helper()
	ctx := w.t.Context()
	of, err := w.tables.Table(ctx, table)
	require.NoError(w.t, err)
	it := of.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{
		Filter: storage.Filter{Families: []string{family}, KeysOnly: true}})
	var muts []storage.RowMutation
	for it.Next() {
		muts = append(muts, storage.RowMutation{
			Key: it.Row().Key, Entries: []storage.Entry{{Kind: storage.DeleteFamily, Family: family}},
		})
	}
	require.NoError(w.t, it.Err())
	require.NoError(w.t, it.Close())
	require.NotEmpty(w.t, muts)
	require.NoError(w.t, of.Apply(ctx, muts))
}

// listed returns the hours of the day in which a server lists the series.
func (w *sharedDay) listed(n *Direct) (hours []int64) {
	w.t.Helper()
	found, err := n.Index().Select(w.t.Context(), nil, w.startMs, w.startMs+dayMs-1)
	require.NoError(w.t, err)
	for _, s := range found {
		ingesttest.EachHour(s.Hours, func(hour int64) { hours = append(hours, hour-keyschema.HourOf(w.startMs)) })
	}
	return hours
}

// deletion returns a deletion of the first second of hour 10.
func (w *sharedDay) deletion() deletion.Request {
	m := labels.MustNewMatcher(labels.MatchEqual, "n", "1")
	fromMs := w.startMs + 10*keyschema.HourMs
	return deletion.Request{Selectors: [][]*labels.Matcher{{m}}, FromMs: fromMs, ToMs: fromMs + 1000}
}

// TestDirectDeletedDays deletes a part of a day. Only the state of the day is left. The index drops all hours of the series,
// except the hour to which another server writes during the deletion.
func TestDirectDeletedDays(t *testing.T) {
	for moment := range 12 {
		t.Run(fmt.Sprint("at write ", moment), func(t *testing.T) {
			w := newSharedDay(t)
			count, err := w.nodes[0].CountDeletion(t.Context(), w.deletion())
			require.NoError(t, err)
			require.Equal(t, rollupstore.Orphans{Days: 1, Partial: 1}, count.Orphans)
			at, deleting := 0, true
			for _, hooks := range w.hooks {
				hooks.hook = func() (before, after error, partial bool) {
					if at++; deleting && at == moment+1 {
						deleting = false
						w.put(w.nodes[1], 5)
					}
					return nil, nil, false
				}
			}
			_, err = w.nodes[0].DeleteSeries(t.Context(), w.deletion())
			require.NoError(t, err)
			pending, _ := deletion.Pending(w.nodes[0].opts.Tombstones, w.clock.Now())
			require.NoError(t, w.nodes[0].cleanIndex(t.Context(), pending...))
			require.Equal(t, moment == 11, deleting, "%d writes", at)
			for _, n := range w.nodes {
				require.NoError(t, n.refresh(t.Context()))
				if deleting {
					require.Empty(t, w.listed(n))
				} else {
					require.Contains(t, w.listed(n), int64(5))
				}
			}
			// If a server announces one hour of a day, other hours may reappear until the next cleaning.
			w.settle(w.nodes[0])
			for _, n := range w.nodes {
				require.NoError(t, n.refresh(t.Context()))
				require.Equal(t, deleting, len(w.listed(n)) == 0)
				require.Subset(t, []int64{5}, w.listed(n))
			}
		})
	}
}

// TestDirectWritesDuringDeletion removes hours from the index at each moment of a write to another hour of the day. The
// writer notices and announces its hour again.
func TestDirectWritesDuringDeletion(t *testing.T) {
	for moment, last := 0, false; !last; moment++ {
		w := newSharedDay(t)
		deleter, writer := w.nodes[0], w.nodes[1]
		d := w.deletion()
		made, err := deleter.opts.Tombstones.Publish(t.Context(), tombstone.Tombstone{
			FromMs: d.FromMs, ToMs: d.ToMs, MadeMs: w.clock.Ms.Load(), Pending: true, Selectors: d.Selectors,
		}, deleter.sequence.TakeHighest)
		require.NoError(t, err)
		require.NoError(t, writer.opts.Tombstones.Refresh(t.Context())) // it knows of the deletion
		at, busy := 0, false
		remove := func() {
			busy = true
			require.NoError(t, deleter.cleanIndex(t.Context(), made))
			busy = false
		}
		for _, hooks := range w.hooks {
			hooks.hook = func() (before, after error, partial bool) {
				if at++; !busy && at == moment+1 {
					remove()
				}
				return nil, nil, false
			}
		}
		w.put(writer, 5)
		last = at <= moment
		for _, n := range w.nodes {
			require.NoError(t, n.refresh(t.Context()))
			require.Contains(t, w.listed(n), int64(5), "write %d of %d", moment, at)
		}
		require.True(t, moment > 1 || !last)
	}
}
