package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/memory"
	"halite/storage/index/segment"
	"halite/storage/storagetest"
	"halite/storage/storagetest/seeds"
)

// hookedStore calls hook before each write. The result of hook may fail the write before or after it takes effect.
type hookedStore struct {
	storage.Store
	hook func() (before, after error)
}

func (s *hookedStore) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	t, err := s.Store.EnsureTable(ctx, schema)
	return &hookedTable{t, s}, err
}

type hookedTable struct {
	storage.Table
	s *hookedStore
}

func (t *hookedTable) write(do func() error) error {
	before, after := t.s.hook()
	if before != nil {
		return before
	}
	if err := do(); err != nil {
		return err
	}
	return after
}

func (t *hookedTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	return t.write(func() error { return t.Table.Apply(ctx, muts) })
}

func (t *hookedTable) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (matched bool, err error) {
	err = t.write(func() error {
		matched, err = t.Table.CheckAndApply(ctx, key, cond, then, otherwise)
		return err
	})
	return matched, err
}

// fact is an hour in which a series has samples.
type fact struct {
	series string
	hour   int64
}

// sharedWorld has several processes over the same tables.
type sharedWorld struct {
	t      *testing.T
	rng    *rand.Rand
	clock  atomic.Int64 // hours since 1970
	tables storage.Store
	schema *keyschema.Schema
	nodes  []*Index
	layout segment.Layout

	attempted, stored map[fact]bool
	sets              map[string]labels.Labels
	faults            bool
	depth             int // number of nested writes: each runs inside a write of another process
}

func newSharedWorld(t *testing.T, seed uint64, processes int) *sharedWorld {
	w := &sharedWorld{t: t, rng: rand.New(rand.NewPCG(seed, 3)), attempted: map[fact]bool{}, stored: map[fact]bool{},
		sets: map[string]labels.Labels{}}
	w.clock.Store(baseDay*24 + 20)
	w.tables = storagetest.NewModel(w.now)
	var err error
	w.schema, err = keyschema.NewSchema(nil)
	require.NoError(t, err)
	w.layout = newWorld(t, seed).layout
	w.layout.Months.DaysMin = 1
	for range processes {
		w.nodes = append(w.nodes, w.start())
	}
	return w
}

func (w *sharedWorld) now() time.Time { return time.UnixMilli(keyschema.HourStartMs(w.clock.Load())) }

// start opens the tables as a new process.
func (w *sharedWorld) start() *Index {
	faults := w.faults
	w.faults = false
	defer func() { w.faults = faults }()
	x, err := Open(context.Background(), Options{
		Store: &hookedStore{w.tables, w.interfere}, Schema: w.schema, Now: w.now, Writer: segment.NewWriter(), CacheBytesMax: 1 << 16,
	})
	require.NoError(w.t, err)
	x.store.Layout = w.layout
	return x
}

// interfere fails writes, and sometimes runs other processes before a write continues.
func (w *sharedWorld) interfere() (before, after error) {
	if !w.faults {
		return nil, nil
	}
	unavailable := fmt.Errorf("injected: %w", storage.ErrUnavailable)
	switch w.rng.IntN(40) {
	case 0, 1:
		return unavailable, nil
	case 2, 3:
		return nil, unavailable
	case 4, 5:
		if w.depth < 1 {
			w.depth++
			w.others()
			w.depth--
		}
	}
	return nil, nil
}

// others lets another process write facts and compact in the middle of a write.
func (w *sharedWorld) others() {
	x := w.start()
	w.markFacts(x)
	if w.rng.IntN(2) == 0 {
		_ = x.Compact(context.Background()) // may fail like any compaction
	}
}

// markFacts touches series in a process and persists the touches, as a write request does.
func (w *sharedWorld) markFacts(x *Index) {
	var marked []fact
	refs := map[fact]memory.Ref{}
	for range 1 + w.rng.IntN(10) {
		ls := labels.FromStrings(model.MetricNameLabel, fmt.Sprint("m", w.rng.IntN(3)), "a", fmt.Sprint(w.rng.IntN(12)))
		hour := w.clock.Load()
		if w.rng.IntN(4) == 0 {
			hour -= w.rng.Int64N(60)
		}
		f := fact{ls.String(), hour}
		w.sets[f.series] = ls
		ref, _, err := x.Add(ls)
		require.NoError(w.t, err)
		w.attempted[f] = true
		if !x.IsPersisted(ref, hour) {
			x.MarkActive(ref, hour)
		}
		marked, refs[f] = append(marked, f), ref
	}
	if x.Persist(context.Background()) != nil {
		return
	}
	for _, f := range marked {
		require.True(w.t, x.IsPersisted(refs[f], f.hour))
		w.stored[f] = true
	}
}

