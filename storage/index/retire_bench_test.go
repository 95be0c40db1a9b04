package index

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/storage/index/memory"
)

// BenchmarkRetire retires half of a million series of one metric and frees their memory. It reports the longest time of a
// concurrent Add.
func BenchmarkRetire(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		w := newBenchWorld(b)
		builder := labels.NewScratchBuilder(4)
		set := func(i int) labels.Labels {
			builder.Reset()
			builder.Add(model.MetricNameLabel, "pods")
			builder.Add("instance", fmt.Sprintf("host-%05d.example.net:9100", i%10_000))
			builder.Add("rack", fmt.Sprint(i%100))
			builder.Add("uid", fmt.Sprintf("%032d", i))
			return builder.Labels()
		}
		for i := range benchSeries {
			_, _, err := w.x.Add(set(i))
			require.NoError(b, err)
		}
		some := set(1)
		stop, longest := make(chan struct{}), make(chan time.Duration)
		go func() {
			most := time.Duration(0)
			for {
				select {
				case <-stop:
					longest <- most
					return
				default:
				}
				start := time.Now()
				_, _, _ = w.x.Add(some)
				most = max(most, time.Since(start))
				time.Sleep(50 * time.Microsecond)
			}
		}()
		b.StartTimer()
		start := time.Now()
		idle := w.x.Idle(1 << 40)
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "idle-ms")
		start = time.Now()
		gone := w.x.Retire(idle, 1<<40, func(ref memory.Ref) bool { return ref%2 == 0 })
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "retire-ms")
		require.Len(b, gone, benchSeries/2)
		start = time.Now()
		w.x.maint.Lock()
		w.x.active.FreeRetired()
		w.x.maint.Unlock()
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "compact-ms")
		b.StopTimer()
		close(stop)
		b.ReportMetric(float64((<-longest).Microseconds())/1000, "longest-add-ms")
		require.NoError(b, w.store.Close())
		b.StartTimer()
	}
}
