package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"halite/ingest/head"
	"halite/ingest/ingesttest"
	"halite/ingest/wal"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/index"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	upNames = []string{"__name__", "up", "job", "node"}
	up      = labels.FromStrings(upNames...)
)

func TestWriteReadFlushRestart(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	stale := math.Float64frombits(0x7ff0000000000002)
	r.write(series(upNames, sample(startMs, 1), sample(startMs+1, stale)))
	want := column{startMs: math.Float64bits(1), startMs + 1: math.Float64bits(stale)}
	r.requireSeries(up, want)
	require.Equal(t, 2, r.Stats().Samples)
	r.flush()
	require.Zero(t, r.Stats().Samples)
	require.Zero(t, r.Stats().HeadBytes)
	r.requireSeries(up, want)
	r = r.reopen(nil)
	require.Equal(t, 1, r.Stats().Series)
	r.requireSeries(up, want)
	// The later write wins over the flushed one, in the head and after another flush.
	r.write(series(upNames, sample(startMs, 2), sample(startMs+2, 0)))
	want[startMs], want[startMs+2] = math.Float64bits(2), 0
	r.requireSeries(up, want)
	r = r.reopen(nil)
	r.requireSeries(up, want)
	require.Zero(t, r.Stats().Rows)
	r.close()
}

// TestLabelsInAnyOrder: labels in any order mean one series, also in the log after a restart.
func TestLabelsInAnyOrder(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	orders := [][]string{
		{"job", "x", "__name__", "any", "a", "1"}, {"a", "1", "job", "x", "__name__", "any"},
		{"__name__", "any", "a", "1", "job", "x"}, {"job", "x", "empty", "", "a", "1", "__name__", "any"},
	}
	want := column{}
	var request []prompb.TimeSeries
	for n, order := range orders {
		request = append(request, series(order, sample(startMs+int64(n), float64(n))))
		want[startMs+int64(n)] = math.Float64bits(float64(n))
	}
	sorted := labels.FromStrings("__name__", "any", "a", "1", "job", "x")
	r.write(request...)
	r.requireSeries(sorted, want)
	r.write(request...) // known now
	r.requireSeries(sorted, want)
	require.Equal(t, 1, r.Stats().Series)
	r = r.reopen(nil)
	r.write(request[1])
	r.requireSeries(sorted, want)
	require.Equal(t, 1, r.Stats().Series)
	r.close()
}

func TestLaterWriteWinsWhateverTheOrder(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	old := int64(startMs - 50*keyschema.HourMs)
	r.write(series(upNames, sample(startMs, 1), sample(old, 1), sample(startMs-1, 1), sample(startMs, 2)))
	r.flush()
	r.write(series(upNames, sample(old, 3)), series(upNames, sample(old, 4), sample(old+1, 5)))
	r.requireSeries(up, column{
		startMs: math.Float64bits(2), startMs - 1: math.Float64bits(1),
		old: math.Float64bits(4), old + 1: math.Float64bits(5),
	})
	r.close()
}

func TestSamplesAreLikeABody(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	r.write(series(upNames, sample(startMs, 1)))
	result, err := r.Write(context.Background(), SamplesInput([]Sample{
		{Labels: up, TsMs: startMs + 1, Value: 2},
		{Labels: labels.FromStrings("__name__", "other"), TsMs: startMs, Value: 3},
		{Labels: labels.FromStrings("job", "nameless"), TsMs: startMs, Value: 4},
	}))
	require.NoError(t, err)
	require.Equal(t, Result{
		Accepted: 2, Rejected: 1, Reasons: map[string]int{ReasonNoMetricName: 1},
		First:    `series {job="nameless"}: missing_metric_name: no metric name`,
		NewestMs: startMs / 60_000 * 60_000,
	}, result)
	require.Equal(t, 2, r.Stats().Series)
	r.requireSeries(up, column{startMs: math.Float64bits(1), startMs + 1: math.Float64bits(2)})
	r.close()
}

// TestEncodingsOfOneSeriesMeet sends one label set in several encodings.
func TestEncodingsOfOneSeriesMeet(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	r.write(series([]string{"__name__", "up", "empty", "", "job", "node"}, sample(startMs, 1)))
	r.write(series(upNames, sample(startMs+1, 2)))
	r.write(series([]string{"__name__", "up", "instance", "", "job", "node"}, sample(startMs+2, 3)))
	require.Equal(t, 1, r.Stats().Series)
	r.requireSeries(up, column{
		startMs: math.Float64bits(1), startMs + 1: math.Float64bits(2), startMs + 2: math.Float64bits(3),
	})
	r.close()
}

