package tombstone_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/storage"
	"halite/storage/storagetest"
	"halite/storage/tombstone"
)

const hourMs = int64(keyschema.HourMs)

func eq(name, value string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchEqual, name, value)
}

func open(t testing.TB, store storage.Store) *tombstone.Set {
	t.Helper()
	set, err := tombstone.Open(context.Background(), tombstone.Options{Store: store})
	require.NoError(t, err)
	return set
}

func dataTable(t testing.TB, store storage.Store) storage.Table {
	t.Helper()
	table, err := store.EnsureTable(context.Background(), storage.DataSchema(0))
	require.NoError(t, err)
	return table
}

func rowKey(x string, hour int64) []byte {
	rule := keyschema.DefaultRule()
	return keyschema.AppendHour(rule.AppendPrefix(nil, "m", []keyschema.Tag{{Name: "x", Value: x}}), hour)
}

// put writes a chunk.
func put(t testing.TB, table storage.Table, x string, hour int64, seq uint32, tsMs ...int64) {
	t.Helper()
	values := make([]float64, len(tsMs))
	for i := range values {
		values[i] = float64(seq)
	}
	value, err := chunk.Append(nil, hour*hourMs, tsMs, values)
	require.NoError(t, err)
	require.NoError(t, table.Apply(context.Background(), []storage.RowMutation{{Key: rowKey(x, hour), Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilySamples, Qualifier: keyschema.AppendChunkQualifier(nil, seq),
		TsMs: keyschema.HourCellMs(hour), Value: value,
	}}}}))
}

// get reads all rows. It returns the samples by row key, with the sequence as value, and the keys of a keys-only read.
func get(t testing.TB, table storage.Table, opts storage.ReadOptions) (samples map[string]map[int64]float64) {
	t.Helper()
	samples = map[string]map[int64]float64{}
	for _, keysOnly := range []bool{false, true} {
		opts.Filter.KeysOnly = keysOnly
		it := table.ReadRows(t.Context(), storage.RowSet{Ranges: []storage.RowRange{{}}}, opts)
		rows := 0
		for it.Next() {
			rows++
			key := string(it.Row().Key)
			if keysOnly {
				require.Contains(t, samples, key)
				continue
			}
			k, err := keyschema.ParseRowKey(it.Row().Key)
			require.NoError(t, err)
			var row chunk.Row
			row.Reset(k.Hour * hourMs)
			for _, c := range it.Row().Cells {
				require.NoError(t, row.Add(c.Qualifier, c.Value))
			}
			tsMs, values := row.Columns()
			require.NotEmpty(t, tsMs)
			samples[key] = map[int64]float64{}
			for i, ts := range tsMs {
				samples[key][ts] = values[i]
			}
		}
		require.NoError(t, it.Err())
		require.NoError(t, it.Close())
		require.Len(t, samples, rows)
	}
	return samples
}

// atOnce runs a change without an announcement.
func atOnce(change func() error) error { return change() }

func add(t testing.TB, set *tombstone.Set, seq uint32, fromMs, toMs int64, ms ...*labels.Matcher) *tombstone.Tombstone {
	t.Helper()
	tomb := &tombstone.Tombstone{ID: set.NextID(), Seq: seq, FromMs: fromMs, ToMs: toMs,
		Selectors: [][]*labels.Matcher{ms}}
	require.NoError(t, tomb.Validate())
	require.NoError(t, set.Add(tomb, atOnce, func() error { return nil }))
	return tomb
}

func TestReadsLackWhatWasDeleted(t *testing.T) {
	ctx := context.Background()
	store := storagetest.NewModel(time.Now)
	set := open(t, store)
	table := dataTable(t, set.Store())
	put(t, table, "a", 10, 5, 10*hourMs, 10*hourMs+1, 10*hourMs+2)
	put(t, table, "a", 10, 9, 10*hourMs+1)
	put(t, table, "a", 11, 6, 11*hourMs)
	put(t, table, "b", 10, 7, 10*hourMs)
	old := set.View()
	add(t, set, 8, 10*hourMs+1, 12*hourMs, eq("x", "a"))
	require.Equal(t, map[string]map[int64]float64{
		string(rowKey("a", 10)): {10 * hourMs: 5, 10*hourMs + 1: 9},
		string(rowKey("b", 10)): {10 * hourMs: 7},
	}, get(t, table, storage.ReadOptions{}))
	require.Len(t, get(t, table, storage.ReadOptions{RowsMax: 2}), 2, "rows that are left out do not count")
	require.Len(t, get(t, table, storage.ReadOptions{Deletions: old}), 3, "an older view sees all")
	require.False(t, old.Current())

	waiting, cancel := context.WithCancel(ctx)
	cancel()
	_, err := set.SnapshotExclusive(waiting)
	require.ErrorIs(t, err, context.Canceled)
	_, err = set.Stable(waiting)
	require.ErrorIs(t, err, context.Canceled, "it may be lost with the power")
	old.Release()
	alone, err := set.SnapshotExclusive(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, alone.LastID())
	alone.Release()
	set.Confirm(1)
	stable, err := set.Stable(waiting)
	require.NoError(t, err)
	stable.Release()
}

