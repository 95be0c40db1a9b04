package pebble_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"halite/keyschema/chunk"
	"halite/keyschema/daychunk"
	"halite/storage"
	"halite/storage/pebble"
)

const dayChunkFirstHour = 475_008 // the first hour of a day

// dayChunkRows returns rows of the hours [from, to) of some series, sorted.
func dayChunkRows(series, from, to int) []storage.RowMutation {
	var muts []storage.RowMutation
	for i := range series {
		for h := from; h < to; h++ {
			hour := dayChunkFirstHour + int64(h)
			tsMs, values := make([]int64, 60), make([]float64, 60)
			for k := range tsMs {
				tsMs[k], values[k] = hour*3_600_000+int64(k)*60_000+7, float64(i*1000+h*60+k)
			}
			value, err := chunk.Append(nil, hour*3_600_000, tsMs, values)
			if err != nil {
				panic(err)
			}
			muts = append(muts, storage.RowMutation{Key: fmt.Appendf(nil, "m#%02d#host=%d#%07d", i%3, i, 9_999_999-hour),
				Entries: []storage.Entry{{Family: "s", Qualifier: []byte{'r', 0, 0, 0, byte(h)}, TsMs: (hour+1)*3_600_000 - 1,
					Value: value}}})
		}
	}
	sortMutations(muts)
	return muts
}

