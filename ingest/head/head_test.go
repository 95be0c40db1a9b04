package head_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/ingest/head"
	"halite/keyschema"
)

const baseMs = 472_222 * keyschema.HourMs

// writer appends samples of a settable segment and counts the rows that begin.
type writer struct {
	mu      sync.Mutex
	segment uint64
	opened  map[[2]int64]int
}

func (w *writer) append(h *head.Head, stripe int, samples []head.Sample) error {
	h.LockStripe(stripe)
	defer h.UnlockStripe(stripe)
	rows, err := h.Append(stripe, keyschema.Floats, samples, w.segment, nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.opened == nil {
		w.opened = make(map[[2]int64]int)
	}
	for _, row := range rows {
		w.opened[[2]int64{int64(row.Ref), row.Hour}]++
	}
	return err
}

func newHead(t testing.TB, opts head.Options, series int) *head.Head {
	h, err := head.New(opts)
	require.NoError(t, err)
	for ref := 1; ref <= series; ref++ {
		h.Register(uint32(ref), uint32(ref))
	}
	return h
}

// appendAll groups samples by stripe, as a writer does.
func appendAll(t testing.TB, h *head.Head, samples []head.Sample, w *writer) {
	for stripe := range h.Stripes() {
		var some []head.Sample
		for _, x := range samples {
			if h.Stripe(x.Ref) == stripe {
				some = append(some, x)
			}
		}
		if len(some) > 0 {
			require.NoError(t, w.append(h, stripe, some))
		}
	}
}

// column is a series in the oracle: bits by time.
type column map[int64]uint64

var oddValues = []float64{
	0, math.Copysign(0, -1), math.NaN(), math.Float64frombits(0x7ff0000000000002), math.Inf(1), math.Inf(-1),
	math.MaxFloat64, math.SmallestNonzeroFloat64, 0.1, 1e15 + 0.5,
}

func randomValue(rng *rand.Rand) float64 {
	switch rng.IntN(4) {
	case 0:
		return oddValues[rng.IntN(len(oddValues))]
	case 1:
		return math.Float64frombits(rng.Uint64())
	default:
		return float64(rng.IntN(1000)) / 10
	}
}

// model drives a head and an oracle. table is the data table with the flushed samples.
type model struct {
	t       testing.TB
	rng     *rand.Rand
	h       *head.Head
	writer  writer
	series  int
	hours   int
	oracle  map[uint32]column
	table   map[uint32]column
	flying  [][]head.Row // frozen parts, each of one stripe
	unsaved []map[uint32]column
}

func (m *model) write() {
	var samples []head.Sample
	for range m.rng.IntN(200) {
		ref := uint32(1 + m.rng.IntN(m.series))
		at := int64(baseMs + m.rng.IntN(m.hours)*keyschema.HourMs)
		switch m.rng.IntN(4) {
		case 0:
			at += int64(m.rng.IntN(50)) // many equal ones
		case 1:
			at += keyschema.HourMs - 1 - int64(m.rng.IntN(3))
		default:
			at += int64(m.rng.IntN(240)) * 15_000
		}
		for range 1 + m.rng.IntN(20) {
			samples = append(samples, head.Sample{Ref: ref, TsMs: at, Value: randomValue(m.rng)})
			if m.rng.IntN(10) > 0 {
				at += int64(1 + m.rng.IntN(20_000))
			}
		}
	}
	m.writer.segment++
	appendAll(m.t, m.h, samples, &m.writer)
	for _, s := range samples {
		if m.oracle[s.Ref] == nil {
			m.oracle[s.Ref] = column{}
		}
		m.oracle[s.Ref][s.TsMs] = math.Float64bits(s.Value)
		require.Positive(m.t, m.writer.opened[[2]int64{int64(s.Ref), keyschema.HourOf(s.TsMs)}])
	}
}

// freeze takes some rows of each stripe and reads them as a flush does.
func (m *model) freeze() {
	share := m.rng.IntN(4)
	for stripe := range m.h.Stripes() {
		rows := freeze(m.h, stripe, func(r head.RowInfo) bool { return r.Frozen || m.rng.IntN(4) < share })
		if len(rows) == 0 {
			continue
		}
		var d head.Reader
		m.h.CopyRows(&d, rows)
		flushed := map[uint32]column{}
		for from := 0; from < len(rows); {
			to := from + 1
			for to < len(rows) && rows[to].Ref == rows[from].Ref && rows[to].Hour() == rows[from].Hour() {
				to++
			}
			tsMs, values, err := d.Columns(from, to)
			require.NoError(m.t, err)
			if flushed[rows[from].Ref] == nil {
				flushed[rows[from].Ref] = column{}
			}
			for i, at := range tsMs {
				require.Equal(m.t, rows[from].Hour(), keyschema.HourOf(at))
				if i > 0 {
					require.Less(m.t, tsMs[i-1], at)
				}
				flushed[rows[from].Ref][at] = math.Float64bits(values[i])
			}
			from = to
		}
		m.flying = append(m.flying, rows)
		m.unsaved = append(m.unsaved, flushed)
	}
}

// finishFlushes makes every running flush succeed or fail. Flushes never overlap, so the table receives rows in order.
func (m *model) finishFlushes() {
	for i, rows := range m.flying {
		if m.rng.IntN(3) == 0 {
			m.h.Thaw(rows)
			continue
		}
		for ref, c := range m.unsaved[i] {
			if m.table[ref] == nil {
				m.table[ref] = column{}
			}
			maps.Copy(m.table[ref], c)
		}
		m.h.Free(rows)
	}
	m.flying, m.unsaved = nil, nil
}

func (m *model) check(ref uint32, mintMs, maxtMs int64) {
	m.t.Helper()
	// The columns already hold one sample: reads must append.
	tsMs, values, err := m.h.AppendSamples(ref, mintMs, maxtMs, []int64{-1}, []float64{-1})
	require.NoError(m.t, err)
	require.Equal(m.t, int64(-1), tsMs[0])
	inHead, want := column{}, column{}
	for i, at := range tsMs[1:] {
		if i > 0 {
			require.Less(m.t, tsMs[i], at)
		}
		require.True(m.t, mintMs <= at && at <= maxtMs)
		inHead[at] = math.Float64bits(values[i+1])
	}
	require.True(m.t, len(inHead) == 0 || m.h.Holds(mintMs, maxtMs), "[%d, %d]", mintMs, maxtMs)
	got := maps.Clone(m.table[ref])
	if got == nil {
		got = column{}
	}
	maps.DeleteFunc(got, func(at int64, _ uint64) bool { return at < mintMs || at > maxtMs })
	maps.Copy(got, inHead)
	for at, v := range m.oracle[ref] {
		if mintMs <= at && at <= maxtMs {
			want[at] = v
		}
	}
	require.Equal(m.t, want, got, "series %d in [%d, %d]", ref, mintMs, maxtMs)
}

// checkBatch compares a batch of series with the same series one by one.
func (m *model) checkBatch(mintMs, maxtMs int64) {
	m.t.Helper()
	refs := make([]uint32, m.rng.IntN(300))
	for i := range refs {
		refs[i] = uint32(m.rng.IntN(m.series + 600)) // some are not registered
	}
	w := keyschema.SampleWindow{MinMs: mintMs, MaxMs: maxtMs, NewestOnly: m.rng.IntN(2) == 0}
	if m.rng.IntN(2) == 0 {
		for range refs {
			w.FromMs = append(w.FromMs, baseMs+m.rng.Int64N(int64(m.hours)*keyschema.HourMs))
		}
	}
	fromMs := append([]int64(nil), w.FromMs...)
	tsMs, values, ends, err := m.h.AppendBatch(refs, w, []int64{-1}, []float64{-1}, []int{1})
	require.NoError(m.t, err)
	require.Len(m.t, ends, 1+len(refs))
	require.Len(m.t, values, len(tsMs))
	for i, ref := range refs {
		wantMs, want, err := m.h.AppendSamples(ref, keyschema.HourStartMs(keyschema.HourOf(mintMs)), maxtMs, nil, nil)
		require.NoError(m.t, err)
		if w.NewestOnly {
			wantMs, want = newestOfHours(wantMs, want)
		}
		replacedMs := int64(-1)
		if fromMs != nil && w.FromMs[i] >= 0 {
			require.Equal(m.t, fromMs[i], w.FromMs[i])
			hour := keyschema.HourOf(fromMs[i])
			require.False(m.t, m.flushing(ref, hour) && keyschema.HourStartMs(hour) >= mintMs && keyschema.HourStartMs(hour) <= maxtMs)
			replacedMs = fromMs[i]
		}
		wantMs, want = since(mintMs, replacedMs, wantMs, want)
		from, end := ends[i], ends[i+1]
		require.Equal(m.t, append([]int64{}, wantMs...), append([]int64{}, tsMs[from:end]...), "series %d, %+v", ref, w)
		for k := range want {
			require.Equal(m.t, math.Float64bits(want[k]), math.Float64bits(values[from+k]), "series %d, %+v", ref, w)
		}
	}
}

// flushing reports whether a row of an hour is being flushed.
func (m *model) flushing(ref uint32, hour int64) bool {
	for _, rows := range m.flying {
		for _, r := range rows {
			if r.Ref == ref && r.Hour() == hour {
				return true
			}
		}
	}
	return false
}

// since returns the samples from a time on. In the hour of fromMs, fromMs replaces that time.
func since(minMs, fromMs int64, tsMs []int64, values []float64) (keptMs []int64, kept []float64) {
	for i, ts := range tsMs {
		if from := map[bool]int64{false: minMs, true: fromMs}[keyschema.HourOf(ts) == keyschema.HourOf(fromMs)]; ts >= from {
			keptMs, kept = append(keptMs, ts), append(kept, values[i])
		}
	}
	return keptMs, kept
}

// newestOfHours returns the newest sample of each hour.
func newestOfHours(tsMs []int64, values []float64) (newestMs []int64, newest []float64) {
	for i, ts := range tsMs {
		if i+1 == len(tsMs) || keyschema.HourOf(tsMs[i+1]) != keyschema.HourOf(ts) {
			newestMs, newest = append(newestMs, ts), append(newest, values[i])
		}
	}
	return newestMs, newest
}

// TestHeadAgainstMap writes, freezes, frees, thaws and reads at random; head and flushed rows together must hold what a
// map holds, to the bit.
func TestHeadAgainstMap(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			m := &model{
				t: t, rng: rng, series: 1 + rng.IntN(1200), hours: 3, oracle: map[uint32]column{}, table: map[uint32]column{},
			}
			if seed%3 == 0 { // backfills: many hours of few series
				m.series, m.hours = 1+rng.IntN(20), 200
			}
			m.h = newHead(t, head.Options{Stripes: 1 << rng.IntN(3), RowBytesMax: 200 + rng.IntN(5000)}, m.series)
			for range 40 {
				switch rng.IntN(6) {
				case 0, 1, 2:
					m.write()
				case 3:
					m.finishFlushes()
					m.freeze()
				case 4:
					m.finishFlushes()
				case 5:
					for range 20 {
						ref := uint32(1 + rng.IntN(m.series))
						from := baseMs + int64(rng.IntN(m.hours*keyschema.HourMs))
						m.check(ref, from, from+int64(rng.IntN(2*keyschema.HourMs)))
					}
					from := baseMs + int64(rng.IntN(m.hours*keyschema.HourMs))
					m.checkBatch(from, from+int64(rng.IntN(2*keyschema.HourMs)))
				}
			}
			for ref := range m.oracle {
				m.check(ref, 0, math.MaxInt64)
			}
			m.finish()
		})
	}
}