// TestSnapshotExclusiveAmongDeletions: a caller that waits for older views does not wait for its own view, even if a
// deletion makes it old.
func TestSnapshotExclusiveAmongDeletions(t *testing.T) {
	ctx, set := context.Background(), open(t, storagetest.NewModel(time.Now))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 2000 {
			add(t, set, uint32(i), 1, 2, eq("x", "a"))
			set.Confirm(uint64(i + 1))
		}
	}()
	for {
		v, err := set.SnapshotExclusive(ctx)
		require.NoError(t, err)
		v.Release()
		select {
		case <-done:
			return
		default:
		}
	}
}

func TestTombstonesAreKept(t *testing.T) {
	ctx := context.Background()
	store := storagetest.NewModel(time.Now)
	set := open(t, store)
	first := add(t, set, 8, 1, 2, eq("x", "a"))
	second := add(t, set, 9, 3, 4, eq("__name__", "m"))
	require.Zero(t, open(t, store).Len())
	require.NoError(t, set.Save(ctx))
	set = open(t, store)
	require.Equal(t, 2, set.Len())
	require.Equal(t, second.String(), set.Find(second.ID).String())
	require.NoError(t, set.MarkIndexed(t.Context(), first.ID))
	_, err := set.Drop(ctx, []uint64{second.ID})
	require.NoError(t, err)
	set = open(t, store)
	require.Equal(t, 1, set.Len())
	require.Equal(t, uint64(3), set.NextID(), "an id is not given twice")
	_, err = set.Drop(ctx, []uint64{first.ID})
	require.NoError(t, err)
	require.Equal(t, uint64(3), open(t, store).NextID())
}

func TestDamagedTombstoneIsNamed(t *testing.T) {
	ctx := context.Background()
	store := storagetest.NewModel(time.Now)
	set := open(t, store)
	add(t, set, 8, 1, 2, eq("x", "a"))
	require.NoError(t, set.Save(ctx))
	meta, err := store.Table(ctx, storage.TableMeta)
	require.NoError(t, err)
	require.NoError(t, meta.Apply(ctx, []storage.RowMutation{{Key: []byte("tombstones#live"), Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte{0, 0, 0, 0, 0, 0, 0, 1}, Value: []byte("bad"),
	}}}}))
	_, err = tombstone.Open(ctx, tombstone.Options{Store: store})
	require.ErrorIs(t, err, storage.ErrCorrupt)
	require.ErrorContains(t, err, "0000000000000001")
	set, err = tombstone.Open(ctx, tombstone.Options{Store: store, AcceptLoss: true})
	require.NoError(t, err)
	require.Zero(t, set.Len())
}

func TestFailedCutLeavesAll(t *testing.T) {
	set := open(t, storagetest.NewModel(time.Now))
	err := set.Add(&tombstone.Tombstone{ID: 1}, atOnce, func() error { return errors.New("full") })
	require.ErrorContains(t, err, "full")
	require.Zero(t, set.Len())
	_, err = set.Read(func() error { return errors.New("broken") })
	require.ErrorContains(t, err, "broken")
}

// TestHashedTags: if a key does not hold all tags, the filter looks up the label set, and only if the decision depends
// on it.
func TestHashedTags(t *testing.T) {
	ctx := context.Background()
	set := open(t, storagetest.NewModel(time.Now))
	table := dataTable(t, set.Store())
	long := ""
	for i := range 400 {
		long += fmt.Sprint("value ", i, "; ")
	}
	put(t, table, long, 10, 5, 10*hourMs)
	other := add(t, set, 8, 0, 12*hourMs, eq("__name__", "other"))
	require.Len(t, get(t, table, storage.ReadOptions{}), 1)
	add(t, set, 8, 0, 12*hourMs, eq("x", long))
	it := table.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
	require.False(t, it.Next())
	require.ErrorContains(t, it.Err(), "label set")
	require.NoError(t, it.Close())
	set.SetLabelSets(func(context.Context, string, string) ([]keyschema.Tag, error) {
		return []keyschema.Tag{{Name: "x", Value: long}}, nil
	})
	require.Empty(t, get(t, table, storage.ReadOptions{}))
	_, err := set.Drop(ctx, []uint64{other.ID, other.ID + 1})
	require.NoError(t, err)
	require.Len(t, get(t, table, storage.ReadOptions{}), 1)
}

