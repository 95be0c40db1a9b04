package compactor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/storagetest"
	"halite/storage/tombstone"
)

const hour = int64(475_000)

// rig is a compactor over tables in memory. Conditional mutations of the data table sometimes fail, before or after
// they take effect, and hooks run before them.
type rig struct {
	*testing.T
	nowMs      int64
	rng        *rand.Rand
	store      storage.Store
	data, meta storage.Table
	set        *tombstone.Set
	compactor  *Compactor
	lossy      bool
	before     func()
	next       uint32
}

type lossyTable struct {
	storage.Table
	r *rig
}

func (t lossyTable) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (bool, error) {
	if before := t.r.before; before != nil {
		t.r.before = nil
		before()
	}
	n := 2
	if t.r.lossy {
		n = t.r.rng.IntN(4)
	}
	if n == 0 {
		return false, fmt.Errorf("injected: %w", storage.ErrUnavailable)
	}
	matched, err := t.Table.CheckAndApply(ctx, key, cond, then, otherwise)
	if n == 1 {
		return false, fmt.Errorf("injected, after: %w", storage.ErrUnavailable)
	}
	return matched, err
}

// Refresh and Select are the index: one series.
func (r *rig) Refresh(context.Context) error { return nil }

func (r *rig) Select(context.Context, index.Budget, int64, int64, ...*labels.Matcher) ([]index.Series, error) {
	return []index.Series{{Labels: labels.FromStrings("__name__", "m")}}, nil
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, nowMs: keyschema.HourStartMs(hour + 2), rng: rand.New(rand.NewPCG(3, 3)), next: 1}
	r.store = storagetest.NewModel(r.now)
	var err error
	r.data, err = r.store.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	r.meta, err = r.store.EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	r.set, err = tombstone.Open(t.Context(), tombstone.Options{Store: r.store, Shared: true})
	require.NoError(t, err)
	schema, err := keyschema.NewSchema(nil)
	require.NoError(t, err)
	r.compactor, err = New(Options{Data: lossyTable{r.data, r}, Meta: r.meta, Index: r, Schema: schema, Tombstones: r.set,
		Sequence: r.reserve, Concurrency: 1, Now: r.now})
	require.NoError(t, err)
	return r
}

func (r *rig) reserve(_ context.Context, n int, above uint32) (uint32, error) {
	first := max(r.next, above+1)
	r.next = first + uint32(n)
	return first, nil
}

func key() []byte {
	rule := keyschema.DefaultRule()
	return keyschema.AppendHour(rule.AppendPrefix(nil, "m", nil), hour)
}

// write writes a single sample as a server does, with a mark and a note if it is late.
func (r *rig) write(offsetMs uint32, value float64, late bool) {
	r.Helper()
	view := r.set.View()
	defer view.Release()
	set := func(q, v []byte) storage.Entry {
		return storage.Entry{Kind: storage.SetCell, Family: storage.FamilySamples, TsMs: keyschema.HourCellMs(hour), Qualifier: q,
			Value: v}
	}
	m := storage.RowMutation{Key: key(), Entries: []storage.Entry{
		set(keyschema.AppendLaterSampleQualifier(nil, offsetMs, view.Floor()), chunk.AppendSampleValue(nil, value)),
	}}
	if late {
		m.Entries = append(m.Entries, set(keyschema.AppendMarkQualifier(nil, r.rng.Uint64()), nil))
	}
	require.NoError(r, r.data.Apply(r.Context(), []storage.RowMutation{m}))
	require.NoError(r, r.meta.Apply(r.Context(), []storage.RowMutation{Note(hour, late)}))
}

func (r *rig) now() time.Time { return time.UnixMilli(r.nowMs) }

func (r *rig) delete(fromMs, toMs int64) {
	r.Helper()
	start := keyschema.HourStartMs(hour)
	_, err := r.set.Publish(r.Context(), tombstone.Tombstone{FromMs: start + fromMs, ToMs: start + toMs, MadeMs: r.nowMs,
		Selectors: [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchEqual, "__name__", "m")}}},
		func(ctx context.Context) (uint32, error) { return r.reserve(ctx, 1, 0) })
	require.NoError(r, err)
}

