package job

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/rollup"
	"halite/rollup/store"
	"halite/storage"
	"halite/storage/storagetest"
)

// sharedRig has several processes over the same tables. All of them believe that they hold the lease.
type sharedRig struct {
	*testing.T
	rng    *rand.Rand
	clock  atomic.Int64
	tables storage.Store
	nodes  []*Rollups
	data   []storage.Table // writes invalidate states
	faults bool
	at     int  // the process that works
	busy   bool // others work in the middle of its write
	writes int
	// crowded makes other processes work during reads of rows.
	crowded bool
	failed  int
}

func (r *sharedRig) now() time.Time { return time.UnixMilli(r.clock.Load()) }

// disturbed is a store whose writes fail at random, and during which other processes work.
type disturbed struct {
	storage.Store
	r *sharedRig
}

func (s disturbed) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	t, err := s.Store.EnsureTable(ctx, schema)
	return disturbedTable{t, s.r}, err
}

type disturbedTable struct {
	storage.Table
	r *sharedRig
}

func (t disturbedTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	return t.r.disturb(func() error { return t.Table.Apply(ctx, muts) })
}

func (t disturbedTable) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (matched bool, err error) {
	err = t.r.disturb(func() (err error) {
		matched, err = t.Table.CheckAndApply(ctx, key, cond, then, otherwise)
		return err
	})
	return matched, err
}

// disturb runs a write. It may fail before the write or after it.
func (r *sharedRig) disturb(write func() error) error {
	if !r.faults {
		return write()
	}
	n := r.rng.IntN(100)
	if n < 30 && !r.busy {
		r.busy = true
		for range 1 + r.rng.IntN(3) {
			r.clock.Add(r.rng.Int64N(20_000))
			r.step((r.at + 1 + r.rng.IntN(len(r.nodes)-1)) % len(r.nodes))
		}
		r.busy = false
	}
	if n == 98 {
		return fmt.Errorf("injected: %w", storage.ErrUnavailable)
	}
	if err := write(); err != nil || n != 99 {
		return err
	}
	return fmt.Errorf("injected, after: %w", storage.ErrUnavailable)
}

const sharedSeries = 5

func sharedPrefix(i int) []byte {
	rule := keyschema.DefaultRule()
	return rule.AppendPrefix(nil, "m", []keyschema.Tag{{Name: "i", Value: fmt.Sprint(i)}})
}

func newSharedRig(t *testing.T, seed uint64) *sharedRig {
	r := &sharedRig{T: t, rng: rand.New(rand.NewPCG(seed, 17))}
	r.clock.Store(firstDay*dayMs + 3_600_000)
	r.tables = storagetest.NewModel(r.now)
	for range 3 {
		n, err := Open(t.Context(), store.Options{Tables: disturbed{r.tables, r}, Now: r.now, MarksMax: 4,
			Shared: &store.Shared{HoldsLease: func() bool { return true }, Margin: 15 * time.Minute, Tick: r.now,
				Fresh: func(context.Context) error { return nil },
			}}, Options{Share: 1, Settle: -1})
		require.NoError(t, err)
		data, err := n.Invalidating(disturbed{r.tables, r}).EnsureTable(t.Context(), storage.DataSchema(0))
		require.NoError(t, err)
		r.nodes, r.data = append(r.nodes, n), append(r.data, data)
	}
	return r
}

// write writes samples of the last days.
func (r *sharedRig) write(node int) {
	var muts []storage.RowMutation
	for range 1 + r.rng.IntN(6) {
		hour := keyschema.HourOf(r.clock.Load() - r.rng.Int64N(1+r.rng.Int64N(4*dayMs)))
		muts = append(muts, storage.RowMutation{
			Key: keyschema.AppendHour(sharedPrefix(r.rng.IntN(sharedSeries)), hour),
			Entries: []storage.Entry{{Kind: storage.SetCell, Family: storage.FamilySamples, TsMs: keyschema.HourCellMs(hour),
				Qualifier: keyschema.AppendSampleQualifier(nil, uint32(r.rng.IntN(60))*60_000),
				Value:     chunk.AppendSampleValue(nil, r.rng.NormFloat64())}},
		})
	}
	r.writes++
	if r.data[node].Apply(context.Background(), muts) != nil {
		r.failed++
	}
}

func (r *sharedRig) step(node int) {
	if r.rng.IntN(3) > 0 {
		r.write(node)
		return
	}
	_, _ = r.nodes[node].Step(context.Background()) // it may fail, or lose to another process
}