// finish flushes everything. The accounted memory must be zero, and the blocks must be reusable.
func (m *model) finish() {
	m.finishFlushes()
	for stripe := range m.h.Stripes() {
		if rows := freeze(m.h, stripe, func(head.RowInfo) bool { return true }); len(rows) > 0 {
			m.h.Free(rows)
		}
	}
	require.Zero(m.t, m.h.Bytes())
	require.Zero(m.t, m.h.Rows())
	require.False(m.t, m.h.Holds(0, math.MaxInt64))
	require.Zero(m.t, m.h.Samples())
	require.Zero(m.t, m.h.Sealed())
	_, ok := m.h.OldestSegment()
	require.False(m.t, ok)
	m.oracle, m.table = map[uint32]column{}, map[uint32]column{}
	m.write()
	for ref := range m.oracle {
		m.check(ref, 0, math.MaxInt64)
	}
}

func TestOldestSegmentIsThatOfTheRowsFirstSample(t *testing.T) {
	h := newHead(t, head.Options{Stripes: 2, RowBytesMax: 1 << 16}, 2000)
	s := &writer{segment: 7}
	appendAll(t, h, []head.Sample{{Ref: 1, TsMs: baseMs}}, s)
	s.segment = 9
	appendAll(t, h, []head.Sample{{Ref: 1, TsMs: baseMs + 1}, {Ref: 2000, TsMs: baseMs}}, s)
	oldest, ok := h.OldestSegment()
	require.True(t, ok)
	require.Equal(t, uint64(7), oldest)
	rows := freeze(h, h.Stripe(1), func(r head.RowInfo) bool { return r.Ref == 1 })
	h.Free(rows)
	oldest, ok = h.OldestSegment()
	require.True(t, ok)
	require.Equal(t, uint64(9), oldest)
	first, last, ok := h.Bounds()
	require.True(t, ok)
	require.Equal(t, []int64{keyschema.HourOf(baseMs), keyschema.HourOf(baseMs)}, []int64{first, last})
}

