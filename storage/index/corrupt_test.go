package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/segment"
)

// storedCells lists every cell of the index's tables.
func (w *world) storedCells() (out []placedCell) {
	for _, name := range []string{storage.TableSeries, storage.TableLabels} {
		t, err := w.store.Table(context.Background(), name)
		require.NoError(w.t, err)
		it := t.ReadRows(context.Background(), storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
		for it.Next() {
			row := it.Row()
			for _, c := range row.Cells {
				out = append(out, placedCell{t, slices.Clone(row.Key), storage.Cell{
					Family: c.Family, Qualifier: slices.Clone(c.Qualifier), TsMs: c.TsMs, Value: slices.Clone(c.Value),
				}})
			}
		}
		require.NoError(w.t, it.Err())
		require.NoError(w.t, it.Close())
	}
	return out
}

func partCells(cells []placedCell) (out []placedCell) {
	for _, c := range cells {
		if c.cell.Qualifier[0] == segment.QualRecord {
			out = append(out, c)
		}
	}
	return out
}

type placedCell struct {
	table storage.Table
	key   []byte
	cell  storage.Cell
}

func (p placedCell) write(t *testing.T, value []byte) {
	e := storage.Entry{
		Kind: storage.SetCell, Family: p.cell.Family, Qualifier: p.cell.Qualifier, TsMs: p.cell.TsMs, Value: value,
	}
	if value == nil {
		e = storage.Entry{Kind: storage.DeleteCells, Family: p.cell.Family, Qualifier: p.cell.Qualifier}
	}
	mut := storage.RowMutation{Key: p.key, Entries: []storage.Entry{e}}
	require.NoError(t, p.table.Apply(context.Background(), []storage.RowMutation{mut}))
}

// damage returns a damaged copy of a value: with a flipped bit, truncated, the value of another cell, or nothing.
func damage(rng *rand.Rand, value, other []byte) []byte {
	switch rng.IntN(5) {
	case 0:
		return nil
	case 1:
		return slices.Clone(value[:rng.IntN(len(value))])
	case 2:
		return slices.Clone(other)
	default:
		out := slices.Clone(value)
		out[rng.IntN(len(out))] ^= 1 << rng.IntN(8)
		return out
	}
}

// TestDamageIsNoticed damages one stored cell after another. Look-ups return the right result, or an error that names the row.
// Open repairs a damaged journal, and Rebuild repairs all other damage.
func TestDamageIsNoticed(t *testing.T) {
	errs, repairs := 0, 0
	seeds, cellsEach := uint64(2), 60
	if testing.Short() {
		seeds, cellsEach = 1, 30
	}
	for seed := uint64(20); seed < 20+seeds; seed++ {
		w := lateWorld(t, seed)
		require.True(t, w.maintain())
		for range 30 { // late touches, so that a day has both a journal and a segment
			w.touch(w.add(), w.hourNow()-int64(w.rng.IntN(60)))
		}
		require.True(t, w.persist())
		for range cellsEach {
			cells := w.storedCells()
			c := cells[w.rng.IntN(len(cells))]
			if parts := partCells(cells); w.rng.IntN(5) == 0 && len(parts) > 0 {
				c = parts[w.rng.IntN(len(parts))]
			}
			bad := damage(w.rng, c.cell.Value, cells[w.rng.IntN(len(cells))].cell.Value)
			if string(bad) == string(c.cell.Value) || c.cell.Qualifier[0] == segment.QualRecord && bad == nil {
				continue // a journal without its last part looks like a shorter one; parts are synced in order
			}
			c.write(t, bad)
			w.reopen()
			repairs += int(testutil.ToFloat64(w.x.metrics.repairs))
			if w.damaged(c, bad == nil) {
				errs++
			}
		}
	}
	require.Greater(t, errs, int(seeds)*cellsEach/3)
	require.Greater(t, repairs, int(seeds)*cellsEach/40)
}

// damaged checks look-ups with a damaged cell, rebuilds, and reports whether the damage caused an error.
func (w *world) damaged(c placedCell, gone bool) (failed bool) {
	ctx, what := context.Background(), fmt.Sprintf("%q %q", c.key, c.cell.Qualifier)
	mint, maxt := int64(0), keyschema.HourCellMs((baseDay+20)*24)
	got, err := w.x.Select(ctx, nil, mint, maxt)
	switch {
	case err != nil:
		require.ErrorIs(w.t, err, storage.ErrCorrupt, what)
		require.Contains(w.t, err.Error(), fmt.Sprintf("%q", c.key), what)
	case c.cell.Qualifier[0] == segment.QualManifest && gone:
		// Without its manifest a day does not exist; Rebuild recreates it.
	default:
		w.same(w.expect(mint, maxt, nil), got, what)
	}
	if err := w.x.Maintain(ctx); err != nil {
		require.ErrorIs(w.t, err, storage.ErrCorrupt, what)
	}
	require.NoError(w.t, w.x.Rebuild(ctx, baseDay-5, baseDay+10), what)
	w.everything()
	for day := int64(baseDay - 5); day < baseDay+5; day++ {
		diff, err := w.x.Verify(ctx, day)
		require.NoError(w.t, err)
		require.Empty(w.t, diff, what)
	}
	return err != nil
}

// TestVerify tells missing from surplus series.
func TestVerify(t *testing.T) {
	w := newWorld(t, 4)
	for range 5 {
		w.touchSome()
	}
	require.True(t, w.persist())
	w.advance(48 * time.Hour)
	require.True(t, w.maintain())
	diff, err := w.x.Verify(context.Background(), baseDay)
	require.NoError(t, err)
	require.Empty(t, diff)

	s := w.series[w.keys[0]]
	delete(s.hours, baseDay*24+20)
	w.x.MarkActive(s.ref, baseDay*24+20) // no data row
	diff, err = w.x.Verify(context.Background(), baseDay)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint([]any{s.labels}), fmt.Sprint(diff.Surplus))
	require.Empty(t, diff.Missing)

	data, err := w.store.Table(context.Background(), storage.TableData)
	require.NoError(t, err)
	key := w.x.AppendRowKey(nil, s.ref, baseDay*24+21)
	require.NoError(t, data.Apply(context.Background(), []storage.RowMutation{{Key: key, Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilySamples, Qualifier: []byte{1},
		TsMs: keyschema.HourCellMs(baseDay*24 + 21), Value: []byte("x"),
	}}}}))
	diff, err = w.x.Verify(context.Background(), baseDay)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint([]any{s.labels}), fmt.Sprint(diff.Missing))
}
