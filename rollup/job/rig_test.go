package job

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/keyschema/histchunk"
	"halite/rollup/store"
	"halite/storage"
	"halite/storage/pebble"
)

// firstDay is January 20th, 2024: tests cross the ends of months.
const firstDay = 19_742

// rigOptions are the options of a store and its job.
type rigOptions struct {
	store.Options
	Job Options
}

// keep sets the retention of samples and hours.
func (o *rigOptions) keep(raw, hours time.Duration) {
	o.Retention = keyschema.NewRetention(keyschema.Uniform(keyschema.NewRetentionByTier(raw, hours, 0)))
}

// rig is an engine with a store of states on one file system. The job does not run by itself: tests call Step.
type rig struct {
	*Rollups
	fs    vfs.FS
	clock *atomic.Int64 // ms
	store storage.Store
	data  storage.Table // writes invalidate states
	raw   storage.Table // writes do not
	reg   *prometheus.Registry
}

func openRig(t testing.TB, fs vfs.FS, clock *atomic.Int64, tweak func(*rigOptions)) *rig {
	t.Helper()
	r, err := tryRig(fs, clock, tweak)
	require.NoError(t, err)
	return r
}

func tryRig(fs vfs.FS, clock *atomic.Int64, tweak func(*rigOptions)) (*rig, error) {
	ctx := context.Background()
	now := func() time.Time { return time.UnixMilli(clock.Load()) }
	tables, err := pebble.Open(pebble.Options{Dir: "/db", FS: fs, CacheBytes: 4 << 20, MemtableBytes: 1 << 20, Now: now})
	if err != nil {
		return nil, fmt.Errorf("open the engine: %w", err)
	}
	r := &rig{fs: fs, clock: clock, store: tables, reg: prometheus.NewRegistry()}
	opts := rigOptions{
		store.Options{Tables: tables, Now: now, Registerer: r.reg}, Options{Settle: -1, Share: 1, Registerer: r.reg},
	}
	if tweak != nil {
		tweak(&opts)
	}
	if r.Rollups, err = Open(ctx, opts.Options, opts.Job); err != nil {
		return nil, errors.Join(err, tables.Close())
	}
	raw := time.Duration(r.Options().Retention.Load().Longest()[keyschema.Raw])
	if r.data, err = r.Invalidating(tables).EnsureTable(ctx, storage.DataSchema(raw)); err != nil {
		return nil, errors.Join(err, tables.Close())
	}
	r.raw = r.Store.Data
	return r, nil
}

func newClock(day int64) *atomic.Int64 {
	clock := new(atomic.Int64)
	clock.Store(day * dayMs)
	return clock
}

func (r *rig) close(t testing.TB) {
	t.Helper()
	r.Close()
	require.NoError(t, r.store.Close())
}

// counter reads a counter of the registry.
func (r *rig) counter(t testing.TB, name string) float64 {
	t.Helper()
	families, err := r.reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.Fail(t, "there is no counter "+name)
	return 0
}

// planDay plans to compute a day, even if it has no samples.
func (r *rig) planDay(t testing.TB, day int64) {
	t.Helper()
	_, err := r.Manifest.CloseDays(context.Background(), day, func(int64) ([]int64, error) { return []int64{day}, nil })
	require.NoError(t, err)
}

// work steps until there is nothing to do.
func (r *rig) work(t testing.TB) {
	t.Helper()
	for n := 0; ; n++ {
		worked, err := r.Step(context.Background())
		require.NoError(t, err)
		if !worked {
			return
		}
		require.Less(t, n, 10_000, "the job does not end")
	}
}

// series is one series: its samples by time, and the next sequence number.
type series struct {
	prefix  []byte
	samples map[int64]float64
	seq     uint32
	// histograms adds a native histogram to each sample that is written.
	histograms bool
}

func newSeries(n int) *series {
	rule := keyschema.DefaultRule()
	return &series{
		prefix:  rule.AppendPrefix(nil, "m", []keyschema.Tag{{Name: "n", Value: strconv.Itoa(n)}}),
		samples: map[int64]float64{},
	}
}

// columns returns the samples from fromMs to toMs, sorted by time.
func (s *series) columns(fromMs, toMs int64) (tsMs []int64, values []float64) {
	for ts := range s.samples {
		if ts >= fromMs && ts <= toMs {
			tsMs = append(tsMs, ts)
		}
	}
	slices.Sort(tsMs)
	for _, ts := range tsMs {
		values = append(values, s.samples[ts])
	}
	return tsMs, values
}

// rows makes mutations that write samples: a chunk for each hour, or single samples.
func (s *series) rows(t testing.TB, rng *rand.Rand, samples map[int64]float64) []storage.RowMutation {
	t.Helper()
	byHour := map[int64][]int64{}
	for ts := range samples {
		hour := keyschema.HourOf(ts)
		byHour[hour] = append(byHour[hour], ts)
	}
	var muts []storage.RowMutation
	for _, hour := range slices.Sorted(maps.Keys(byHour)) {
		tsMs := byHour[hour]
		slices.Sort(tsMs)
		m := storage.RowMutation{Key: keyschema.AppendHour(bytes.Clone(s.prefix), hour)}
		entry := func(qualifier, value []byte) storage.Entry {
			return storage.Entry{Kind: storage.SetCell, Family: storage.FamilySamples, TsMs: keyschema.HourCellMs(hour),
				Qualifier: qualifier, Value: value}
		}
		if len(tsMs) < 4 && rng.IntN(2) == 0 {
			for _, ts := range tsMs {
				m.Entries = append(m.Entries, entry(
					keyschema.AppendSampleQualifier(nil, uint32(ts-keyschema.HourStartMs(hour))),
					chunk.AppendSampleValue(nil, samples[ts])))
			}
		} else {
			// Single samples win over chunks. So the mutation deletes the single samples that the chunk replaces.
			values := make([]float64, len(tsMs))
			for i, ts := range tsMs {
				values[i] = samples[ts]
				m.Entries = append(m.Entries, storage.Entry{Kind: storage.DeleteCells, Family: storage.FamilySamples,
					Qualifier: keyschema.AppendSampleQualifier(nil, uint32(ts-keyschema.HourStartMs(hour)))})
			}
			s.seq++
			packed, err := chunk.Append(nil, keyschema.HourStartMs(hour), tsMs, values)
			require.NoError(t, err)
			m.Entries = append(m.Entries, entry(keyschema.AppendChunkQualifier(nil, s.seq), packed))
		}
		if s.histograms {
			m.Entries = append(m.Entries, s.histogramEntry(t, hour, tsMs, samples))
		}
		muts = append(muts, m)
	}
	slices.SortFunc(muts, func(a, b storage.RowMutation) int { return bytes.Compare(a.Key, b.Key) })
	return muts
}