// TestEmptyHeadLetsMemoryGo frees the rows of many series.
func TestEmptyHeadLetsMemoryGo(t *testing.T) {
	const series = 100_000
	h := newHead(t, head.Options{Stripes: 4, RowBytesMax: 1 << 16}, series)
	heapBytes := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	empty := heapBytes()
	samples := make([]head.Sample, series)
	for i := range samples {
		samples[i] = head.Sample{Ref: uint32(i + 1), TsMs: baseMs, Value: float64(i)}
	}
	appendAll(t, h, samples, &writer{})
	full := heapBytes()
	for stripe := range 4 {
		h.Free(freeze(h, stripe, func(head.RowInfo) bool { return true }))
	}
	require.Less(t, heapBytes()-empty, (full-empty)/4)
	appendAll(t, h, samples[:10], &writer{})
	tsMs, _, err := h.AppendSamples(7, 0, math.MaxInt64, nil, nil)
	require.NoError(t, err)
	require.Len(t, tsMs, 1)
}

// TestDeletionFillsARow deletes a sample between regular ones, in rows of all limits. The others take more bytes, so some rows
// become full. The flush of the rows takes back the count of full rows.
func TestDeletionFillsARow(t *testing.T) {
	var samples []head.Sample
	for i := range 30 {
		samples = append(samples, head.Sample{Ref: 1, TsMs: baseMs + int64(i)*15_000, Value: 1})
	}
	atMs, filled := samples[5].TsMs, false
	for bytesMax := 1; bytesMax <= 100; bytesMax++ {
		h := newHead(t, head.Options{Stripes: 1, RowBytesMax: bytesMax}, 1)
		appendAll(t, h, samples, &writer{})
		sealed := h.Sealed()
		deleted, err := h.Delete([]uint32{1}, atMs, atMs, func() error { return nil }, func() {})
		require.NoError(t, err)
		require.Equal(t, int64(1), deleted)
		filled = filled || h.Sealed() > sealed
		h.Free(h.Freeze(nil, h.SelectRows(nil, 0, func(head.RowInfo) bool { return true })))
		require.Zero(t, h.Rows())
		require.Zero(t, h.Sealed(), bytesMax)
	}
	require.True(t, filled)
}