// row returns the samples that a query would read, by offset, and the number of stored cells.
func (r *rig) row() (samples map[int64]float64, cells int) {
	r.Helper()
	samples = map[int64]float64{}
	require.NoError(r, r.set.Refresh(r.Context()))
	for _, store := range []storage.Store{r.store, r.set.Store()} {
		table, err := store.Table(r.Context(), storage.TableData)
		require.NoError(r, err)
		it := table.ReadRows(r.Context(), storage.RowSet{Keys: [][]byte{key()}}, storage.ReadOptions{})
		for it.Next() {
			if store == r.store {
				cells = len(it.Row().Cells)
				continue
			}
			var row chunk.Row
			row.Reset(keyschema.HourStartMs(hour))
			for _, c := range it.Row().Cells {
				require.NoError(r, row.Add(c.Qualifier, c.Value))
			}
			tsMs, values := row.Columns()
			for i, ts := range tsMs {
				samples[ts-keyschema.HourStartMs(hour)] = values[i]
			}
		}
		require.NoError(r, it.Err())
	}
	return samples, cells
}

func (r *rig) expect(want map[int64]float64, cells int) {
	r.Helper()
	samples, stored := r.row()
	require.Equal(r, want, samples)
	require.Equal(r, cells, stored)
}

func TestCompactorPacksAndMergesLateSamples(t *testing.T) {
	r := newRig(t)
	r.write(0, 1, false)
	r.write(1000, 2, false)
	r.nowMs = keyschema.HourCellMs(hour) + DelayDefault.Milliseconds()
	require.NoError(t, r.compactor.Run(t.Context()))
	r.expect(map[int64]float64{0: 1, 1000: 2}, 2) // not due
	r.nowMs++
	require.NoError(t, r.compactor.Run(t.Context()))
	r.expect(map[int64]float64{0: 1, 1000: 2}, 1)
	r.write(1000, 3, true)
	require.NoError(t, r.compactor.Run(t.Context()))
	r.expect(map[int64]float64{0: 1, 1000: 3}, 1)
}

// TestCompactorLeavesWhatCameMeanwhile: a late sample may arrive between the read and the write of a row. The compactor
// neither loses it nor counts it as packed.
func TestCompactorLeavesWhatCameMeanwhile(t *testing.T) {
	r := newRig(t)
	r.write(0, 1, false)
	r.before = func() { r.write(0, 2, true) }
	require.NoError(t, r.compactor.Run(t.Context()))
	samples, _ := r.row()
	require.Equal(t, map[int64]float64{0: 2}, samples)
	require.NoError(t, r.compactor.Run(t.Context()))
	r.expect(map[int64]float64{0: 2}, 1)
}

// TestCompactorAndDeletions: samples deleted between the read and the write of a row stay deleted, and later samples
// stay. The compactor skips rows with recent deletions, and removes the deleted samples later.
func TestCompactorAndDeletions(t *testing.T) {
	r := newRig(t)
	r.write(0, 1, false)
	r.write(1000, 2, false)
	r.before = func() {
		r.delete(0, 500)
		r.write(100, 7, true)
	}
	for range 2 {
		require.NoError(t, r.compactor.Run(t.Context()))
		samples, _ := r.row()
		require.Equal(t, map[int64]float64{100: 7, 1000: 2}, samples)
	}
	_, cells := r.row()
	require.Greater(t, cells, 1, "a query may still read it as it was")
	r.nowMs += DelayDefault.Milliseconds() + 1
	require.NoError(t, r.compactor.Run(t.Context()))
	r.expect(map[int64]float64{100: 7, 1000: 2}, 1)

	r.delete(900, 1100)
	cleaned, err := r.compactor.Clean(t.Context(), hour, [][]byte{key()})
	require.NoError(t, err)
	require.Equal(t, Cleaned{Left: [][]byte{key()}}, cleaned, "too young")
	r.nowMs += DelayDefault.Milliseconds() + 1
	cleaned, err = r.compactor.Clean(t.Context(), hour, [][]byte{key()})
	require.NoError(t, err)
	require.EqualValues(t, 1, cleaned.Rows)
	require.Empty(t, cleaned.Left)
	r.expect(map[int64]float64{100: 7}, 1)
}

