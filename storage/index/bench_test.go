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
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/pebble"
)

// The benchmarks' world: 10,000 hosts with 100 series of 11 labels each. Metric x100 has ten series a host, x10 and 89
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
	b.Add(metricName, metric)
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
			w.x.Touch(ref, hour)
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

// benchWorlds are made once for all benchmarks: one with the day active, one with 30 closed days and nothing active.
func benchWorlds(b *testing.B) (active, closed *benchWorld) {
	benchOnce.Do(func() {
		benchActive = newBenchWorld(b)
		benchActive.fill(b)
		benchClosed = newBenchWorld(b)
		for day := range 30 {
			benchClosed.now = time.UnixMilli(keyschema.HourStartMs((baseDay+int64(day))*24 + 12))
			benchClosed.fill(b)
			benchClosed.now = benchClosed.now.Add(14 * time.Hour)
			require.NoError(b, benchClosed.x.Maintain(context.Background()))
		}
		benchClosed.now = benchClosed.now.Add(48 * time.Hour)
		require.NotEmpty(b, benchClosed.x.Retire(keyschema.HourOf(benchClosed.now.UnixMilli()), nil))
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
			w.x.Touch(ref, hour)
		}
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/benchSeries, "B/series")
		b.ReportMetric(float64(w.x.sizeBytes())/benchSeries, "own-B/series")
		b.StartTimer()
		start := time.Now()
		require.NoError(b, w.x.Persist(context.Background()))
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/benchSeries, "persist-ns/series")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchSeries, "ns/series")
}

func BenchmarkTouch(b *testing.B) {
	w, _ := benchWorlds(b)
	hour := keyschema.HourOf(w.now.UnixMilli())
	b.Run("new-hour", func(b *testing.B) {
		ref := Ref(0)
		for b.Loop() {
			ref++
			if ref > benchSeries {
				ref = 1
				hour++
			}
			w.x.Touch(ref, hour)
		}
	})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			w.x.Touch(77, hour)
		}
	})
	b.Run("persist-hour", func(b *testing.B) { // a steady million touched in one more hour
		for b.Loop() {
			b.StopTimer()
			hour++
			for ref := Ref(1); ref <= benchSeries; ref++ {
				w.x.Touch(ref, hour)
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

func BenchmarkFold(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		w := newBenchWorld(b)
		w.fill(b)
		w.now = w.now.Add(14 * time.Hour)
		b.StartTimer()
		require.NoError(b, w.x.Maintain(context.Background()))
		b.StopTimer()
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
		ref, _, err := w.x.Add(labels.FromStrings(metricName, "pods", "ns", fmt.Sprint(i%50), "uid", some))
		require.NoError(b, err)
		w.x.Touch(ref, hour)
		tiny := fmt.Sprint("tiny_metric_", i/10)
		ref, _, err = w.x.Add(labels.FromStrings(metricName, tiny, "job", "x", "i", fmt.Sprint(i%10)))
		require.NoError(b, err)
		w.x.Touch(ref, hour)
	}
	b.Logf("add %v, %d B a series", time.Since(start), w.x.sizeBytes()/benchSeries)
	start = time.Now()
	require.NoError(b, w.x.Persist(ctx))
	b.Logf("persist %v", time.Since(start))
	w.now = w.now.Add(14 * time.Hour)
	start = time.Now()
	require.NoError(b, w.x.Maintain(ctx))
	b.Logf("fold %v, %d blocks", time.Since(start), len(w.x.closed.get(baseDay).root.Load().blocks))
	tiny := labels.MustNewMatcher(labels.MatchEqual, metricName, "tiny_metric_4711")
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

func BenchmarkLookups(b *testing.B) {
	active, closed := benchWorlds(b)
	m := labels.MustNewMatcher
	name := func(metric string) *labels.Matcher { return m(labels.MatchEqual, metricName, metric) }
	instance := m(labels.MatchEqual, "instance", "host-04711.example.net:9100")
	lookups := []struct {
		name string
		run  func(x *Index, from, to int64) (int, error)
	}{
		{"x10-eq", selecting(name("x10"), instance)},
		{"x10-regexp", selecting(name("x10"), m(labels.MatchRegexp, "instance", "host-.*11.example.net:9100"))},
		{"x100-regexp", selecting(name("x100"), m(labels.MatchRegexp, "instance", "host-.*11.example.net:9100"))},
		{"x100-rack", selecting(name("x100"), m(labels.MatchEqual, "rack", "7"))},
		{"x100-all", selecting(name("x100"))},
		{"instance-no-metric", selecting(instance)},
		{"values-instance", func(x *Index, from, to int64) (int, error) {
			v, err := x.LabelValues(context.Background(), "instance", from, to, 0)
			return len(v), err
		}},
		{"values-instance-of-rack", func(x *Index, from, to int64) (int, error) {
			rack := m(labels.MatchEqual, "rack", "7")
			v, err := x.LabelValues(context.Background(), "instance", from, to, 0, name("x10"), rack)
			return len(v), err
		}},
		{"names", func(x *Index, from, to int64) (int, error) {
			v, err := x.LabelNames(context.Background(), from, to, 0)
			return len(v), err
		}},
	}
	lastDay := keyschema.HourStartMs((baseDay + 29) * 24)
	for _, l := range lookups {
		run := func(name string, w *benchWorld, from, to int64, cold bool) {
			b.Run(l.name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					if cold {
						b.StopTimer()
						w.open(b)
						b.StartTimer()
					}
					n, err := l.run(w.x, from, to)
					require.NoError(b, err)
					require.NotZero(b, n)
				}
			})
		}
		at := active.now.UnixMilli()
		run("active", active, at-3600_000, at, false)
		run("day-warm", closed, lastDay, lastDay+24*3600_000-1, false)
		run("day-cold", closed, lastDay, lastDay+24*3600_000-1, true)
		run("30d-warm", closed, lastDay-29*24*3600_000, lastDay+24*3600_000-1, false)
		run("30d-cold", closed, lastDay-29*24*3600_000, lastDay+24*3600_000-1, true)
	}
}

func selecting(ms ...*labels.Matcher) func(x *Index, from, to int64) (int, error) {
	return func(x *Index, from, to int64) (int, error) {
		s, err := x.Select(context.Background(), from, to, ms...)
		return len(s), err
	}
}
