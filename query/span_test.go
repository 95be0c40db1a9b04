package query_test

import (
	"fmt"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
	"halite/query/read"
)

// spanFrom is the start of an hour and of a day.
const spanFrom = int64(18_000) * dayMs

// fillSpan writes series of the metric c_total from fromMs to before toMs, with flushes.
func (s *stack) fillSpan(series int, fromMs, toMs, intervalMs int64) {
	const requestSamples = 50_000
	var request []ingest.Sample
	names := make([]labels.Labels, series)
	for i := range names {
		names[i] = labels.FromStrings("__name__", "c_total", "i", fmt.Sprintf("%06d", i), "job", fmt.Sprint(i%4))
	}
	for ts := fromMs; ts < toMs; ts += intervalMs {
		for i, ls := range names {
			request = append(request, ingest.Sample{Labels: ls, TsMs: ts, Value: float64((ts-fromMs)/1000*int64(1+i%3) + int64(i))})
			if len(request) == requestSamples {
				s.write(request)
				request = request[:0]
				s.flush()
			}
		}
	}
	s.write(request)
	s.flush()
}

// scan queries a span that ends at toMs, and returns the figures of the reads.
func scan(tb testing.TB, e *query.Engine, text string, fromMs, toMs int64, step time.Duration) read.Figures {
	res, err := runQuery(e, text, fromMs, toMs, step, query.Params{Explain: true})
	require.NoError(tb, err)
	defer res.Close()
	require.NotEmpty(tb, res.Value.(interface{ String() string }).String())
	require.Equal(tb, parser.ValueTypeMatrix, res.Value.Type())
	require.NotEqual(tb, "engine", res.Explain.Operators[0])
	return res.Explain.Reading
}

// TestLongScansAreFlat: a query holds only a few days of a series in memory, however long the series is. Only the results
// grow.
func TestLongScansAreFlat(t *testing.T) {
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	const days = 320
	s.fillSpan(1, spanFrom, spanFrom+days*dayMs, 240_000)
	e := newQueryEngine(t, s.source, query.On)
	to := spanFrom + days*dayMs - 1
	for text, step := range map[string]time.Duration{
		"avg_over_time(c_total[1d])": 24 * time.Hour, "sum by (job) (max_over_time(c_total[3d]))": 24 * time.Hour,
		"rate(c_total[90m])": time.Hour, "c_total": time.Hour, "quantile_over_time(0.5, c_total[2h])": 2 * time.Hour,
	} {
		peak := func(days int64) int64 {
			read := scan(t, e, text, to-days*dayMs, to, step)
			require.Greater(t, read.BytesPeak, int64(200_000), text)
			// Minus the values of a series, of its group, and the points of the result.
			return read.BytesPeak - days*dayMs/step.Milliseconds()*(8+16+16)
		}
		require.LessOrEqual(t, peak(310), peak(80)+peak(80)/20, text)
	}
}

// TestRowsReadByTheDay: at a step of a day, a window of minutes needs one row of each series and day. A window that ends on
// the hour needs two rows, because a sample at its end belongs to the next hour.
func TestRowsReadByTheDay(t *testing.T) {
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	const days, series = 60, 6
	s.fillSpan(series, spanFrom, spanFrom+days*dayMs, 120_000)
	for offset, rows := range map[int64]int64{1_800_000: 1, 0: 2} {
		read := scan(t, newQueryEngine(t, s.source, query.On),
			"rate(c_total[5m])", spanFrom+dayMs/2+offset, spanFrom+days*dayMs-1, 24*time.Hour)
		require.LessOrEqual(t, read.Rows, series*(days*rows+2))
		require.GreaterOrEqual(t, read.RowsUsed, series*(days-1)*rows)
		require.LessOrEqual(t, read.Rows*10, read.RowsUsed*11)
	}
}

// TestRowsReadOfTheLastHour: the query reads no rows before the window.
func TestRowsReadOfTheLastHour(t *testing.T) {
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	const days, series = 30, 150
	to := spanFrom + days*dayMs
	s.fillSpan(series, spanFrom, to-3*hourMs, 6*hourMs)
	s.fillSpan(series, to-3*hourMs, to, 60_000)
	e := newQueryEngine(t, s.source, query.On)
	for _, text := range []string{"sum(c_total)", "sum by (job) (rate(c_total[30m]))"} {
		read := scan(t, e, text, to-hourMs, to, time.Minute)
		require.Equal(t, int64(series), read.Series)
		require.LessOrEqual(t, read.Rows*10, read.RowsUsed*11, text)
		require.LessOrEqual(t, read.Rows, int64(2*series), text)
	}
}