func TestUnregisteredSeriesReadAsEmpty(t *testing.T) {
	h := newHead(t, head.Options{Stripes: 1, RowBytesMax: 1 << 16}, 3000)
	appendAll(t, h, []head.Sample{{Ref: 700, TsMs: baseMs, Value: 1}}, &writer{})
	require.True(t, h.HasRows(700))
	require.False(t, h.HasRows(701))
	var idle []uint32
	for ref := uint32(1); ref <= 3000; ref++ {
		if !h.HasRows(ref) {
			idle = append(idle, ref)
		}
	}
	h.Unregister(idle)
	require.Zero(t, h.LogRef(701))
	require.Equal(t, uint32(700), h.LogRef(700))
	seen := 0
	h.EachSeries(func(ref, log uint32) { seen++; require.Equal(t, uint32(700), ref) })
	require.Equal(t, 1, seen)
	for _, ref := range []uint32{1, 701, 2999, 1 << 20} {
		tsMs, _, err := h.AppendSamples(ref, 0, math.MaxInt64, nil, nil)
		require.NoError(t, err)
		require.Empty(t, tsMs)
	}
	h.Register(3001, 5)
	appendAll(t, h, []head.Sample{{Ref: 3001, TsMs: baseMs, Value: 2}, {Ref: 700, TsMs: baseMs + 1, Value: 2}}, &writer{})
	tsMs, _, err := h.AppendSamples(3001, 0, math.MaxInt64, nil, nil)
	require.NoError(t, err)
	require.Len(t, tsMs, 1)
}