// TestEndlessEncodingsDoNotFillMemory varies an encoding without end.
func TestEndlessEncodingsDoNotFillMemory(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	for n := range 2 * aliasSlack {
		names := []string{"__name__", "up", fmt.Sprint("e", n), "", "job", "node"}
		r.write(series(names, sample(startMs+int64(n), 1)))
	}
	require.LessOrEqual(t, r.registry.Len(), aliasSlack+3)
	got, err := r.read(up)
	require.NoError(t, err)
	require.Len(t, got, 2*aliasSlack)
	r.close()
}

func TestRowsAreFlushedAfterTheirHour(t *testing.T) {
	c := ingesttest.NewClock()
	r := openRig(t, vfs.NewMem(), c, func(o *Options) {
		o.Head.Grace, o.Head.Spread, o.Head.FlushBytes = time.Minute, 4*time.Minute, 60<<10
	})
	var all []prompb.TimeSeries
	for n := range 4 * 512 {
		all = append(all, series([]string{"__name__", "m", "n", string(rune(0x4e00 + n))}, sample(startMs, 1)))
	}
	r.write(all...)
	rows := func() int { r.doStep(); return r.Stats().Rows }
	require.Equal(t, 2048, rows())
	c.Advance(40*time.Minute + 59*time.Second)
	require.Equal(t, 2048, rows(), "within grace")
	c.Advance(2 * time.Second)
	first := rows()
	require.Less(t, first, 2048, "the first slice is due")
	require.Greater(t, first, 1000)
	c.Advance(3 * time.Minute)
	require.Zero(t, rows())
	r.close()
}

// TestBackfillIsFlushedWhenIdle writes into an old hour. Its row is flushed once it is idle.
func TestBackfillIsFlushedWhenIdle(t *testing.T) {
	c := ingesttest.NewClock()
	r := openRig(t, vfs.NewMem(), c, nil)
	old := int64(startMs - 100*keyschema.HourMs)
	for n := range 10 {
		r.doStep()
		r.write(series(upNames, sample(old+int64(n), 1)))
		require.Equal(t, 1, r.Stats().Rows)
		c.Advance(time.Second) // a tick, as FlushInterval is off
	}
	r.doStep()
	require.Equal(t, 1, r.Stats().Rows)
	c.Advance(2 * time.Second)
	r.doStep()
	require.Zero(t, r.Stats().Rows)
	r.close()
}

func TestHugeRowsAreFlushedEarly(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), func(o *Options) { o.Head.RowBytesMax = 2000 })
	want := column{}
	for n := range 50 {
		ts := series(upNames)
		for k := range 40 {
			at, v := startMs+int64(n*40+k), math.Sqrt(float64(n*40+k))
			ts.Samples = append(ts.Samples, sample(at, v))
			want[at] = math.Float64bits(v)
		}
		r.write(ts)
	}
	require.Greater(t, r.Stats().Rows, 2)
	r.doStep()
	require.LessOrEqual(t, r.Stats().Rows, 1)
	r.requireSeries(up, want)
	r.close()
}

func TestMemoryPressureFlushesClosedThenLargest(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), func(o *Options) { o.Head.BytesMax = 64 << 10 })
	names := func(n int) []string { return []string{"__name__", "m", "n", string(rune('a' + n))} }
	for n := range 8 {
		closed, open := series(names(n)), series(names(n))
		for k := range 500 * (n + 1) {
			open.Samples = append(open.Samples, sample(startMs+int64(k), math.Sqrt(float64(k))))
		}
		for k := range 20 {
			closed.Samples = append(closed.Samples, sample(startMs-keyschema.HourMs+int64(k), math.Sqrt(float64(k))))
		}
		if r.head.Bytes() > r.opts.Head.BytesMax {
			break
		}
		r.write(closed, open)
	}
	require.Greater(t, r.head.Bytes(), r.opts.Head.BytesMax)
	r.doStep()
	require.LessOrEqual(t, r.head.Bytes(), r.opts.Head.BytesMax*3/4)
	require.Positive(t, r.Stats().Rows, "small open rows stay")
	require.Equal(t, keyschema.HourStartMs(keyschema.HourOf(startMs)), r.Stats().MinTimeMs)
	got, err := r.read(labels.FromStrings(names(0)...))
	require.NoError(t, err)
	require.Len(t, got, 520)
	r.close()
}