// BenchmarkYearOfOneSeries scans a year of one series. heap-B is the largest growth of the heap.
func BenchmarkYearOfOneSeries(b *testing.B) {
	const days = 365
	for _, interval := range []int64{60_000, 15_000} {
		s := newStack(b)
		s.fillSpan(1, spanFrom, spanFrom+days*dayMs, interval)
		e := benchEngine(b, s)
		to := spanFrom + days*dayMs - 1
		for _, days := range []int64{30, 91, 364} {
			b.Run(fmt.Sprintf("%ds/%dd", interval/1000, days), func(b *testing.B) {
				b.ReportAllocs()
				var read read.Figures
				grown := heapGrowth(func() {
					for b.Loop() {
						read = scan(b, e, "avg_over_time(c_total[1d])", to-days*dayMs, to, 24*time.Hour)
					}
				})
				b.ReportMetric(float64(read.BytesPeak), "budget-B")
				b.ReportMetric(float64(grown), "heap-B")
				b.ReportMetric(float64(read.Samples), "samples")
			})
		}
		require.NoError(b, s.Close())
	}
}

func benchEngine(b *testing.B, s *stack) *query.Engine {
	e, err := newEngine(query.Options{Queryable: s.source})
	require.NoError(b, err)
	return e
}

// heapGrowth returns the largest growth of the heap during f, including garbage.
func heapGrowth(f func()) int64 {
	sample := func() int64 {
		m := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(m)
		return int64(m[0].Value.Uint64())
	}
	before := sample()
	var most atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			most.Store(max(most.Load(), sample()))
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	return max(0, most.Load()-before)
}

// BenchmarkRowsRead runs queries that need a small part of the stored rows. rows/series and read/used show the
// overhead.
func BenchmarkRowsRead(b *testing.B) {
	for _, c := range []struct {
		name, text        string
		series            int
		days              int64
		interval, recent  int64 // if recent is set, the last hours have a sample each minute
		span, step        time.Duration
		seriesRowsAllowed float64
	}{
		{"year by the day", "rate(c_total[5m])", 100, 365, 60_000, 0, 364 * 24 * time.Hour, 24 * time.Hour, 368},
		{"last hour", "sum by (job) (rate(c_total[5m]))", 100_000, 30, 6 * hourMs, 2, time.Hour, time.Minute, 2},
	} {
		s := newStack(b)
		to := spanFrom + c.days*dayMs
		s.fillSpan(c.series, spanFrom, to-c.recent*hourMs, c.interval)
		if c.recent > 0 {
			s.fillSpan(c.series, to-c.recent*hourMs, to, 60_000)
		}
		e := benchEngine(b, s)
		b.Run(c.name, func(b *testing.B) {
			var read read.Figures
			for b.Loop() {
				read = scan(b, e, c.text, to-1-c.span.Milliseconds(), to-1, c.step)
			}
			perSeries, perUsed := float64(read.Rows)/float64(c.series), float64(read.Rows)/float64(read.RowsUsed)
			b.ReportMetric(perSeries, "rows/series")
			b.ReportMetric(perUsed, "read/used")
			require.LessOrEqual(b, perSeries, c.seriesRowsAllowed)
			require.LessOrEqual(b, perUsed, 1.1)
		})
		require.NoError(b, s.Close())
	}
}

// TestJoinsReadOnlyWhatCanMatch: a join omits series of the right operand that match no series of the left one, unless they
// may cause an error.
func TestJoinsReadOnlyWhatCanMatch(t *testing.T) {
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	const series = 40
	s.fillSpan(series, spanFrom, spanFrom+2*hourMs, 60_000)
	e := newQueryEngine(t, s.source, query.On)
	from, to := spanFrom+hourMs, spanFrom+2*hourMs-1
	for text, rows := range map[string]int64{
		`c_total{i=~"00000[12]"} / on (i) c_total`:   2*2 + 2*2,
		`c_total{i=~"00000[12]"} and on (i) c_total`: 2*2 + 2*2,
		`c_total{i="none"} or c_total`:               2 * series,
	} {
		read := scan(t, e, text, from, to, time.Minute)
		require.Equal(t, rows, read.Rows, text)
		want, err := runQuery(e, text, from, to, time.Minute, query.Params{Columnar: query.Off, Explain: true})
		require.NoError(t, err)
		got, err := runQuery(e, text, from, to, time.Minute, query.Params{Explain: true})
		require.NoError(t, err)
		require.NoError(t, difference(responseOf(text, want, nil), responseOf(text, got, nil)))
	}
	// Two series of a job are an error even without a match.
	text := `c_total{i="000001"} / on (job) c_total{i!~"0000(05|09|13|17|21|25|29|33|37)"}`
	_, err := runQuery(e, text, from, to, time.Minute, query.Params{})
	require.ErrorContains(t, err, "duplicate series")
}
