package ingest

import (
	"context"
	"fmt"
	"math"
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
)

// listsRig makes a rig with three series of two metrics, on a closed day and on an open day.
func listsRig(t *testing.T, fs vfs.FS, c *ingesttest.Clock) (r *rig, closedMs, openMs int64) {
	r, err := deletionRig(t, fs, c, nil)
	require.NoError(t, err)
	closedMs, openMs = fillLists(t, r, c)
	return r, closedMs, openMs
}

// fillLists writes the series of listsRig.
func fillLists(t *testing.T, r *rig, c *ingesttest.Clock) (closedMs, openMs int64) {
	closedMs = c.Now().UnixMilli()
	write := func(tsMs int64) {
		for _, ls := range []labels.Labels{
			labels.FromStrings("__name__", "m", "x", "a"), labels.FromStrings("__name__", "m", "x", "b"),
			labels.FromStrings("__name__", "other", "x", "a"),
		} {
			_, err := r.Ingester.Write(t.Context(), SamplesInput([]Sample{
				{Labels: ls, TsMs: tsMs, Value: 1}, {Labels: ls, TsMs: tsMs - 2*keyschema.HourMs, Value: 1},
			}))
			require.NoError(t, err)
		}
	}
	write(closedMs)
	c.Advance(72 * time.Hour)
	r.flush()
	require.NoError(t, r.maintain(t.Context()))
	openMs = c.Now().UnixMilli()
	write(openMs)
	return closedMs, openMs
}

// requireLists compares the values of a label and the number of series at each time with the expected ones.
func (r *rig) requireLists(values []string, series int, atMs ...int64) {
	r.t.Helper()
	for _, ms := range atMs {
		require.Len(r.t, r.seriesWithin(ms, ms), series)
		got, err := r.index.LabelValues(context.Background(), "x", ms, ms, 0)
		require.NoError(r.t, err)
		require.Equal(r.t, values, got)
	}
}

// TestListsFollowDeletion: the lists of closed and open days show a deleted series until IndexDelay has passed and the job has
// run, but not longer.
func TestListsFollowDeletion(t *testing.T) {
	c := ingesttest.NewClock()
	r, closedMs, openMs := listsRig(t, vfs.NewMem(), c)
	defer r.close()
	require.Equal(t, 1, r.delete(0, math.MaxInt64, match(t, "x", "=", "b")))
	for passed := time.Duration(0); passed < deletion.IndexDelay; passed += deletion.MaintainInterval {
		require.NoError(t, r.deleter.Maintain(t.Context()))
		r.requireLists([]string{"a", "b"}, 3, closedMs, openMs)
		c.Advance(deletion.MaintainInterval)
	}
	require.LessOrEqual(t, deletion.IndexDelay+deletion.MaintainInterval, time.Hour)
	require.NoError(t, r.deleter.Maintain(t.Context()))
	r.requireLists([]string{"a"}, 2, closedMs, openMs)
	pending, _ := deletion.Pending(r.opts.Tombstones, c.Now())
	require.Empty(t, pending)
}

// TestListsFollowClean: clean_tombstones updates the lists at once.
func TestListsFollowClean(t *testing.T) {
	r, closedMs, openMs := listsRig(t, vfs.NewMem(), ingesttest.NewClock())
	defer r.close()
	require.Equal(t, 1, r.delete(0, math.MaxInt64, match(t, "x", "=", "b")))
	_, err := r.CleanTombstones(t.Context())
	require.NoError(t, err)
	r.requireLists([]string{"a"}, 2, closedMs, openMs)
}

// hookedStore calls applied before each write to table meta.
type hookedStore struct {
	storage.Store
	applied func()
}

func (s *hookedStore) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	table, err := s.Store.EnsureTable(ctx, schema)
	if schema.Name == storage.TableMeta {
		table = &hookedMeta{table, s}
	}
	return table, err
}

type hookedMeta struct {
	storage.Table
	store *hookedStore
}

func (m *hookedMeta) Apply(ctx context.Context, muts []storage.RowMutation) error {
	m.store.applied()
	return m.Table.Apply(ctx, muts)
}