// failingStore refuses writes while the test sets it so. It can also apply a write and report a failure.
type failingStore struct {
	storage.Store
	fail, lie bool
}

type failingTable struct {
	storage.Table
	s *failingStore
}

func (s *failingStore) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	table, err := s.Store.EnsureTable(ctx, schema)
	return &failingTable{table, s}, err
}

var errNo = errors.New("no")

func (f *failingTable) do(run func() error) error {
	if !f.s.fail {
		return run()
	}
	if f.s.lie {
		if err := run(); err != nil {
			return err
		}
	}
	return errNo
}

func (f *failingTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	return f.do(func() error { return f.Table.Apply(ctx, muts) })
}

func (f *failingTable) Load(ctx context.Context, muts []storage.RowMutation) error {
	return f.do(func() error { return f.Table.Load(ctx, muts) })
}

func TestFailedFlushKeepsRows(t *testing.T) {
	for _, lie := range []bool{false, true} {
		failing := &failingStore{lie: lie}
		fs, c := vfs.NewMem(), ingesttest.NewClock()
		r := openRig(t, fs, c, func(o *Options) {
			failing.Store = o.Store
			o.Store = failing
		})
		want := column{}
		put := func(at int64, v float64) {
			r.write(series(upNames, sample(at, v)))
			want[at] = math.Float64bits(v)
		}
		put(startMs, 1)
		r.flush() // reserves run numbers
		failing.fail = true
		for n := range 5 {
			put(startMs, float64(n+2))
			put(startMs+int64(n), float64(-n))
			require.ErrorIs(t, r.Flush(context.Background()), errNo)
			r.requireSeries(up, want)
		}
		require.Equal(t, 5.0, r.counter("tsdb_ingest_flush_failures_total", "", ""))
		failing.fail = false
		r.flush()
		require.Zero(t, r.Stats().Rows)
		r.requireSeries(up, want)
		r.close()
	}
}

func TestMetadataIsKept(t *testing.T) {
	ctx := context.Background()
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	send := func(omitted map[string]int, all ...prompb.MetricMetadata) {
		result, err := r.Write(ctx, Input{Body: body(t, &prompb.WriteRequest{Metadata: all})})
		require.NoError(t, err)
		require.Equal(t, Result{Omitted: omitted}, result)
	}
	send(
		map[string]int{ReasonMetadataInvalid: 2},
		prompb.MetricMetadata{Type: prompb.MetricMetadata_COUNTER, MetricFamilyName: "a", Help: "old"},
		prompb.MetricMetadata{Type: prompb.MetricMetadata_COUNTER, MetricFamilyName: "a", Help: "new", Unit: "s"},
		prompb.MetricMetadata{Type: prompb.MetricMetadata_GAUGEHISTOGRAM, MetricFamilyName: "b é#"},
		prompb.MetricMetadata{Type: 77, MetricFamilyName: "c", Help: "\xff"},
		prompb.MetricMetadata{MetricFamilyName: ""},
	)
	require.Equal(t, 2.0, r.rejected(ReasonMetadataInvalid))
	send(nil, prompb.MetricMetadata{Type: prompb.MetricMetadata_COUNTER, MetricFamilyName: "a", Help: "old"})
	want := map[string][]Metadata{
		"a":    {{"counter", "old", ""}, {"counter", "new", "s"}},
		"b é#": {{"gaugehistogram", "", ""}},
	}
	require.Equal(t, want, r.Metadata("", 0))
	require.Equal(t, map[string][]Metadata{"a": want["a"]}, r.Metadata("a", 0))
	require.Equal(t, map[string][]Metadata{"a": want["a"]}, r.Metadata("", 1))
	require.Empty(t, r.Metadata("absent", 0))
	r = r.reopen(nil)
	require.Equal(t, want, r.Metadata("", 0))
	r = r.reopen(nil)
	require.Equal(t, want, r.Metadata("", 0))
	r.close()
}

