package ingest

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
	"halite/keyschema"
	"halite/storage"
)

// recordingStore keeps the first and last key of each batch written to its tables, and counts the days of all batches.
type recordingStore struct {
	storage.Store
	batches [][2]string
	days    int
}

type recordingTable struct {
	storage.Table
	s *recordingStore
}

func (s *recordingStore) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	table, err := s.Store.EnsureTable(ctx, schema)
	if schema.Name != storage.TableData {
		return table, err
	}
	return &recordingTable{table, s}, err
}

func (t *recordingTable) note(muts []storage.RowMutation) {
	t.s.batches = append(t.s.batches, [2]string{string(muts[0].Key), string(muts[len(muts)-1].Key)})
	days := map[int64]bool{}
	for i := range muts {
		if key, err := keyschema.ParseRowKey(muts[i].Key); err == nil {
			days[key.Hour/keyschema.DayHours] = true
		}
	}
	t.s.days += len(days)
}

func (t *recordingTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	t.note(muts)
	return t.Table.Apply(ctx, muts)
}

func (t *recordingTable) Load(ctx context.Context, muts []storage.RowMutation) error {
	t.note(muts)
	return t.Table.Load(ctx, muts)
}

func numbered(n int, samples ...prompb.Sample) prompb.TimeSeries {
	return series([]string{"__name__", fmt.Sprint("m", n%7), "n", fmt.Sprint(n * 7919 % 10007)}, samples...)
}

// TestFlushWalksTheTable flushes many slices, at once and spread over time. Their key ranges ascend.
func TestFlushWalksTheTable(t *testing.T) {
	c := ingesttest.NewClock()
	store := &recordingStore{}
	r := openRig(t, vfs.NewMem(), c, func(o *Options) {
		store.Store, o.Store = o.Store, store
		o.Head.FlushBytes = 20 << 10
	})
	check := func(least int) {
		t.Helper()
		require.GreaterOrEqual(t, len(store.batches), least)
		for n := 1; n < len(store.batches); n++ {
			require.Less(t, store.batches[n-1][1], store.batches[n][0], "batch %d", n)
		}
		store.batches = nil
	}
	write := func() {
		var all []prompb.TimeSeries
		for n := range 3000 {
			all = append(all, numbered(n, sample(c.Ms.Load(), 1)))
		}
		r.write(all...)
	}
	write()
	r.flush()
	check(10)
	write()
	for r.Stats().Rows > 0 {
		c.Advance(15 * time.Second)
		r.doStep()
		require.Less(t, c.Ms.Load(), int64(startMs+50*time.Minute.Milliseconds()))
	}
	check(10)
	r.close()
}

// TestLateRows: rows of the last hours are not late, older ones are.
func TestLateRows(t *testing.T) {
	c := ingesttest.NewClock()
	r := openRig(t, vfs.NewMem(), c, nil)
	for n, age := range []time.Duration{0, time.Hour, 2 * time.Hour, 3 * time.Hour, 9 * time.Hour} {
		r.write(numbered(n, sample(c.Ms.Load()-age.Milliseconds(), 1)))
	}
	r.flush()
	require.Equal(t, 5.0, r.counter("tsdb_ingest_flushed_rows_total", "", ""))
	require.Equal(t, 2.0, r.counter("tsdb_ingest_flushed_late_rows_total", "", ""))
	r.close()
}

// TestLogIsKeptShort writes far more into one hour than the log may hold. The server flushes open rows repeatedly, and
// replay reads little.
func TestLogIsKeptShort(t *testing.T) {
	const limit = 64 << 10
	for _, lack := range []bool{false, true} {
		fs, c := vfs.NewMem(), ingesttest.NewClock()
		tweak := func(o *Options) {
			o.WALSegmentBytesMax, o.WALBytesMax = 8<<10, limit
			if lack {
				o.WALSegmentBytesMax, o.WALBytesMax = limit, 1<<30
			}
		}
		r := openRig(t, fs, c, tweak)
		if lack {
			fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 20})
		}
		want := column{}
		for n := range 400 {
			at := startMs + int64(n)*1000
			ts := series(upNames)
			for k := range 100 {
				v := math.Sqrt(float64(n*100 + k))
				ts.Samples = append(ts.Samples, sample(at+int64(k), v))
				want[at+int64(k)] = math.Float64bits(v)
			}
			r.write(ts)
			r.checkSpace()
			r.doStep()
			r.admission.space.Store(nil)
			require.LessOrEqual(t, r.log.Stats().SizeBytes, int64(limit+8<<10))
		}
		require.Positive(t, r.counter("tsdb_ingest_flushed_rows_total", "", ""))
		require.Less(t, r.counter("tsdb_ingest_flushed_rows_total", "", ""), 50.0, "not at each step")
		r.requireSeries(up, want)
		r = r.reopen(tweak)
		r.requireSeries(up, want)
		r.close()
	}
}

// TestReserveFails refuses writes while the reserve cannot be made, and names the reason.
func TestReserveFails(t *testing.T) {
	var failure error
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), func(o *Options) {
		o.FreeBytesMin, o.Reserve = -1, func() error { return failure }
	})
	for _, c := range []struct {
		err    error
		reason string
	}{
		{&os.PathError{Op: "open", Path: "data/reserve", Err: syscall.EACCES}, "open data/reserve: permission denied"},
		{syscall.ENOSPC, "too little disk space left"},
		{fmt.Errorf("%w: too few bytes", storage.ErrUnavailable), "too little disk space left"},
	} {
		failure = c.err
		r.checkSpace()
		_, err := r.Write(t.Context(), SamplesInput([]Sample{{Labels: labels.FromStrings(upNames...), TsMs: startMs}}))
		requireOverload(t, err)
		require.ErrorContains(t, err, c.reason)
		failure = nil
		r.checkSpace()
		r.write(series(upNames, sample(startMs, 1)))
	}
	r.close()
}

// TestTooLongLogRefusesWrites has tables that refuse writes. The log grows only to its limit, no acknowledged sample is
// lost, and the server accepts writes again when the tables work.
func TestTooLongLogRefusesWrites(t *testing.T) {
	failing := &failingStore{}
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), func(o *Options) {
		failing.Store, o.Store = o.Store, failing
		o.WALSegmentBytesMax, o.WALBytesMax = 4<<10, 32<<10
	})
	r.write(series(upNames, sample(startMs, 0)))
	r.flush() // reserves run numbers
	failing.fail = true
	want := column{startMs: 0}
	put := func(n int) error {
		v := math.Sqrt(float64(n))
		result, err := r.Write(context.Background(), SamplesInput(slices.Repeat([]Sample{{
			Labels: labels.FromStrings(upNames...), TsMs: startMs + int64(n), Value: v,
		}}, 50)))
		if err == nil {
			require.Equal(t, 50, result.Accepted)
			want[startMs+int64(n)] = math.Float64bits(v)
		}
		return err
	}
	var err error
	n := 0
	for ; err == nil; n++ {
		err = put(n)
		r.checkLog()
		require.Less(t, r.log.Stats().SizeBytes, int64(48<<10))
	}
	requireOverload(t, err)
	require.ErrorIs(t, r.flusher.Step(context.Background()), errNo)
	r.checkLog()
	requireOverload(t, put(n))
	failing.fail = false
	r.doStep()
	r.checkLog()
	require.NoError(t, put(n))
	r.requireSeries(up, want)
	require.Equal(t, 2.0, r.counter("tsdb_ingest_overload_total", "resource", resourceSize))
	r.close()
}