// TestReadersSeeWholePrefixes runs one writer for each stripe, readers and a flusher together. A writer counts up. In
// table and head together, a reader must find the numbers 0…n without a gap, and all numbers that were appended before
// it began, with and without Holds. Each writer has an hour of its own.
func TestReadersSeeWholePrefixes(t *testing.T) {
	const writers, samples = 4, 3000
	h := newHead(t, head.Options{Stripes: writers, RowBytesMax: 600}, writers*512)
	var table sync.Map // ref → *flushedCounts
	var running sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		ref := uint32(w*512 + 1)
		flushed := &flushedCounts{startMs: baseMs + int64(w)*keyschema.HourMs}
		table.Store(ref, flushed)
		running.Add(1)
		go func() {
			defer running.Done()
			s := &writer{}
			for i := range samples {
				err := s.append(h, h.Stripe(ref), []head.Sample{{Ref: ref, TsMs: flushed.startMs + int64(i), Value: float64(i)}})
				if err != nil {
					t.Error(err)
					return
				}
				flushed.appended.Store(int64(i + 1))
			}
		}()
	}
	var helpers sync.WaitGroup
	helpers.Add(2)
	go func() {
		defer helpers.Done()
		flushUntil(t, h, &table, done)
	}()
	go func() {
		defer helpers.Done()
		rng := rand.New(rand.NewPCG(3, 3))
		for {
			select {
			case <-done:
				return
			default:
			}
			readPrefix(t, h, &table, uint32(rng.IntN(writers)*512+1))
		}
	}()
	running.Wait()
	close(done)
	helpers.Wait()
	for w := range writers {
		require.Equal(t, samples, readPrefix(t, h, &table, uint32(w*512+1)))
	}
}

type flushedCounts struct {
	startMs  int64
	appended atomic.Int64
	mu       sync.Mutex
	tsMs     map[int64]float64
}

func readPrefix(t *testing.T, h *head.Head, table *sync.Map, ref uint32) int {
	stored, _ := table.Load(ref)
	counts := stored.(*flushedCounts)
	appended := counts.appended.Load()
	var (
		tsMs   []int64
		values []float64
		err    error
	)
	if h.Holds(counts.startMs, counts.startMs+keyschema.HourMs-1) {
		if tsMs, values, err = h.AppendSamples(ref, 0, math.MaxInt64, nil, nil); err != nil {
			t.Error(err)
			return 0
		}
	}
	all := map[int64]float64{}
	counts.mu.Lock()
	maps.Copy(all, counts.tsMs)
	counts.mu.Unlock()
	for i, at := range tsMs {
		all[at] = values[i]
	}
	for i := range len(all) {
		if v, ok := all[counts.startMs+int64(i)]; !ok || v != float64(i) {
			t.Errorf("series %d lacks %d of %d", ref, i, len(all))
			return 0
		}
	}
	if int64(len(all)) < appended {
		t.Errorf("series %d has %d samples, %d were appended before", ref, len(all), appended)
	}
	return len(all)
}