// TestListsFollowDeletionDuringClean deletes samples when clean_tombstones has updated the lists, and has not cleaned rows yet.
// The next clean_tombstones updates the lists.
func TestListsFollowDeletionDuringClean(t *testing.T) {
	fs, c := vfs.NewMem(), ingesttest.NewClock()
	engine, err := pebble.Open(pebble.Options{Dir: "/db/data", FS: fs, CacheBytes: 1 << 20, Now: c.Now})
	require.NoError(t, err)
	store := &hookedStore{Store: engine, applied: func() {}}
	r, err := deletionRigOn(t, fs, c, store, nil)
	require.NoError(t, err)
	defer r.close()
	closedMs, openMs := fillLists(t, r, c)
	require.Equal(t, 1, r.delete(0, math.MaxInt64, match(t, "x", "=", "b")))
	deleted, set := make(chan error, 1), r.opts.Tombstones
	store.applied = func() {
		if pending, _ := deletion.Pending(set, c.Now()); len(pending) > 0 {
			return
		}
		store.applied = func() {}
		go func() {
			_, err := r.DeleteSeries(t.Context(), deletion.Request{
				Selectors: [][]*labels.Matcher{match(t, "__name__", "=", "m", "x", "=", "a")}, ToMs: math.MaxInt64,
			})
			deleted <- err
		}()
		for set.Len() < 2 && len(deleted) == 0 { // until the deletion is in force
			time.Sleep(time.Millisecond)
		}
	}
	report, err := r.CleanTombstones(t.Context())
	require.NoError(t, err)
	require.NoError(t, <-deleted)
	require.Equal(t, []int{1, 1}, []int{report.Tombstones, report.Waiting})
	_, err = r.CleanTombstones(t.Context())
	require.NoError(t, err)
	require.Zero(t, set.Len())
	r.requireLists([]string{"a"}, 1, closedMs, openMs)
}

// TestWholeMetricLeavesListsAtOnce: a metric that is deleted whole leaves the lists before the deletion returns, stays away
// after a restart, and comes back with new samples.
func TestWholeMetricLeavesListsAtOnce(t *testing.T) {
	for name, span := range map[string]func(closedMs, openMs int64) (fromMs, toMs int64){
		"all of time": func(int64, int64) (int64, int64) { return 0, math.MaxInt64 },
		"all that it has": func(closedMs, openMs int64) (int64, int64) {
			return (closedMs/keyschema.HourMs - 2) * keyschema.HourMs, (openMs/keyschema.HourMs+1)*keyschema.HourMs - 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs, c := vfs.NewMem(), ingesttest.NewClock()
			r, closedMs, openMs := listsRig(t, fs, c)
			require.NoError(t, r.index.Persist(t.Context()))
			fromMs, toMs := span(closedMs, openMs)
			require.Equal(t, 2, r.delete(fromMs, toMs, match(t, "__name__", "=", "m")))
			r.requireLists([]string{"a"}, 1, closedMs, openMs)
			names, err := r.index.LabelValues(t.Context(), "__name__", 0, math.MaxInt64, 0)
			require.NoError(t, err)
			require.Equal(t, []string{"other"}, names)
			require.NoError(t, r.log.Close()) // as a crash that loses nothing
			r.jobs.Wait()
			require.NoError(t, r.store.Close())
			r, err = deletionRig(t, fs, c, nil)
			require.NoError(t, err)
			defer func() { r.close() }()
			r.requireLists([]string{"a"}, 1, closedMs, openMs)
			for n := range 2 {
				_, err = r.Ingester.Write(t.Context(), SamplesInput([]Sample{
					{Labels: labels.FromStrings("__name__", "m", "x", fmt.Sprint(n)), TsMs: closedMs, Value: 1},
				}))
				require.NoError(t, err)
			}
			r.requireLists([]string{"0", "1", "a"}, 3, closedMs)
			require.NoError(t, r.deleter.CleanIndex(t.Context()))
			r.requireLists([]string{"0", "1", "a"}, 3, closedMs)
		})
	}
}