// dayChunkStore opens a store whose clock is two days after dayChunkFirstHour.
func dayChunkStore(t testing.TB, change func(*pebble.Options)) (*pebble.Store, storage.Table) {
	t.Helper()
	opts := pebble.Options{Dir: "/data", FS: vfs.NewMem(), DayChunks: dayChunkCodec(), DayChunkInterval: -1, CacheBytes: 1 << 20,
		Now: func() time.Time { return time.UnixMilli((dayChunkFirstHour + 48) * 3_600_000) }}
	if change != nil {
		change(&opts)
	}
	s, err := pebble.Open(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	return s, table
}

// wantRows checks that the table has exactly these rows, forwards and backwards.
func wantRows(t testing.TB, table storage.Table, want []storage.RowMutation) {
	t.Helper()
	for _, reverse := range []bool{false, true} {
		it := table.ReadRows(t.Context(), storage.RowSet{Ranges: []storage.RowRange{{}}},
			storage.ReadOptions{Reverse: reverse})
		n := 0
		for ; it.Next(); n++ {
			require.Less(t, n, len(want))
			m := want[n]
			if reverse {
				m = want[len(want)-1-n]
			}
			require.Equal(t, string(m.Key), string(it.Row().Key))
			require.Len(t, it.Row().Cells, len(m.Entries))
			require.Equal(t, m.Entries[0].Qualifier, it.Row().Cells[0].Qualifier)
			require.Equal(t, m.Entries[0].Value, it.Row().Cells[0].Value)
		}
		require.NoError(t, it.Err())
		require.NoError(t, it.Close())
		require.Equal(t, len(want), n)
	}
}

// TestDayChunkCodecNeeded opens a store with day chunks without their codec.
func TestDayChunkCodecNeeded(t *testing.T) {
	fs := vfs.NewMem()
	opts := pebble.Options{Dir: "/data", FS: fs, DayChunks: dayChunkCodec(), DayChunkInterval: -1, CacheBytes: 1 << 20}
	s, err := pebble.Open(opts)
	require.NoError(t, err)
	table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	rows := dayChunkRows(5, 0, 24)
	require.NoError(t, table.Load(t.Context(), rows))
	require.Zero(t, s.WriteAllDayChunks(t.Context()))
	require.Equal(t, uint64(1), s.DayChunksWritten())
	require.NoError(t, s.Close())
	other := opts
	other.DayChunks = nil
	_, err = pebble.Open(other)
	require.ErrorIs(t, err, storage.ErrSchemaMismatch)
	require.ErrorContains(t, err, daychunk.Format)
	other.DayChunks = dayChunkCodec()
	other.DayChunks.Name = "other"
	_, err = pebble.Open(other)
	require.ErrorIs(t, err, storage.ErrSchemaMismatch)
	s, err = pebble.Open(opts)
	require.NoError(t, err)
	table, err = s.Table(t.Context(), storage.TableData)
	require.NoError(t, err)
	wantRows(t, table, rows)
	require.NoError(t, s.WriteDayChunks(t.Context()))
	require.Zero(t, s.DayChunksWritten(), "the day is known to be complete")
	require.NoError(t, s.Close())
}

// TestDayChunkSoon packs an open day on request, again only after enough new rows, and then as a closed day.
func TestDayChunkSoon(t *testing.T) {
	var nowMs atomic.Int64
	nowMs.Store(int64(dayChunkFirstHour+12) * 3_600_000)
	s, table := dayChunkStore(t, func(o *pebble.Options) {
		o.DayChunkInterval = time.Hour
		o.Now = func() time.Time { return time.UnixMilli(nowMs.Load()) }
	})
	rows := dayChunkRows(50, 0, 12)
	require.NoError(t, table.Load(t.Context(), rows))
	require.NoError(t, s.WriteDayChunks(t.Context()))
	require.Zero(t, s.DayChunksWritten(), "the day is open")
	written := func() uint64 { return s.DayChunksWritten() }
	s.WriteDayChunksSoon()
	require.Eventually(t, func() bool { return written() == 1 }, time.Minute, time.Millisecond)
	wantRows(t, table, rows)
	require.Equal(t, uint64(len(rows)), s.DayChunkCells())
	late := dayChunkRows(50, 12, 13)
	require.NoError(t, table.Apply(t.Context(), late[:1]))
	s.WriteDayChunksSoon()
	require.NoError(t, table.Load(t.Context(), late))
	s.WriteDayChunksSoon()
	require.Eventually(t, func() bool { return written() >= 2 }, time.Minute, time.Millisecond)
	rows = append(rows, late...)
	sortMutations(rows)
	wantRows(t, table, rows)
	nowMs.Store(int64(dayChunkFirstHour+48) * 3_600_000)
	n := written()
	require.NoError(t, s.WriteDayChunks(t.Context()))
	require.Equal(t, n, written(), "nothing has come since")
	wantRows(t, table, rows)
}

// TestDayChunkDue moves a clock. The job packs only closed days without recent writes, and late cells only if there are many.
func TestDayChunkDue(t *testing.T) {
	var nowMs atomic.Int64
	s, table := dayChunkStore(t, func(o *pebble.Options) {
		o.Now = func() time.Time { return time.UnixMilli(nowMs.Load()) }
	})
	endMs := int64(dayChunkFirstHour+24) * 3_600_000
	step := func(atMs int64, days uint64, why string) {
		t.Helper()
		nowMs.Store(atMs)
		require.NoError(t, s.WriteDayChunks(t.Context()))
		require.Equal(t, days, s.DayChunksWritten(), why)
	}
	nowMs.Store(endMs)
	rows := dayChunkRows(50, 0, 24)
	require.NoError(t, table.Load(t.Context(), rows))
	step(endMs+pebble.DayChunkAfterDefault.Milliseconds()-1, 0, "the day is not closed")
	require.NoError(t, table.Apply(t.Context(), rows[:1]))
	step(endMs+pebble.DayChunkAfterDefault.Milliseconds(), 0, "the day is not quiet")
	atMs := endMs + pebble.DayChunkAfterDefault.Milliseconds() + pebble.DayChunkQuietDefault.Milliseconds()
	step(atMs, 1, "the day is closed and quiet")
	wantRows(t, table, rows)
	rows[7].Entries[0].Value = []byte("late")
	require.NoError(t, table.Apply(t.Context(), rows[7:8]))
	wantRows(t, table, rows)
	atMs += pebble.DayChunkQuietDefault.Milliseconds()
	step(atMs, 1, "one cell is late")
	wantRows(t, table, rows)
	for i := range rows[:600] {
		rows[i].Entries[0].Value = bytes.Repeat([]byte("late"), 5)
	}
	require.NoError(t, table.Load(t.Context(), rows[:600]))
	step(atMs, 1, "the day is not quiet again")
	step(atMs+pebble.DayChunkQuietDefault.Milliseconds(), 2, "much is late")
	wantRows(t, table, rows)
	step(atMs+2*pebble.DayChunkQuietDefault.Milliseconds(), 2, "all is packed")
}

// TestDayChunkInBackground waits for the store's own job.
func TestDayChunkInBackground(t *testing.T) {
	s, table := dayChunkStore(t, func(o *pebble.Options) {
		o.DayChunkInterval, o.DayChunkQuiet, o.Now = time.Millisecond, time.Millisecond, nil
	})
	rows := dayChunkRows(3, 0, 30)
	require.NoError(t, table.Load(t.Context(), rows))
	require.Eventually(t, func() bool { return s.DayChunksWritten() >= 2 }, time.Minute, time.Millisecond)
	wantRows(t, table, rows)
}

// TestDayChunkSpans packs a day in many spans and finds everything in the last level.
func TestDayChunkSpans(t *testing.T) {
	s, table := dayChunkStore(t, func(o *pebble.Options) { o.DayChunkSpanBytes = 1 })
	rows := dayChunkRows(100, 0, 24)
	require.NoError(t, table.Load(t.Context(), rows))
	require.Zero(t, s.WriteAllDayChunks(t.Context()))
	wantRows(t, table, rows)
	require.Equal(t, uint64(1), s.DayChunksWritten())
	require.Greater(t, s.Stats().Files, int64(20))
	require.NoError(t, s.Compact(t.Context()))
	wantRows(t, table, rows)
}

// TestDayChunkChanges deletes cells, rows and ranges of packed days, and drops garbage in day chunks.
func TestDayChunkChanges(t *testing.T) {
	s, table := dayChunkStore(t, nil)
	rows := dayChunkRows(6, 0, 24)
	require.NoError(t, table.Load(t.Context(), rows))
	require.Zero(t, s.WriteAllDayChunks(t.Context()))
	require.Equal(t, uint64(1), s.DayChunksWritten())
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		at := rng.IntN(len(rows))
		key := rows[at].Key
		switch rng.IntN(3) {
		case 0:
			require.NoError(t, table.Apply(t.Context(), []storage.RowMutation{{Key: key,
				Entries: []storage.Entry{{Kind: storage.DeleteRow}}}}))
		case 1:
			matched, err := table.CheckAndApply(t.Context(), key, storage.Filter{}, storage.RowMutation{
				Entries: []storage.Entry{{Kind: storage.DeleteFamily, Family: "s"}}}, storage.RowMutation{})
			require.NoError(t, err)
			require.True(t, matched)
		default:
			end := append([]byte(nil), key...)
			if at+1 < len(rows) && rng.IntN(2) == 0 {
				end = rows[min(at+3, len(rows)-1)].Key
			} else {
				end = append(end, 0)
			}
			require.NoError(t, table.DropRows(t.Context(), storage.RowRange{Start: key, End: end}))
			for len(rows) > at+1 && bytes.Compare(rows[at+1].Key, end) < 0 {
				rows = append(rows[:at+1:at+1], rows[at+2:]...)
			}
		}
		rows = append(rows[:at:at], rows[at+1:]...)
		wantRows(t, table, rows)
	}
	// Another version at another time makes the packed one garbage.
	cell := rows[0].Entries[0]
	newer := cell
	newer.TsMs++
	require.NoError(t, table.Apply(t.Context(), []storage.RowMutation{{Key: rows[0].Key,
		Entries: []storage.Entry{newer}}}))
	require.NoError(t, s.CollectGarbage(t.Context()))
	require.NoError(t, table.Apply(t.Context(), []storage.RowMutation{{Key: rows[0].Key, Entries: []storage.Entry{
		{Kind: storage.DeleteCells, Family: "s", Qualifier: cell.Qualifier, FromMs: newer.TsMs}}}}))
	wantRows(t, table, rows[1:])
}