func flushUntil(t *testing.T, h *head.Head, table *sync.Map, done chan struct{}) {
	var d head.Reader
	rng := rand.New(rand.NewPCG(4, 4))
	for {
		select {
		case <-done:
			return
		default:
		}
		for stripe := range h.Stripes() {
			rows := freeze(h, stripe, func(head.RowInfo) bool { return rng.IntN(2) == 0 })
			if len(rows) == 0 {
				continue
			}
			h.CopyRows(&d, rows)
			tsMs, values, err := d.Columns(0, len(rows))
			if err != nil {
				t.Error(err)
				return
			}
			if rng.IntN(4) == 0 {
				h.Thaw(rows)
				continue
			}
			stored, _ := table.Load(rows[0].Ref)
			counts := stored.(*flushedCounts)
			counts.mu.Lock()
			if counts.tsMs == nil {
				counts.tsMs = map[int64]float64{}
			}
			for i, at := range tsMs {
				counts.tsMs[at] = values[i]
			}
			counts.mu.Unlock()
			h.Free(rows)
		}
	}
}

// freeze freezes the rows of a stripe that pick chooses.
func freeze(h *head.Head, stripe int, pick func(head.RowInfo) bool) []head.Row {
	return h.Freeze(nil, h.SelectRows(nil, stripe, pick))
}

// benchmarkAppend appends one sample to each series in each round. Rounds are 15 s apart, with some milliseconds of jitter.
func benchmarkAppend(b *testing.B, series int, jitterMs int64) {
	h := newHead(b, head.Options{Stripes: 16, RowBytesMax: 1 << 18}, series)
	s := &writer{}
	samples := make([]head.Sample, 512)
	b.ReportAllocs()
	b.ResetTimer()
	n := 0
	for round := 0; n < b.N; round++ {
		for first := 1; first+len(samples) <= series+1 && n < b.N; first += len(samples) {
			for i := range samples {
				atMs := baseMs + int64(round%240)*15_000
				if jitterMs > 0 {
					atMs += int64(round*31+i*17) % jitterMs
				}
				samples[i] = head.Sample{Ref: uint32(first + i), TsMs: atMs, Value: float64(round * (i%7 + 1))}
			}
			// Refs of a block share a stripe except the first block, which lacks ref 0.
			from := 0
			for from < len(samples) {
				to := from + 1
				for to < len(samples) && h.Stripe(samples[to].Ref) == h.Stripe(samples[from].Ref) {
					to++
				}
				if err := s.append(h, h.Stripe(samples[from].Ref), samples[from:to]); err != nil {
					b.Fatal(err)
				}
				from = to
			}
			n += len(samples)
		}
		if round%240 == 239 {
			b.StopTimer()
			for stripe := range h.Stripes() {
				h.Free(freeze(h, stripe, func(head.RowInfo) bool { return true }))
			}
			b.StartTimer()
		}
	}
	b.ReportMetric(float64(h.Bytes())/float64(max(1, h.Rows())), "B/row")
}

// BenchmarkAppend reports the time for one sample.
func BenchmarkAppend(b *testing.B) {
	for _, series := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint("series=", series), func(b *testing.B) { benchmarkAppend(b, series, 0) })
		b.Run(fmt.Sprint("jitter/series=", series), func(b *testing.B) { benchmarkAppend(b, series, 13) })
	}
}

// BenchmarkRead reports the time to read one series' row of 240 samples.
func BenchmarkRead(b *testing.B) {
	h := newHead(b, head.Options{Stripes: 16, RowBytesMax: 1 << 18}, 1000)
	for round := range 240 {
		for ref := uint32(1); ref <= 1000; ref++ {
			sample := head.Sample{Ref: ref, TsMs: baseMs + int64(round)*15_000, Value: float64(round) * float64(ref)}
			require.NoError(b, (&writer{}).append(h, h.Stripe(ref), []head.Sample{sample}))
		}
	}
	var tsMs []int64
	var values []float64
	b.ReportAllocs()
	ref := uint32(0)
	for b.Loop() {
		ref = ref%1000 + 1
		var err error
		if tsMs, values, err = h.AppendSamples(ref, 0, math.MaxInt64, tsMs[:0], values[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSortDedup compares columns in any order, near to sorted and far from it, with a map.
func TestSortDedup(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 12))
	for round := range 500 {
		n, spread := rng.IntN(400), 1+rng.IntN(1+round)
		var tsMs []int64
		var values []float64
		want := map[int64]float64{}
		for i := range n {
			at, v := int64(i+rng.IntN(spread)), float64(i)
			tsMs, values = append(tsMs, at), append(values, v)
			want[at] = v
		}
		head.RequireSortDedup(t, tsMs, values, want)
	}
}
