package index

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
)

// reopenCold reopens the store and the index, so that only the cache of the file system is warm.
func (w *benchWorld) reopenCold(tb testing.TB) {
	require.NoError(tb, w.store.Close())
	w.openStore(tb)
}

// BenchmarkLookup measures look-ups among a million series: in the active index, and of closed days over one day and over 30,
// with the caches filled and empty. cpu-ms is the CPU time of the whole process, including garbage collection.
func BenchmarkLookup(b *testing.B) {
	active, closed := benchWorlds(b)
	lastDay := keyschema.HourStartMs((benchDay + 29) * 24)
	const dayMs = 24 * keyschema.HourMs
	for _, l := range benchLookups() {
		run := func(name string, w *benchWorld, from, to int64, cold bool) {
			b.Run(l.name+"/"+name, func(b *testing.B) {
				_, err := l.run(w.x, from, to)
				require.NoError(b, err)
				spent := time.Duration(0)
				for b.Loop() {
					if cold {
						b.StopTimer()
						w.reopenCold(b)
						b.StartTimer()
					}
					start := cpuTime(b)
					n, err := l.run(w.x, from, to)
					spent += cpuTime(b) - start
					require.NoError(b, err)
					require.NotZero(b, n)
				}
				b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N), "cpu-ms")
			})
		}
		at := active.now.UnixMilli()
		run("active", active, at-3600_000, at, false)
		for _, cold := range []bool{false, true} {
			state := map[bool]string{false: "warm", true: "cold"}[cold]
			run("1d-"+state, closed, lastDay, lastDay+dayMs-1, cold)
			// A window seldom begins and ends with a day.
			run("30d-"+state, closed, lastDay-29*dayMs+10*keyschema.HourMs, lastDay+20*keyschema.HourMs, cold)
		}
	}
}

type benchLookup struct {
	name string
	run  func(x *Index, from, to int64) (int, error)
}

func benchLookups() []benchLookup {
	m := labels.MustNewMatcher
	name := func(metric string) *labels.Matcher { return m(labels.MatchEqual, model.MetricNameLabel, metric) }
	instance := m(labels.MatchEqual, "instance", "host-04711.example.net:9100")
	some := m(labels.MatchRegexp, "instance", "host-.*11.example.net:9100")
	rack := m(labels.MatchEqual, "rack", "7")
	return []benchLookup{
		{"x10-eq", selecting(name("x10"), instance)},
		{"x10-regexp", selecting(name("x10"), some)},
		{"x100-regexp", selecting(name("x100"), some)},
		{"x100-rack", selecting(name("x100"), rack)},
		{"x100-all", selecting(name("x100"))},
		{"instance-no-metric", selecting(instance)},
		{"instance-of-job-no-metric", selecting(m(labels.MatchEqual, "job", "node"), instance)},
		{"values-instance", valuesOf("instance")},
		{"values-metric", valuesOf(model.MetricNameLabel)},
		{"values-job", valuesOf("job")},
		{"values-instance-of-x10", valuesOf("instance", name("x10"))},
		{"values-instance-of-rack", valuesOf("instance", name("x10"), rack)},
		{"names", func(x *Index, from, to int64) (int, error) {
			v, err := x.LabelNames(context.Background(), from, to, 0)
			return len(v), err
		}},
		{"whole-history-x10-eq", func(x *Index, _, _ int64) (int, error) { return selecting(name("x10"), instance)(x, 0, 1<<60) }},
		{"whole-history-values", func(x *Index, _, _ int64) (int, error) { return valuesOf("instance")(x, 0, 1<<60) }},
	}
}

func valuesOf(label string, ms ...*labels.Matcher) func(x *Index, from, to int64) (int, error) {
	return func(x *Index, from, to int64) (int, error) {
		v, err := x.LabelValues(context.Background(), label, from, to, 0, ms...)
		return len(v), err
	}
}

func selecting(ms ...*labels.Matcher) func(x *Index, from, to int64) (int, error) {
	return func(x *Index, from, to int64) (int, error) {
		s, err := x.Select(context.Background(), nil, from, to, ms...)
		return len(s), err
	}
}