// TestCompactorAndRepeatedDeletions: a row waits for the deletions that removed samples from it. Later deletions of the same
// hour that remove nothing do not delay the row, however many they are.
func TestCompactorAndRepeatedDeletions(t *testing.T) {
	r := newRig(t)
	clean := func() (left int) {
		cleaned, err := r.compactor.Clean(t.Context(), hour, [][]byte{key()})
		require.NoError(t, err)
		require.EqualValues(t, 1-len(cleaned.Left), cleaned.Rows)
		return len(cleaned.Left)
	}
	r.write(0, 1, false)
	r.write(1000, 2, false)
	r.write(2000, 3, false)
	require.NoError(t, r.compactor.Run(t.Context()))
	r.delete(0, 500)
	require.Equal(t, 1, clean(), "too young")
	r.nowMs += DelayDefault.Milliseconds()*2/3 + 1
	r.delete(0, 500)
	require.Equal(t, 1, clean(), "the first is too young")
	r.nowMs += DelayDefault.Milliseconds()*2/3 + 1
	r.delete(0, 500)
	require.Zero(t, clean(), "the first is old, and the others found nothing")
	r.expect(map[int64]float64{1000: 2, 2000: 3}, 1)

	r.delete(900, 1100)
	r.nowMs += DelayDefault.Milliseconds()*2/3 + 1
	r.delete(900, 2000)
	r.nowMs += DelayDefault.Milliseconds()*2/3 + 1
	require.Equal(t, 1, clean(), "the last took more, and is too young")
	r.expect(map[int64]float64{}, 1)
	r.nowMs += DelayDefault.Milliseconds()
	require.Zero(t, clean())
	r.expect(map[int64]float64{}, 0)
}

// TestCompactorWaitsForAnnouncedDeletions: while a deletion takes its number, the compactor packs nothing.
func TestCompactorWaitsForAnnouncedDeletions(t *testing.T) {
	r := newRig(t)
	r.write(0, 1, false)
	r.write(5, 1, false)
	_, err := r.set.Publish(t.Context(), tombstone.Tombstone{FromMs: 0, ToMs: 1, MadeMs: r.nowMs,
		Selectors: [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchEqual, "__name__", "m")}}},
		func(ctx context.Context) (uint32, error) {
			require.NoError(t, r.compactor.Run(ctx))
			_, cells := r.row()
			require.Equal(t, 2, cells)
			return r.reserve(ctx, 1, 0)
		})
	require.NoError(t, err)
	r.write(1000, 2, false)
	require.NoError(t, r.compactor.Run(t.Context()))
	r.expect(map[int64]float64{0: 1, 5: 1, 1000: 2}, 1)
}

// TestCompactorBearsLostResponses fails some mutations, before or after they take effect. All samples keep their last written
// values. In the end they form one chunk.
func TestCompactorBearsLostResponses(t *testing.T) {
	r := newRig(t)
	want := map[int64]float64{}
	for n := range 200 {
		r.lossy = n < 190
		if offset := int64(r.rng.IntN(20)) * 1000; n < 190 {
			r.write(uint32(offset), float64(n), true)
			want[offset] = float64(n)
		}
		require.NoError(t, r.compactor.Run(t.Context()))
		samples, _ := r.row()
		require.Equal(t, want, samples, "after %d", n)
	}
	r.expect(want, 1)
}

func TestCompactorOptions(t *testing.T) {
	_, err := New(Options{Delay: time.Minute, MarkAfter: time.Minute})
	require.ErrorContains(t, err, "MarkAfter")
	require.ErrorContains(t, err, "Sequence")
}
