package query_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
)

// fillHosts writes counters of hosts at 60 s, with eight modes each. Every host restarts once in two days.
func (s *stack) fillHosts(hosts int, fromMs, toMs int64) {
	for h := range hosts {
		var request []ingest.Sample
		for mode := range 8 {
			ls := labels.FromStrings("__name__", "cpu_total", "instance", fmt.Sprintf("host-%03d", h), "mode", fmt.Sprint(mode))
			v := 0.0
			for ts := fromMs; ts < toMs; ts += 60_000 {
				if minute := ts / 60_000; (minute+int64(h)*977)%2880 == 0 {
					v = 0
				}
				v += float64((ts/60_000*int64(mode+3))%7) / 4
				request = append(request, ingest.Sample{Labels: ls, TsMs: ts, Value: v})
			}
		}
		s.write(request)
	}
	s.flush()
}

// BenchmarkKeptDays queries a week of 192 series at a step of an hour. The row cache has all rows.
func BenchmarkKeptDays(b *testing.B) {
	const days = 8
	s := newStack(b)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	s.fillHosts(24, spanFrom, spanFrom+days*dayMs)
	e, err := newEngine(query.Options{Queryable: s.withRowCache(0)})
	require.NoError(b, err)
	to := spanFrom + days*dayMs - 5*hourMs
	for _, text := range []string{
		"sum by (mode) (rate(cpu_total[1h]))",
		"sum by (mode) (avg_over_time(cpu_total[1h]))",
		"sum by (mode) (max_over_time(cpu_total[6h]))",
		"sum by (mode) (quantile_over_time(0.9, cpu_total[6h]))",
		"sum by (mode) (rate(cpu_total[12h]))",
		"sum by (mode) (cpu_total)",
	} {
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				scan(b, e, text, to-7*dayMs, to, time.Hour)
			}
		})
	}
}