// TestFilterModel compares reads with a model that filters sample by sample.
func TestFilterModel(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 5))
		set := open(t, storagetest.NewModel(time.Now))
		table := dataTable(t, set.Store())
		names := []string{"a", "b", "c"}
		want := map[string]map[int64]float64{}
		for seq := uint32(1); seq < 40; seq++ {
			x := names[rng.IntN(3)]
			if rng.IntN(3) == 0 {
				from := 10*hourMs + rng.Int64N(3*hourMs)
				to := from + rng.Int64N(2*hourMs)
				add(t, set, seq, from, to, eq("x", x), labels.MustNewMatcher(labels.MatchRegexp, "__name__", "m.*"))
				for hour := int64(10); hour < 16; hour++ {
					for ts := range want[string(rowKey(x, hour))] {
						if from <= ts && ts <= to {
							delete(want[string(rowKey(x, hour))], ts)
						}
					}
				}
				continue
			}
			hour := 10 + rng.Int64N(4)
			var tsMs []int64
			for ts := hour * hourMs; ts < (hour+1)*hourMs; ts += 1 + rng.Int64N(hourMs/5) {
				tsMs = append(tsMs, ts)
				key := string(rowKey(x, hour))
				if want[key] == nil {
					want[key] = map[int64]float64{}
				}
				want[key][ts] = float64(seq)
			}
			put(t, table, x, hour, seq, tsMs...)
		}
		for key := range want {
			if len(want[key]) == 0 {
				delete(want, key)
			}
		}
		require.Equal(t, want, get(t, table, storage.ReadOptions{}), "seed %d", seed)
	}
}

func TestEverything(t *testing.T) {
	m := labels.MustNewMatcher
	for _, c := range []struct {
		everything bool
		ms         []*labels.Matcher
	}{
		{true, []*labels.Matcher{m(labels.MatchRegexp, "__name__", ".+")}},
		{true, []*labels.Matcher{m(labels.MatchRegexp, "__name__", ".*")}},
		{true, []*labels.Matcher{m(labels.MatchNotEqual, "__name__", "")}},
		{true, []*labels.Matcher{m(labels.MatchNotEqual, "__name__", "x")}},
		{true, []*labels.Matcher{m(labels.MatchNotRegexp, "__name__", "x.*"), m(labels.MatchEqual, "job", "")}},
		{true, []*labels.Matcher{m(labels.MatchRegexp, "job", ".+")}},
		{false, []*labels.Matcher{m(labels.MatchEqual, "__name__", "up")}},
		{false, []*labels.Matcher{m(labels.MatchRegexp, "__name__", ".+"), m(labels.MatchEqual, "job", "x")}},
		{false, []*labels.Matcher{m(labels.MatchRegexp, "__name__", "node_.*")}},
		{false, []*labels.Matcher{m(labels.MatchRegexp, "job", "a|b")}},
	} {
		require.Equal(t, c.everything, tombstone.Everything([][]*labels.Matcher{c.ms}), "%v", c.ms)
	}
	require.True(t, tombstone.Everything([][]*labels.Matcher{
		{eq("__name__", "up")}, {m(labels.MatchRegexp, "__name__", ".+")},
	}))
}

// TestSingleSamples: a single sample is hidden by every tombstone of its time.
func TestSingleSamples(t *testing.T) {
	ctx := context.Background()
	set := open(t, storagetest.NewModel(time.Now))
	table := dataTable(t, set.Store())
	put(t, table, "a", 10, 5, 10*hourMs+7)
	m := storage.RowMutation{Key: rowKey("a", 10)}
	for _, offset := range []uint32{1, 2, 3} {
		m.Entries = append(m.Entries, storage.Entry{
			Kind: storage.SetCell, Family: storage.FamilySamples, Qualifier: keyschema.AppendSampleQualifier(nil, offset),
			TsMs: keyschema.HourCellMs(10), Value: chunk.AppendSampleValue(nil, float64(offset)),
		})
	}
	require.NoError(t, table.Apply(ctx, []storage.RowMutation{m}))
	add(t, set, 1, 10*hourMs+2, 10*hourMs+3, eq("x", "a"))
	require.Equal(t, map[string]map[int64]float64{
		string(rowKey("a", 10)): {10*hourMs + 1: 1, 10*hourMs + 7: 5},
	}, get(t, table, storage.ReadOptions{}))
	add(t, set, 6, 10*hourMs, 10*hourMs+7, eq("x", "a"))
	require.Empty(t, get(t, table, storage.ReadOptions{}))
}