// TestRetiredSeriesReturns removes a series from memory, writes it again and restarts.
func TestRetiredSeriesReturns(t *testing.T) {
	ctx := context.Background()
	c := ingesttest.NewClock()
	fs := vfs.NewMem()
	tweak := func(o *Options) { o.Head.IdleAfter = 48 * time.Hour }
	r := openRig(t, fs, c, tweak)
	r.write(series(upNames, sample(startMs, 1)), series([]string{"__name__", "steady"}, sample(startMs, 1)))
	r.flush()
	c.Advance(72 * time.Hour)
	later := c.Ms.Load()
	r.write(series([]string{"__name__", "steady"}, sample(later, 2)))
	require.NoError(t, r.maintain(ctx))
	require.Equal(t, 1, r.Stats().Series)
	r.flush()
	r.requireSeries(up, column{startMs: math.Float64bits(1)})
	r.write(series(upNames, sample(later, 2)))
	require.Equal(t, 2, r.Stats().Series)
	want := column{startMs: math.Float64bits(1), later: math.Float64bits(2)}
	r.requireSeries(up, want)
	r = r.reopen(tweak)
	r.requireSeries(up, want)
	r.close()
}

// TestReplayPassesOverRetiredSeries has a segment with samples of a series that was removed later.
func TestReplayPassesOverRetiredSeries(t *testing.T) {
	ctx := context.Background()
	c := ingesttest.NewClock()
	fs := vfs.NewCrashableMem()
	r := openRig(t, fs, c, nil)
	// The first segment holds the record of the series, and the server removes it. The second one holds a sample of the series,
	// and an open row keeps it.
	open := labels.FromStrings("__name__", "open")
	r.write(series(upNames, sample(startMs-1, 1)))
	_, err := r.log.Rotate()
	require.NoError(t, err)
	r.write(series([]string{"__name__", "open"}, sample(startMs, 1)), series(upNames, sample(startMs, 1)))
	r.flusher.Lock()
	_, err = r.flusher.FlushRows(ctx, func(row head.RowInfo) bool {
		return labels.Equal(up, r.index.Labels(index.Ref(row.Ref)))
	})
	r.flusher.Unlock()
	require.NoError(t, err)
	require.Equal(t, 1, r.Stats().Rows)
	c.Advance(72 * time.Hour)
	require.NoError(t, r.index.Maintain(ctx))
	require.NoError(t, r.collectSeries(ctx))
	require.Equal(t, 1, r.Stats().Series)
	r.flusher.Lock()
	require.NoError(t, r.flusher.Checkpoint(ctx))
	r.flusher.Unlock()
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	r.close()
	r = openRig(t, crashed, c, nil)
	r.requireSeries(up, column{startMs - 1: math.Float64bits(1), startMs: math.Float64bits(1)})
	r.requireSeries(open, column{startMs: math.Float64bits(1)})
	r.flush()
	r.flusher.Lock()
	require.Zero(t, r.flusher.StaleRefs())
	r.flusher.Unlock()
	r.close()
}

// TestSeriesUnderTwoNumbersInTheLog removes a series that returns at once: the log then has its samples under two
// numbers, and a checkpoint between two crashes must keep both.
func TestSeriesUnderTwoNumbersInTheLog(t *testing.T) {
	ctx := context.Background()
	c := ingesttest.NewClock()
	fs := vfs.NewCrashableMem()
	first, open := labels.FromStrings("__name__", "first"), labels.FromStrings("__name__", "open")
	r := openRig(t, fs, c, nil)
	r.write(series([]string{"__name__", "first"}, sample(startMs, 1)), series(upNames, sample(startMs-1, 1)))
	_, err := r.log.Rotate()
	require.NoError(t, err)
	r.write(series([]string{"__name__", "open"}, sample(startMs, 1)), series(upNames, sample(startMs, 1)))
	flushOld := func(kept ...labels.Labels) {
		r.flusher.Lock()
		defer r.flusher.Unlock()
		_, err := r.flusher.FlushRows(ctx, func(row head.RowInfo) bool {
			for _, ls := range kept {
				if labels.Equal(ls, r.index.Labels(index.Ref(row.Ref))) {
					return false
				}
			}
			return row.Hour == keyschema.HourOf(startMs)
		})
		require.NoError(t, err)
	}
	flushOld(open, first)
	c.Advance(72 * time.Hour)
	later := c.Ms.Load()
	require.NoError(t, r.index.Maintain(ctx))
	require.NoError(t, r.collectSeries(ctx))
	r.write(series(upNames, sample(later, 2)))
	want := column{startMs - 1: math.Float64bits(1), startMs: math.Float64bits(1), later: math.Float64bits(2)}
	for range 3 {
		next := fs.CrashClone(vfs.CrashCloneCfg{})
		r.close()
		fs = next
		r = openRig(t, fs, c, nil)
		r.requireSeries(up, want)
		// Drop the first segment, and with it the record of the old number. The second segment holds samples of this number, too.
		flushOld(open)
		r.flusher.Lock()
		require.NoError(t, r.flusher.Checkpoint(ctx))
		r.flusher.Unlock()
	}
	r.flush()
	require.Zero(t, r.flusher.StaleRefs())
	r.requireSeries(up, want)
	r.requireSeries(open, column{startMs: math.Float64bits(1)})
	r.close()
}