// TestDayChunkReaders reads continuously while days are packed. Every read sees every row, and no write is lost.
func TestDayChunkReaders(t *testing.T) {
	s, table := dayChunkStore(t, func(o *pebble.Options) { o.DayChunkSpanBytes = 1 })
	rows := dayChunkRows(10, 0, 24)
	require.NoError(t, table.Load(t.Context(), rows))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var group sync.WaitGroup
	for i := range 3 {
		group.Go(func() {
			for ctx.Err() == nil {
				it := table.ReadRows(context.Background(), storage.RowSet{Ranges: []storage.RowRange{{}}},
					storage.ReadOptions{Reverse: i == 1, Filter: storage.Filter{KeysOnly: i == 2}})
				n := 0
				for it.Next() {
					n++
				}
				if err := it.Err(); err != nil || n != len(rows) {
					t.Errorf("%d rows of %d: %v", n, len(rows), err)
					stop()
				}
				_ = it.Close()
			}
		})
	}
	var versions [4]atomic.Int64
	for w := range versions {
		group.Go(func() {
			for ctx.Err() == nil {
				// All writers use hours of one series, and so the same day chunk.
				m := rows[w]
				v := versions[w].Load() + 1
				m.Entries = []storage.Entry{{Kind: storage.DeleteFamily, Family: "s"}, m.Entries[0]}
				m.Entries[1].Value = fmt.Appendf(nil, "%d", v)
				if err := table.Apply(context.Background(), []storage.RowMutation{m}); err != nil {
					t.Error(err)
				}
				versions[w].Store(v)
				time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
			}
		})
	}
	for wrote := false; ctx.Err() == nil && (!wrote || s.DayChunkCells() <= uint64(len(rows))); {
		s.WriteAllDayChunks(context.Background())
		wrote = true
		for w := range versions {
			wrote = wrote && versions[w].Load() > 0
		}
	}
	stop()
	group.Wait()
	require.NotZero(t, s.DayChunkCells())
	for w := range versions {
		rows[w].Entries[0].Value = fmt.Appendf(nil, "%d", versions[w].Load())
		if versions[w].Load() == 0 {
			t.Errorf("writer %d wrote nothing", w)
		}
	}
	wantRows(t, table, rows)
}

// TestDayChunkFailures fails file operations while a day is packed. The day stays unchanged, and the job packs it later.
func TestDayChunkFailures(t *testing.T) {
	var fail atomic.Int64
	inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.Contains(op.Path, "staged") && fail.Add(-1) == 0 {
			return syscall.ENOSPC
		}
		return nil
	})
	s, table := dayChunkStore(t, func(o *pebble.Options) { o.FS = errorfs.Wrap(vfs.NewMem(), inject) })
	rows := dayChunkRows(5, 0, 24)
	require.NoError(t, table.Load(t.Context(), rows))
	failed := uint64(0)
	for at := int64(1); at < 100; at++ {
		fail.Store(at)
		failures := s.WriteAllDayChunks(t.Context())
		fail.Store(0)
		wantRows(t, table, rows)
		if failures == failed {
			require.Greater(t, at, int64(2))
			require.NotZero(t, s.DayChunksWritten())
			return
		}
		failed = failures
	}
	t.Fatal("no end of failures")
}