// check compares all states that a process would use with the rows. It returns the number of states.
func (r *sharedRig) check(node int, all bool) (known int) {
	r.Helper()
	t := r.nodes[node]
	require.NoError(r, t.Refresh(r.Context()))
	data, err := r.tables.Table(r.Context(), storage.TableData)
	require.NoError(r, err)
	for i := range sharedSeries {
		hours := map[int64]rollup.State{}
		start, end := keyschema.SeriesRange(sharedPrefix(i), 0, keyschema.HourMax)
		rows := storage.RowSet{Ranges: []storage.RowRange{{Start: start, End: end}}}
		it := data.ReadRows(r.Context(), rows, storage.ReadOptions{})
		for it.Next() {
			k, err := keyschema.ParseRowKey(it.Row().Key)
			require.NoError(r, err)
			var row chunk.Row
			row.Reset(keyschema.HourStartMs(k.Hour))
			for _, c := range it.Row().Cells {
				require.NoError(r, row.Add(c.Qualifier, c.Value))
			}
			hours[k.Hour] = rollup.Compute(row.Columns())
		}
		require.NoError(r, it.Err())
		from, to := int64(firstDay-5)*keyschema.DayHours, keyschema.HourOf(r.clock.Load())
		req := store.Request{Prefixes: [][]byte{sharedPrefix(i)}, From: from, To: to, Fields: rollup.FieldsAll}
		require.NoError(r, t.Read(r.Context(), req,
			func(_ int, c *rollup.Columns) error {
				for hour := from; hour <= to; hour++ {
					if !c.Known[hour-from] {
						require.False(r, all && hours[hour].Count > 0 && t.Manifest.View().Closed >= hour/keyschema.DayHours,
							"series %d hour %d has no state", i, hour)
						continue
					}
					known++
					require.True(r, same(c.State(int(hour-from)), hours[hour]), "process %d, series %d hour %d: %+v, want %+v",
						node, i, hour, c.State(int(hour-from)), hours[hour])
				}
				return nil
			}))
		r.checkDays(t, i, hours)
	}
	return known
}

// checkDays compares the states of days.
func (r *sharedRig) checkDays(t *Rollups, i int, hours map[int64]rollup.State) {
	from, to := int64(firstDay-5), store.DayOf(r.clock.Load())
	require.NoError(r, t.Read(r.Context(), store.Request{Prefixes: [][]byte{sharedPrefix(i)}, Unit: store.Days, From: from, To: to,
		Fields: rollup.FieldsAll}, func(_ int, c *rollup.Columns) error {
		for day := from; day <= to; day++ {
			count := uint64(0)
			for h := range int64(keyschema.DayHours) {
				count += uint64(hours[day*keyschema.DayHours+h].Count)
			}
			if c.Known[day-from] {
				require.Equal(r, count, uint64(c.State(int(day-from)).Count), "series %d day %d", i, day)
			}
		}
		return nil
	}))
}

// TestSharedStatesAreRight: processes write late rows, compute states, fail, and take over from each other, also during each
// other's writes. Whenever no write is in progress, the states that a process uses equal the states of the rows. In the end
// no state is missing.
func TestSharedStatesAreRight(t *testing.T) {
	known, writes, failed := 0, 0, 0
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := newSharedRig(t, seed)
			for range 150 {
				r.faults = true
				r.at = r.rng.IntN(len(r.nodes))
				r.step(r.at)
				if r.rng.IntN(4) == 0 {
					r.clock.Add(r.rng.Int64N(1 + r.rng.Int64N(6*3_600_000)))
				}
				r.faults = false
				known += r.check(r.rng.IntN(len(r.nodes)), false)
			}
			r.clock.Add(40 * dayMs)
			for worked := true; worked; {
				var err error
				worked, err = r.nodes[0].Step(t.Context())
				require.NoError(t, err)
			}
			r.clock.Add(3_600_000)
			for worked := true; worked; {
				var err error
				worked, err = r.nodes[1].Step(t.Context())
				require.NoError(t, err)
			}
			for n := range r.nodes {
				require.NotZero(t, r.check(n, true))
			}
			writes, failed = writes+r.writes, failed+r.failed
		})
	}
	t.Logf("%d states compared; %d writes, %d of them failed", known, writes, failed)
	require.NotZero(t, known)
}
