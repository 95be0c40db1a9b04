package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/memory"
	"halite/storage/pebble"
)

// The benchmarks use 10,000 hosts with 100 series of 11 labels each. Metric x100 has ten series for each host; x10 and 89
// others have one.
const (
	benchHosts  = 10_000
	benchSeries = 100 * benchHosts
)

func benchLabels(b *labels.ScratchBuilder, host, i int) labels.Labels {
	metric, cpu := fmt.Sprintf("metric_%02d_total", i), ""
	switch {
	case i < 10:
		metric, cpu = "x100", fmt.Sprint(i)
	case i == 10:
		metric = "x10"
	}
	b.Reset()
	b.Add(model.MetricNameLabel, metric)
	b.Add("arch", []string{"x64", "arm"}[host%2])
	if cpu != "" {
		b.Add("cpu", cpu)
	}
	b.Add("datacenter", fmt.Sprintf("eu-%02d", host%30))
	b.Add("instance", fmt.Sprintf("host-%05d.example.net:9100", host))
	b.Add("job", "node")
	b.Add("os", []string{"Debian12", "Debian13", "Ubuntu24"}[host%3])
	b.Add("rack", fmt.Sprint(host%100))
	b.Add("region", fmt.Sprintf("eu-%d", host%10))
	b.Add("service", fmt.Sprint(host%20))
	b.Add("team", []string{"SF", "NYC", "LON", "CHI"}[host%4])
	return b.Labels()
}

type benchWorld struct {
	now   time.Time
	store storage.Store
	opts  Options
	x     *Index
	fs    vfs.FS
}

func newBenchWorld(tb testing.TB) *benchWorld {
	w := &benchWorld{now: time.UnixMilli(keyschema.HourStartMs(baseDay*24 + 12)), fs: vfs.NewMem()}
	w.openStore(tb)
	return w
}

func (w *benchWorld) openStore(tb testing.TB) {
	store, err := pebble.Open(pebble.Options{Dir: "db", FS: w.fs, Now: func() time.Time { return w.now }})
	require.NoError(tb, err)
	schema, err := keyschema.NewSchema(nil)
	require.NoError(tb, err)
	w.store = store
	w.opts = Options{Store: store, Schema: schema, Now: func() time.Time { return w.now }}
	w.open(tb)
}

func (w *benchWorld) open(tb testing.TB) {
	x, err := Open(context.Background(), w.opts)
	require.NoError(tb, err)
	w.x = x
}

// fill adds and touches all series in one hour and persists.
func (w *benchWorld) fill(tb testing.TB) {
	b := labels.NewScratchBuilder(12)
	hour := keyschema.HourOf(w.now.UnixMilli())
	for host := range benchHosts {
		for i := range 100 {
			ref, _, err := w.x.Add(benchLabels(&b, host, i))
			require.NoError(tb, err)
			w.x.MarkActive(ref, hour)
		}
	}
	require.NoError(tb, w.x.Persist(context.Background()))
	require.NoError(tb, w.store.Sync(context.Background()))
}

var (
	benchOnce   sync.Once
	benchActive *benchWorld
	benchClosed *benchWorld
)

// storedBytes adds up keys, qualifiers and values in the tables of the index, either of months or of everything else.
func (w *benchWorld) storedBytes(tb testing.TB, months bool) (n int) {
	for _, name := range []string{storage.TableSeries, storage.TableLabels} {
		t, err := w.store.Table(context.Background(), name)
		require.NoError(tb, err)
		it := t.ReadRows(context.Background(), storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
		for it.Next() {
			row := it.Row()
			for _, c := range row.Cells {
				if month := (c.TsMs+1)%1000 != 0; month == months {
					n += len(row.Key) + len(c.Qualifier) + len(c.Value)
				}
			}
		}
		require.NoError(tb, it.Err())
		require.NoError(tb, it.Close())
	}
	return n
}

// benchDay is the first of 30 closed days. Half of them are in the next month: the worst case for a window of 30 days.
const benchDay = baseDay + 13

// benchWorlds returns worlds that all benchmarks share: one with an active day, and one with 30 closed days and no active
// series.
func benchWorlds(b *testing.B) (active, closed *benchWorld) {
	benchOnce.Do(func() {
		benchActive = newBenchWorld(b)
		benchActive.fill(b)
		benchClosed = newBenchWorld(b)
		for day := range 30 {
			benchClosed.now = time.UnixMilli(keyschema.HourStartMs((benchDay+int64(day))*24 + 12))
			benchClosed.fill(b)
			benchClosed.now = benchClosed.now.Add(14 * time.Hour)
			require.NoError(b, benchClosed.x.Maintain(context.Background()))
		}
		b.Logf("30 days: %.2f B a series and day, their months %.2f B",
			float64(benchClosed.storedBytes(b, false))/benchSeries/30, float64(benchClosed.storedBytes(b, true))/benchSeries/30)
		benchClosed.now = benchClosed.now.Add(48 * time.Hour)
		before := keyschema.HourOf(benchClosed.now.UnixMilli())
		require.NotEmpty(b, benchClosed.x.Retire(benchClosed.x.Idle(before), before, nil))
	})
	return benchActive, benchClosed
}

func BenchmarkAddNew(b *testing.B) {
	w := newBenchWorld(b)
	builder := labels.NewScratchBuilder(12)
	var sets []labels.Labels
	for host := range benchHosts {
		for i := range 100 {
			sets = append(sets, benchLabels(&builder, host, i))
		}
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	b.ResetTimer()
	for b.Loop() {
		b.StopTimer()
		require.NoError(b, w.store.Close())
		w.fs = vfs.NewMem()
		w.openStore(b)
		before := heap()
		b.StartTimer()
		hour := keyschema.HourOf(w.now.UnixMilli())
		for _, ls := range sets {
			ref, _, _ := w.x.Add(ls)
			w.x.MarkActive(ref, hour)
		}
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/benchSeries, "B/series")
		b.ReportMetric(float64(w.x.SizeBytes())/benchSeries, "own-B/series")
		b.StartTimer()
		start := time.Now()
		require.NoError(b, w.x.Persist(context.Background()))
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/benchSeries, "persist-ns/series")
		b.ReportMetric(float64(w.storedBytes(b, false))/benchSeries, "journal-B/series")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchSeries, "ns/series")
}