// check compares the view of a process with the facts that must be stored and may be stored.
func (w *sharedWorld) check(x *Index, stored map[fact]bool, what string) {
	w.t.Helper()
	found, err := x.Select(context.Background(), nil, 0, keyschema.HourCellMs(w.clock.Load()))
	require.NoError(w.t, err, what)
	seen := map[fact]bool{}
	for _, s := range found {
		for _, span := range s.Hours {
			for hour := span.First; hour <= span.Last; hour++ {
				f := fact{s.Labels.String(), hour}
				seen[f] = true
				require.True(w.t, w.attempted[f], "%s: no process has marked %v", what, f)
			}
		}
	}
	for f := range stored {
		require.True(w.t, seen[f], "%s: %v was stored and is not seen", what, f)
	}
}

func (w *sharedWorld) step() {
	n := w.rng.IntN(len(w.nodes))
	x := w.nodes[n]
	switch w.rng.IntN(9) {
	case 0, 1, 2, 3:
		w.markFacts(x)
	case 4, 5:
		before := map[fact]bool{}
		for f := range w.stored {
			before[f] = true
		}
		// A refresh may run during a compaction. The next refresh sees the facts that the first one missed.
		faults := w.faults
		w.faults = false
		require.NoError(w.t, x.Refresh(context.Background()))
		require.NoError(w.t, x.Refresh(context.Background()))
		w.faults = faults
		w.check(x, before, "after a refresh")
	case 6:
		_ = x.Compact(context.Background())
	case 7:
		w.clock.Add(w.rng.Int64N(9))
		require.NoError(w.t, x.Maintain(context.Background()))
	case 8:
		w.nodes[n] = w.start()
		w.check(w.nodes[n], w.stored, "after a start")
	}
}

// TestSharedIndex: several processes write facts, compact and crash in any order, also in the middle of each other's writes.
// Some writes fail before or after they take effect. After a refresh every process sees all stored facts and no others. In the
// end the journal is empty and the segments hold everything.
func TestSharedIndex(t *testing.T) {
	first, count := seeds.Range(t, seeds.Default{Full: 12, Short: 4})
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newSharedWorld(t, seed, 3)
			for i := range 250 {
				w.faults = i%50 > 15
				w.step()
			}
			w.faults = false
			w.clock.Add(26)
			for _, x := range w.nodes {
				require.NoError(t, x.Persist(context.Background()))
			}
			require.NoError(t, w.nodes[0].Compact(context.Background()))
			w.clock.Add(1) // partitions that were compacted half an hour ago are due again
			require.NoError(t, w.nodes[0].Compact(context.Background()))
			for f := range w.attempted { // a process retries a failed fact, or the fact died with the process
				if w.seesStored(f) {
					w.stored[f] = true
				}
			}
			require.Empty(t, w.journal(), "all parts are compacted")
			for _, x := range append(w.nodes, w.start()) {
				require.NoError(t, x.Refresh(context.Background()))
				w.check(x, w.stored, "in the end")
				require.Empty(t, x.open.All(), "all days are compacted")
			}
			w.exclusive()
		})
	}
}

// exclusive opens the tables as the only process. Its facts and its compaction join the rest.
func (w *sharedWorld) exclusive() {
	w.markFacts(w.nodes[1]) // leaves a journal record
	x, err := Open(context.Background(), Options{Store: w.tables, Schema: w.schema, Now: w.now})
	require.NoError(w.t, err)
	w.check(x, w.stored, "alone")
	w.clock.Add(26)
	require.NoError(w.t, x.Maintain(context.Background()))
	w.check(x, w.stored, "alone, compacted")
	require.Empty(w.t, w.journal())
	w.check(w.start(), w.stored, "shared again")
}

func (w *sharedWorld) seesStored(f fact) bool {
	from := keyschema.HourStartMs(f.hour)
	found, err := w.nodes[0].Select(context.Background(), nil, from, from)
	require.NoError(w.t, err)
	return slices.ContainsFunc(found, func(s Series) bool { return s.Labels.String() == f.series })
}

func (w *sharedWorld) journal() (keys []string) {
	rows := segment.PrefixRows(segment.JournalPrefix)
	it := w.nodes[0].store.SeriesTable.ReadRows(context.Background(), rows, storage.ReadOptions{})
	for it.Next() {
		keys = append(keys, string(it.Row().Key))
	}
	require.NoError(w.t, it.Err())
	return keys
}
