package job

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/storage"
)

// damagedTable fails reads that may need cells of a day.
type damagedTable struct {
	storage.Table
	day int64
}

func (d damagedTable) ReadRows(ctx context.Context, set storage.RowSet, opts storage.ReadOptions) storage.RowIter {
	it := d.Table.ReadRows(ctx, set, opts)
	if f := opts.Filter; f.FromMs < (d.day+1)*dayMs && (f.ToMs == 0 || f.ToMs > d.day*dayMs) {
		return damagedRows{it}
	}
	return it
}

type damagedRows struct{ storage.RowIter }

func (damagedRows) Next() bool { return false }
func (damagedRows) Err() error { return storage.ErrCorrupt }

// TestDamagedDayWaits: computing a day with damaged rows fails, and the job continues with other days.
func TestDamagedDayWaits(t *testing.T) {
	r := openRig(t, vfs.NewMem(), newClock(firstDay+4), nil)
	defer r.close(t)
	s, rng := newSeries(1), rand.New(rand.NewPCG(1, 2))
	for day := range int64(3) {
		samples := map[int64]float64{(firstDay + day) * dayMs: float64(day)}
		require.NoError(t, r.data.Apply(t.Context(), s.rows(t, rng, samples)))
	}
	r.Data = damagedTable{r.Data, firstDay + 2}
	_, err := r.Step(t.Context())
	require.ErrorIs(t, err, storage.ErrCorrupt)
	r.work(t)
	days := r.Manifest.View().Days
	require.Len(t, days, 1, "only the damaged day is left")
	require.Contains(t, days, int64(firstDay+2))
}