func BenchmarkTouch(b *testing.B) {
	w, _ := benchWorlds(b)
	hour := keyschema.HourOf(w.now.UnixMilli())
	b.Run("new-hour", func(b *testing.B) {
		ref := memory.Ref(0)
		for b.Loop() {
			ref++
			if ref > benchSeries {
				ref = 1
				hour++
			}
			w.x.MarkActive(ref, hour)
		}
	})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			w.x.MarkActive(77, hour)
		}
	})
	b.Run("persist-hour", func(b *testing.B) { // a steady million touched in one more hour
		for b.Loop() {
			b.StopTimer()
			hour++
			for ref := memory.Ref(1); ref <= benchSeries; ref++ {
				w.x.MarkActive(ref, hour)
			}
			b.StartTimer()
			require.NoError(b, w.x.Persist(context.Background()))
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	w, _ := benchWorlds(b)
	for b.Loop() {
		w.open(b)
	}
}

func BenchmarkCompact(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		w := newBenchWorld(b)
		w.fill(b)
		w.now = w.now.Add(14 * time.Hour)
		b.StartTimer()
		require.NoError(b, w.x.Maintain(context.Background()))
		b.StopTimer()
		b.ReportMetric(float64(w.storedBytes(b, false))/benchSeries, "B/series")
		require.NoError(b, w.store.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchSeries, "ns/series")
}

// BenchmarkStress has one metric of half a million series with a unique random label and 50,000 metrics of ten series.
func BenchmarkStress(b *testing.B) {
	w := newBenchWorld(b)
	ctx, hour := context.Background(), keyschema.HourOf(w.now.UnixMilli())
	rng := rand.New(rand.NewPCG(1, 1))
	unique := func() string { return fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64()) }
	start := time.Now()
	var some string
	for i := range 500_000 {
		some = unique()
		ref, _, err := w.x.Add(labels.FromStrings(model.MetricNameLabel, "pods", "ns", fmt.Sprint(i%50), "uid", some))
		require.NoError(b, err)
		w.x.MarkActive(ref, hour)
		tiny := fmt.Sprint("tiny_metric_", i/10)
		ref, _, err = w.x.Add(labels.FromStrings(model.MetricNameLabel, tiny, "job", "x", "i", fmt.Sprint(i%10)))
		require.NoError(b, err)
		w.x.MarkActive(ref, hour)
	}
	b.Logf("add %v, %d B a series", time.Since(start), w.x.SizeBytes()/benchSeries)
	start = time.Now()
	require.NoError(b, w.x.Persist(ctx))
	b.Logf("persist %v", time.Since(start))
	w.now = w.now.Add(14 * time.Hour)
	start = time.Now()
	require.NoError(b, w.x.Maintain(ctx))
	b.Logf("compact %v, %d blocks", time.Since(start), len(w.x.store.Closed.Day(baseDay).Manifest.Load().Blocks))
	tiny := labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "tiny_metric_4711")
	uid := labels.MustNewMatcher(labels.MatchEqual, "uid", some)
	for _, l := range []struct {
		name string
		ms   []*labels.Matcher
	}{{"tiny-metric", []*labels.Matcher{tiny}}, {"unique-label-no-metric", []*labels.Matcher{uid}}} {
		for _, cold := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/cold=%v", l.name, cold), func(b *testing.B) {
				for b.Loop() {
					if cold {
						b.StopTimer()
						w.open(b)
						b.StartTimer()
					}
					n, err := selecting(l.ms...)(w.x, w.now.UnixMilli()-20*3600_000, w.now.UnixMilli())
					require.NoError(b, err)
					require.NotZero(b, n)
				}
			})
		}
	}
}