func TestClosedIngesterRefuses(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	r.write(series(upNames, sample(startMs, 1)))
	r.close()
	_, err := r.Write(context.Background(), Input{Body: nil})
	require.ErrorIs(t, err, ErrClosed)
	_, err = r.Write(context.Background(), SamplesInput(nil))
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, r.Close(context.Background()), ErrClosed)
}

// TestJobsRunAndStop lets the real background jobs flush a closed hour, and Close end them (TestMain looks for leaks).
func TestJobsRunAndStop(t *testing.T) {
	c := ingesttest.NewClock()
	r := openRig(t, vfs.NewMem(), c, func(o *Options) {
		o.Head.FlushInterval, o.Head.CheckpointInterval = time.Millisecond, time.Millisecond
		o.Head.MaintainInterval = time.Millisecond
	})
	r.write(series(upNames, sample(startMs, 1)))
	c.Advance(2 * time.Hour)
	require.Eventually(t, func() bool {
		c.Advance(time.Second)
		return r.Stats().Rows == 0 && r.counter("tsdb_ingest_checkpoints_total", "", "") > 0
	}, time.Minute, time.Millisecond)
	r.requireSeries(up, column{startMs: math.Float64bits(1)})
	r.close()
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := Open(context.Background(), Options{
		Head: HeadOptions{Stripes: 3}, Limits: Limits{AheadMax: -1},
	})
	for _, word := range []string{"Dir", "Store", "Index", "Schema", "Stripes", "AheadMax"} {
		require.ErrorContains(t, err, word)
	}
}

// TestSeriesTooLongForAKeyIsStored has labels within the limits that no row key can hold.
func TestSeriesTooLongForAKeyIsStored(t *testing.T) {
	r := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	names := []string{"__name__", "long"}
	for n := range 60 {
		names = append(names, fmt.Sprintf("label_%02d", n), strings.Repeat(string(rune('a'+n%26)), 4000))
	}
	r.write(series(names, sample(startMs, 1)))
	want := column{startMs: math.Float64bits(1)}
	r.requireSeries(labels.FromStrings(names...), want)
	r = r.reopen(nil)
	r.requireSeries(labels.FromStrings(names...), want)
	r.close()
}

// TestCloseHeedsItsContext closes while a write hangs: the log is closed in order, nothing is flushed, nothing is lost.
func TestCloseHeedsItsContext(t *testing.T) {
	fs, c := vfs.NewMem(), ingesttest.NewClock()
	r := openRig(t, fs, c, nil)
	r.write(series(upNames, sample(startMs, 1)))
	require.NoError(t, r.Enter())
	ctx, cancel := context.WithCancel(context.Background())
	closed := make(chan error)
	go func() { closed <- r.Close(ctx) }()
	require.Eventually(t, func() bool {
		r.gate.Lock()
		defer r.gate.Unlock()
		return r.closed
	}, time.Minute, time.Millisecond)
	cancel()
	require.Eventually(t, func() bool {
		_, err := r.log.Rotate()
		return errors.Is(err, wal.ErrClosed)
	}, time.Minute, time.Millisecond)
	r.Exit()
	require.ErrorIs(t, <-closed, context.Canceled)
	require.Equal(t, 1, r.Stats().Rows)
	require.NoError(t, r.store.Close())
	r = openRig(t, fs, c, nil)
	r.requireSeries(up, column{startMs: math.Float64bits(1)})
	r.close()
}
