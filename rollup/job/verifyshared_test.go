package job

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/cell"
	"halite/rollup/store"
	"halite/storage"
)

// ReadRows makes other processes work between the rows.
func (t disturbedTable) ReadRows(ctx context.Context, set storage.RowSet, opts storage.ReadOptions) storage.RowIter {
	return disturbedRows{t.Table.ReadRows(ctx, set, opts), t.r}
}

type disturbedRows struct {
	storage.RowIter
	r *sharedRig
}

func (it disturbedRows) Next() bool {
	if r := it.r; r.crowded && !r.busy && r.rng.IntN(20) == 0 {
		r.busy = true
		r.clock.Add(r.rng.Int64N(600_000))
		r.step(1 + r.rng.IntN(len(r.nodes)-1))
		r.busy = false
	}
	return it.RowIter.Next()
}

// verify runs Verify in the first process and counts the differences.
func (r *sharedRig) verify() Verification {
	r.Helper()
	differ := 0
	v, err := r.nodes[0].Verify(r.Context(), firstDay-6, 1<<40, func(Difference) error {
		differ++
		return nil
	})
	require.NoError(r, err)
	require.Equal(r, differ, v.Different)
	return v
}

// falsify changes the stored maximum of an hour.
func (r *sharedRig) falsify() {
	table, err := r.tables.Table(r.Context(), storage.TableRollup)
	require.NoError(r, err)
	hours := storage.Filter{Families: []string{storage.FamilyHours}}
	it := table.ReadRows(r.Context(), allRows(), storage.ReadOptions{Filter: hours})
	defer it.Close()
	for it.Next() {
		row := it.Row()
		_, month, _ := keyschema.CutMonth(row.Key)
		for _, c := range row.Cells {
			if !store.IsStates(c.Qualifier) {
				continue
			}
			fromMs := (store.MonthStart(month) + int64(c.Qualifier[0]) - 1) * dayMs
			var columns rollup.Columns
			columns.Reset(fromMs, keyschema.HourMs, keyschema.DayHours, rollup.FieldsAll)
			_, err := new(cell.Decoder).Decode(&columns, row.Key, c.Qualifier, c.Value, fromMs, keyschema.DayHours)
			require.NoError(r, err)
			var states [keyschema.DayHours]rollup.State
			for h := range states {
				states[h] = columns.State(h)
			}
			at := slices.IndexFunc(states[:], func(s rollup.State) bool { return s.Count > 0 })
			if at < 0 {
				continue
			}
			states[at].Max = 1e9
			value, err := new(cell.Encoder).Append(nil, row.Key, c.Qualifier, fromMs, keyschema.HourMs, rollup.FieldsAll, states[:])
			require.NoError(r, err)
			require.NoError(r, table.Apply(r.Context(), []storage.RowMutation{{Key: row.Key, Entries: []storage.Entry{{
				Kind: storage.SetCell, Family: c.Family, Qualifier: c.Qualifier, TsMs: c.TsMs, Value: value,
			}}}}))
			return
		}
	}
	require.Fail(r, "there is no state")
}

// TestVerifyDuringWrites: while other processes write late rows and compute, Verify reports all differences and no others.
func TestVerifyDuringWrites(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := newSharedRig(t, seed)
			compared, stale := 0, 0
			for range 40 {
				for range 6 {
					r.step(r.rng.IntN(len(r.nodes)))
				}
				r.clock.Add(r.rng.Int64N(5 * 3_600_000))
				r.crowded = true
				v := r.verify()
				r.crowded = false
				require.Zero(t, v.Different)
				compared, stale = compared+v.Hours+v.Days, stale+v.Stale+v.PendingDays
			}
			t.Logf("%d buckets compared, %d stale", compared, stale)
			require.NotZero(t, compared)

			r.clock.Add(40 * dayMs)
			for worked := true; worked; {
				var err error
				worked, err = r.nodes[1].Step(t.Context())
				require.NoError(t, err)
			}
			require.Zero(t, r.verify().Different)
			r.falsify()
			require.Equal(t, 2, r.verify().Different, "an hour, and its day")
			r.clock.Add(3_600_000)
			r.nodes[0].sleep = func(context.Context, time.Duration) error {
				r.clock.Add(300_000)
				return nil
			}
			require.NoError(t, r.nodes[0].Rebuild(t.Context(), firstDay-6, 1<<40))
			require.Zero(t, r.verify().Different)
		})
	}
}
