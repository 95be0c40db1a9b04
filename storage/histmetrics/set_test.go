package histmetrics_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/histmetrics"
	"halite/storage/pebble"
)

func openStore(t testing.TB, fs vfs.FS) (storage.Store, storage.Table) {
	t.Helper()
	store, err := pebble.Open(pebble.Options{Dir: "/db", FS: fs, CacheBytes: 1 << 20, MemtableBytes: 256 << 10})
	require.NoError(t, err)
	meta, err := store.EnsureTable(context.Background(), storage.MetaSchema())
	require.NoError(t, err)
	return store, meta
}

func open(t testing.TB, meta storage.Table) *histmetrics.Set {
	t.Helper()
	s, err := histmetrics.Open(context.Background(), meta)
	require.NoError(t, err)
	return s
}

// TestSetAgainstMap marks at random and reopens the set repeatedly. The set always has the persisted hours.
func TestSetAgainstMap(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 2))
	store, meta := openStore(t, vfs.NewMem())
	defer func() { require.NoError(t, store.Close()) }()
	type hours struct{ first, last int64 }
	want := map[string]hours{}
	s := open(t, meta)
	for range 300 {
		metric := fmt.Sprintf("größe#%d", rng.IntN(20))
		hour := int64(470_000 + rng.IntN(200))
		s.Mark(metric, hour)
		h, known := want[metric]
		if !known {
			h = hours{hour, hour}
		}
		want[metric] = hours{min(h.first, hour), max(h.last, hour)}
		if rng.IntN(10) == 0 {
			require.NoError(t, s.Persist(ctx))
			s = open(t, meta)
		}
		require.Equal(t, len(want), s.Len())
		for metric, h := range want {
			require.True(t, s.Has(metric, h.first, h.first))
			require.True(t, s.Has(metric, h.last, h.last))
			require.True(t, s.Has(metric, 0, 500_000))
			require.False(t, s.Has(metric, 0, h.first-1))
			require.False(t, s.Has(metric, h.last+24, 500_000), "at most the rest of a day more")
		}
		require.False(t, s.Has("other", 0, 500_000))
	}
}

// TestUnpersistedMarksAreLost documents which hours replay must mark again.
func TestUnpersistedMarksAreLost(t *testing.T) {
	store, meta := openStore(t, vfs.NewMem())
	defer func() { require.NoError(t, store.Close()) }()
	s := open(t, meta)
	s.Mark("m", 5)
	require.True(t, s.Has("m", 5, 5))
	require.False(t, open(t, meta).Has("m", 5, 5))
	require.NoError(t, s.Persist(context.Background()))
	require.True(t, open(t, meta).Has("m", 5, 5))
	var none *histmetrics.Set
	require.False(t, none.Has("m", 0, 10))
}

// TestPersistWritesOncePerDay counts the rows that reach the table.
func TestPersistWritesOncePerDay(t *testing.T) {
	ctx := context.Background()
	store, meta := openStore(t, vfs.NewMem())
	defer func() { require.NoError(t, store.Close()) }()
	counted := &countingTable{Table: meta}
	s := open(t, counted)
	for hour := int64(240); hour < 240+48; hour++ {
		s.Mark("m", hour)
		s.Mark("n", hour)
		require.NoError(t, s.Persist(ctx))
	}
	require.Equal(t, 4, counted.rows)
}

type countingTable struct {
	storage.Table
	rows int
}

func (t *countingTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	t.rows += len(muts)
	return t.Table.Apply(ctx, muts)
}

func TestDamagedCell(t *testing.T) {
	ctx := context.Background()
	for _, value := range [][]byte{{}, {1, 2, 3}, {0, 0, 0, 2, 0, 0, 0, 1}, {0, 0, 0, 1, 255, 255, 255, 255}} {
		store, meta := openStore(t, vfs.NewMem())
		require.NoError(t, meta.Apply(ctx, []storage.RowMutation{{Key: []byte("histograms#m"), Entries: []storage.Entry{
			{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte("hours"), Value: value},
		}}}))
		_, err := histmetrics.Open(ctx, meta)
		require.ErrorIs(t, err, storage.ErrCorrupt, "%v", value)
		require.NoError(t, store.Close())
	}
}

// TestConcurrentMarks is for the race detector.
func TestConcurrentMarks(t *testing.T) {
	store, meta := openStore(t, vfs.NewMem())
	defer func() { require.NoError(t, store.Close()) }()
	s := open(t, meta)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for n := range 100 {
				metric := fmt.Sprint("m", n%7)
				s.Mark(metric, int64(1000+n*worker))
				require.True(t, s.Has(metric, int64(1000+n*worker), int64(1000+n*worker)))
				if n%10 == 0 {
					require.NoError(t, s.Persist(context.Background()))
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, s.Persist(context.Background()))
	require.Equal(t, 7, open(t, meta).Len())
}

// TestExpire removes metrics by their last hour, in memory and in the table.
func TestExpire(t *testing.T) {
	ctx := context.Background()
	store, meta := openStore(t, vfs.NewMem())
	defer func() { require.NoError(t, store.Close()) }()
	s := open(t, meta)
	for n := range 3000 { // more than one call of Apply removes
		s.Mark(fmt.Sprint("old", n), 240)
	}
	s.Mark("late", 240)
	s.Mark("late", 300)
	require.NoError(t, s.Persist(ctx))
	s.Mark("unstored", 250)
	require.NoError(t, s.Expire(ctx, 240))
	require.Equal(t, 3002, s.Len())
	require.NoError(t, s.Expire(ctx, 251))
	for _, set := range []*histmetrics.Set{s, open(t, meta)} {
		require.Equal(t, 1, set.Len())
		require.False(t, set.Has("old7", 0, 500))
		require.False(t, set.Has("unstored", 0, 500))
		require.True(t, set.Has("late", 240, 240))
	}
	// A metric that comes back is stored again.
	s.Mark("old7", 400)
	require.False(t, s.Has("old7", 0, 399))
	require.NoError(t, s.Persist(ctx))
	require.True(t, open(t, meta).Has("old7", 400, 400))
}

// TestExpireKeepsWhatIsMarkedMeanwhile marks a metric between the deletion of its cell and its removal.
func TestExpireKeepsWhatIsMarkedMeanwhile(t *testing.T) {
	ctx := context.Background()
	store, meta := openStore(t, vfs.NewMem())
	defer func() { require.NoError(t, store.Close()) }()
	hooked := &hookedTable{Table: meta}
	s := open(t, hooked)
	s.Mark("m", 240)
	require.NoError(t, s.Persist(ctx))
	hooked.after = func() { s.Mark("m", 300) }
	require.NoError(t, s.Expire(ctx, 280))
	hooked.after = nil
	require.True(t, s.Has("m", 300, 300))
	require.NoError(t, s.Persist(ctx))
	require.True(t, open(t, meta).Has("m", 300, 300))
	// A failure keeps the metric.
	hooked.err = errors.New("no space")
	require.ErrorIs(t, s.Expire(ctx, 400), hooked.err)
	require.True(t, s.Has("m", 300, 300))
}

type hookedTable struct {
	storage.Table
	after func()
	err   error
}

func (t *hookedTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	if t.err != nil {
		return t.err
	}
	err := t.Table.Apply(ctx, muts)
	if t.after != nil {
		t.after()
	}
	return err
}