// histogramEntry packs a counter at each time, which grows and resets as the values do.
func (s *series) histogramEntry(t testing.TB, hour int64, tsMs []int64, values map[int64]float64) storage.Entry {
	t.Helper()
	var all []histchunk.Sample
	for _, ts := range tsMs {
		all = append(all, histogramAt(ts, int64(math.Abs(values[ts]))))
	}
	s.seq++
	packed, err := new(histchunk.Encoder).Append(nil, keyschema.HourStartMs(hour), all)
	require.NoError(t, err)
	return storage.Entry{Kind: storage.SetCell, Family: storage.FamilyHistograms, TsMs: keyschema.HourCellMs(hour),
		Qualifier: keyschema.AppendChunkQualifier(nil, s.seq), Value: packed}
}

// histogramAt makes a histogram with n observations in each of two buckets.
func histogramAt(tsMs, n int64) histchunk.Sample {
	return histchunk.Sample{TsMs: tsMs, H: &histogram.Histogram{
		Schema: 3, Count: uint64(2 * n), Sum: float64(n), ZeroThreshold: 1e-9,
		PositiveSpans: []histogram.Span{{Offset: 1, Length: 1}, {Offset: 9, Length: 1}}, PositiveBuckets: []int64{n, 0},
	}}
}

// write writes samples through the invalidating store, by Load or Apply.
func (r *rig) write(t testing.TB, rng *rand.Rand, s *series, samples map[int64]float64) {
	t.Helper()
	muts := s.rows(t, rng, samples)
	var err error
	if plain := !slices.ContainsFunc(muts, func(m storage.RowMutation) bool {
		return slices.ContainsFunc(m.Entries, func(e storage.Entry) bool { return e.Kind != storage.SetCell })
	}); plain && rng.IntN(2) == 0 {
		err = r.data.Load(context.Background(), muts)
	} else {
		err = r.data.Apply(context.Background(), muts)
	}
	require.NoError(t, err)
	maps.Copy(s.samples, samples)
}

// remove removes the rows of some hours.
func (r *rig) remove(t testing.TB, s *series, fromHour, toHour int64) {
	t.Helper()
	var muts []storage.RowMutation
	for hour := toHour; hour >= fromHour; hour-- {
		muts = append(muts, storage.RowMutation{
			Key: keyschema.AppendHour(bytes.Clone(s.prefix), hour), Entries: []storage.Entry{{Kind: storage.DeleteRow}},
		})
	}
	require.NoError(t, r.data.Apply(context.Background(), muts))
	maps.DeleteFunc(s.samples, func(ts int64, _ float64) bool {
		return keyschema.HourOf(ts) >= fromHour && keyschema.HourOf(ts) <= toHour
	})
}

// generate makes random samples in [fromMs, toMs). The kind selects values and jitter.
func generate(rng *rand.Rand, kind int, fromMs, toMs, intervalMs int64) map[int64]float64 {
	samples := map[int64]float64{}
	counter := math.Floor(1e6 * rng.Float64())
	for ts := fromMs + rng.Int64N(intervalMs); ts < toMs; ts += intervalMs {
		if rng.IntN(300) == 0 {
			ts += rng.Int64N(5 * keyschema.HourMs) // a gap
			continue
		}
		at := ts
		if kind%2 == 0 {
			at += rng.Int64N(20)
		}
		if at >= toMs {
			break
		}
		counter += float64(rng.IntN(100))
		if rng.IntN(400) == 0 {
			counter = float64(rng.IntN(3))
		}
		v := counter
		switch kind % 6 {
		case 1:
			v = counter / 100
		case 2:
			v = math.Round(rng.NormFloat64()*1e4) / 100
		case 3:
			v = rng.NormFloat64() * 1e6
		case 4:
			v = float64(rng.IntN(3))
		case 5:
			v = 42
		}
		if kind >= 6 {
			switch rng.IntN(60) {
			case 0:
				v = math.NaN()
			case 1:
				v = math.Float64frombits(0x7ff0000000000002) // stale marker
			case 2:
				v = math.Inf(1 - 2*rng.IntN(2))
			}
		}
		samples[at] = v
	}
	return samples
}

func sortSeries(all []*series) {
	slices.SortFunc(all, func(a, b *series) int { return bytes.Compare(a.prefix, b.prefix) })
}

func prefixes(all []*series) [][]byte {
	out := make([][]byte, len(all))
	for i, s := range all {
		out[i] = s.prefix
	}
	return out
}

func near(a, b, relative, absolute float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) || math.IsInf(a, 0) || math.IsInf(b, 0) {
		return cmp.Compare(a, b) == 0
	}
	return math.Abs(a-b) <= relative*max(math.Abs(a), math.Abs(b))+absolute
}
