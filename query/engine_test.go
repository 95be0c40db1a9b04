package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	promengine "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"halite/query/budget"
	"halite/query/read"
	"halite/storage"
)

const load = `
load 1m
  m{i="1"} 0+1x60
  m{i="2"} 0+2x60
  gone 1 _x60
`

func newEngine(t *testing.T, q promstorage.SampleAndChunkQueryable, change func(*Options)) *Engine {
	t.Helper()
	opts := Options{Queryable: q}
	if change != nil {
		change(&opts)
	}
	e, err := New(opts)
	require.NoError(t, err)
	return e
}

func minute(n int64) int64 { return n * 60_000 }

func TestInstant(t *testing.T) {
	e := newEngine(t, promqltest.LoadedStorage(t, load), nil)
	res, err := e.Instant(t.Context(), InstantRequest{Query: `sum(m)`, TimeMs: minute(10)})
	require.NoError(t, err)
	require.Equal(t, promengine.Vector{{Metric: labels.EmptyLabels(), T: minute(10), F: 30}}, res.Value)
	require.Nil(t, res.Stats)
	require.Empty(t, res.Warnings)
	res.Close()
	res.Close()

	res, err = e.Instant(t.Context(), InstantRequest{Query: "1+1", TimeMs: 5})
	require.NoError(t, err)
	require.Equal(t, promengine.Scalar{T: 5, V: 2}, res.Value)

	res, err = e.Instant(t.Context(), InstantRequest{Query: `"text"`, TimeMs: 5})
	require.NoError(t, err)
	require.Equal(t, promengine.String{T: 5, V: "text"}, res.Value)

	res, err = e.Instant(t.Context(), InstantRequest{Query: `m[2m]`, TimeMs: minute(10)})
	require.NoError(t, err)
	require.Len(t, res.Value, 2)
	res.Close()
}

func TestParams(t *testing.T) {
	e := newEngine(t, promqltest.LoadedStorage(t, load), nil)
	for _, q := range []string{"m", "m[1m]"} {
		res, err := e.Instant(t.Context(), InstantRequest{Query: q, TimeMs: minute(10), Params: Params{Limit: 1}})
		require.NoError(t, err)
		require.Len(t, res.Value, 1)
		warnings, _ := res.Warnings.AsStrings(q, 0, 0)
		require.Equal(t, []string{"results truncated due to limit"}, warnings)
		res.Close()
	}
	res, err := e.Instant(t.Context(), InstantRequest{Query: "m", TimeMs: minute(10), Params: Params{Limit: 2}})
	require.NoError(t, err)
	require.Empty(t, res.Warnings)

	gone := func(lookback time.Duration) any {
		r := InstantRequest{Query: "gone", TimeMs: minute(6), Params: Params{Lookback: lookback}}
		res, err := e.Instant(t.Context(), r)
		require.NoError(t, err)
		return res.Value
	}
	require.Len(t, gone(0), 0, "five minutes by default")
	require.Len(t, gone(7*time.Minute), 1)

	r := RangeRequest{Query: "m", Start: time.Unix(0, 0), End: time.Unix(600, 0), Step: time.Minute}
	r.Params = Params{Stats: true, StatsPerStep: true}
	res, err = e.Range(t.Context(), r)
	require.NoError(t, err)
	require.Len(t, res.Value, 2)
	samples := res.Stats.Builtin().Samples
	require.Equal(t, int64(22), samples.SamplesRead)
	require.Len(t, samples.SamplesReadPerStep, 11)
	res.Close()
}

func requireType(t *testing.T, err error, want ErrorType) *Error {
	t.Helper()
	var typed *Error
	require.ErrorAs(t, err, &typed)
	require.Equal(t, want, typed.Type, err.Error())
	return typed
}

func TestBadInstantRequests(t *testing.T) {
	e := newEngine(t, promqltest.LoadedStorage(t, load), func(o *Options) { o.QueryBytesMax = 100 })
	for _, c := range []struct {
		r       InstantRequest
		param   string
		message string
	}{
		{InstantRequest{Query: "sum("}, "query", `invalid parameter "query": 1:5: parse error: unclosed left parenthesis`},
		{InstantRequest{Query: strings.Repeat("1+", 50) + "1"}, "query", "101 bytes, more than the limit of 100"},
		{InstantRequest{Query: "m", Params: Params{Timeout: -1}}, "timeout", "negative"},
		{InstantRequest{Query: "m", Params: Params{Lookback: -1}}, "lookback_delta", "negative"},
		{InstantRequest{Query: "m", Params: Params{Limit: -1}}, "limit", "non-negative"},
	} {
		_, err := e.Instant(t.Context(), c.r)
		require.Equal(t, c.param, requireType(t, err, ErrorBadData).Param)
		require.ErrorContains(t, err, c.message)
	}
	_, err := e.Instant(t.Context(), InstantRequest{Query: `m + on(x) m`, TimeMs: minute(3)})
	requireType(t, err, ErrorExecution)
}

func TestBadRanges(t *testing.T) {
	e := newEngine(t, promqltest.LoadedStorage(t, load), nil)
	run := func(query string, start, end int64, step time.Duration) error {
		_, err := e.Range(t.Context(), RangeRequest{
			Query: query, Start: time.Unix(start, 0), End: time.Unix(end, 0), Step: step,
		})
		return err
	}
	for _, c := range []struct {
		err     error
		param   string
		message string
	}{
		{run("m", 10, 9, time.Second), "end", "end timestamp must not be before start time"},
		{run("m", 0, 9, 0), "step", "zero or negative query resolution step widths are not accepted"},
		{run("m", 0, 9, -time.Second), "step", "zero or negative"},
		{run("m", 0, 9, time.Microsecond), "step", "at least one millisecond"},
		{run("m[5m]", 0, 9, time.Second), "query", "must be Scalar or instant Vector"},
		{run("m", 0, 11_001, time.Second), "", "exceeded maximum resolution of 11,000 points per timeseries. " +
			"Try decreasing the query resolution (?step=2)"},
		{run("m", 0, 30*86_400, time.Second), "", "(?step=236)"},
	} {
		require.Equal(t, c.param, requireType(t, c.err, ErrorBadData).Param)
		require.ErrorContains(t, c.err, c.message)
	}
	require.NoError(t, run("m", 0, 11_000, time.Second))
	require.NoError(t, run("m", 0, 30*86_400, 236*time.Second), "the suggested step is accepted")
}

func TestStepFor(t *testing.T) {
	for _, points := range []int{1, 7, 11_000} {
		for _, span := range []time.Duration{time.Hour, 24*time.Hour + 1, 365 * 24 * time.Hour} {
			s := time.Duration(stepFor(span, points)) * time.Second
			require.LessOrEqual(t, int(span/s), points)
			if s > time.Second {
				require.Greater(t, int(span/(s-time.Second)), points)
			}
		}
	}
	require.Equal(t, "1,234,567", grouped(1_234_567))
	require.Equal(t, "12", grouped(12))
}

// gateway is a Queryable whose selectors fail, or wait until the test releases them or the query is cancelled.
type gateway struct {
	promstorage.SampleAndChunkQueryable
	entered chan struct{}
	open    chan struct{}
	err     error
}

func (g *gateway) Querier(int64, int64) (promstorage.Querier, error) {
	return &promstorage.MockQuerier{SelectMockFunction: func(
		bool, *promstorage.SelectHints, ...*labels.Matcher,
	) promstorage.SeriesSet {
		return promstorage.ErrSeriesSet(g.err)
	}}, nil
}

type waitingQuerier struct {
	promstorage.Querier
	g *gateway
}

func (w waitingQuerier) Select(
	ctx context.Context, _ bool, _ *promstorage.SelectHints, _ ...*labels.Matcher,
) promstorage.SeriesSet {
	w.g.entered <- struct{}{}
	select {
	case <-ctx.Done():
		return promstorage.ErrSeriesSet(ctx.Err())
	case <-w.g.open:
		return promstorage.EmptySeriesSet()
	}
}

type waiting struct{ *gateway }

func (w waiting) Querier(mint, maxt int64) (promstorage.Querier, error) {
	q, _ := w.gateway.Querier(mint, maxt)
	return waitingQuerier{q, w.gateway}, nil
}

func newWaiting() waiting {
	return waiting{&gateway{entered: make(chan struct{}, 100), open: make(chan struct{})}}
}

func TestStorageErrorsHaveTheirTypes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want ErrorType
	}{
		{&read.StorageError{Op: "read", Err: errors.New("disk on fire")}, ErrorInternal},
		{&read.StorageError{Op: "read", Err: fmt.Errorf("quota: %w", storage.ErrUnavailable)}, ErrorUnavailable},
		{&budget.LimitError{Resource: budget.Bytes, Max: 3}, ErrorExecution},
		{&budget.LimitError{Resource: budget.PoolBytes, Max: 3}, ErrorUnavailable},
		{context.DeadlineExceeded, ErrorTimeout},
		{context.Canceled, ErrorCanceled},
	} {
		e := newEngine(t, &gateway{err: c.err}, nil)
		_, err := e.Instant(t.Context(), InstantRequest{Query: "m"})
		requireType(t, err, c.want)
		require.ErrorIs(t, err, c.err)
	}
}

func TestTimeoutAndDisconnect(t *testing.T) {
	w := newWaiting()
	e := newEngine(t, w, nil)
	_, err := e.Instant(t.Context(), InstantRequest{Query: "m", Params: Params{Timeout: time.Millisecond}})
	requireType(t, err, ErrorTimeout)

	e = newEngine(t, newWaiting(), func(o *Options) { o.Timeout = time.Millisecond })
	_, err = e.Instant(t.Context(), InstantRequest{Query: "m", Params: Params{Timeout: time.Hour}})
	requireType(t, err, ErrorTimeout)

	w = newWaiting()
	e = newEngine(t, w, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-w.entered
		cancel()
	}()
	_, err = e.Instant(ctx, InstantRequest{Query: "m"})
	requireType(t, err, ErrorCanceled)
}

func TestQueueAndCancel(t *testing.T) {
	w := newWaiting()
	reg := prometheus.NewRegistry()
	e := newEngine(t, w, func(o *Options) {
		o.ConcurrencyMax, o.QueueWait, o.Registerer = 1, time.Millisecond, reg
	})
	done := make(chan error)
	go func() {
		_, err := e.Instant(context.Background(), InstantRequest{Query: "first"})
		done <- err
	}()
	<-w.entered
	_, err := e.Instant(t.Context(), InstantRequest{Query: "second"})
	requireType(t, err, ErrorUnavailable)
	require.ErrorIs(t, err, ErrBusy)

	active := e.Active()
	require.Len(t, active, 1)
	require.Equal(t, "first", active[0].Query)
	require.Equal(t, "instant", active[0].Kind)
	require.False(t, e.Cancel(active[0].ID+100))
	require.True(t, e.Cancel(active[0].ID))
	err = <-done
	requireType(t, err, ErrorCanceled)
	require.ErrorIs(t, err, ErrCancelled)
	require.Empty(t, e.Active())

	close(w.open)
	_, err = e.Instant(t.Context(), InstantRequest{Query: "third"})
	require.NoError(t, err, "the place was given back")

	values := gather(t, reg)
	require.Equal(t, 1.0, values["tsdb_query_errors_total unavailable"])
	require.Equal(t, 1.0, values["tsdb_query_errors_total canceled"])
	require.Equal(t, 0.0, values["tsdb_query_errors_total internal"])
	require.Equal(t, 3.0, values["tsdb_query_duration_seconds instant"])
	require.Equal(t, 0.0, values["tsdb_query_active "])
	require.Equal(t, 0.0, values["tsdb_query_queued "])
}

// gather maps "name labelvalue" to the value, or to the count of a histogram.
func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			label := ""
			if len(m.Label) > 0 {
				label = m.Label[0].GetValue()
			}
			v := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			out[f.GetName()+" "+label] = v
		}
	}
	return out
}

func TestWaitersComeInWhenAPlaceIsFree(t *testing.T) {
	w := newWaiting()
	e := newEngine(t, w, func(o *Options) { o.ConcurrencyMax = 2 })
	done := make(chan error)
	for range 6 {
		go func() {
			_, err := e.Instant(context.Background(), InstantRequest{Query: "m"})
			done <- err
		}()
	}
	<-w.entered
	<-w.entered
	require.Eventually(t, func() bool { return len(e.Active()) == 6 }, time.Minute, time.Millisecond)
	select {
	case <-w.entered:
		t.Fatal("three queries run at once")
	default:
	}
	close(w.open)
	for range 6 {
		require.NoError(t, <-done)
	}
}

func TestFormatAndParse(t *testing.T) {
	e := newEngine(t, newWaiting(), nil)
	text, err := e.Format("sum(rate(m[5m]))by(x)")
	require.NoError(t, err)
	require.Equal(t, "sum by (x) (rate(m[5m]))", text)
	_, err = e.Format("sum(")
	requireType(t, err, ErrorBadData)
	_, err = e.Format(strings.Repeat("(", 300) + "m" + strings.Repeat(")", 300))
	require.NoError(t, err)
	_, err = e.Format(strings.Repeat("(", 301) + "m" + strings.Repeat(")", 301))
	requireType(t, err, ErrorBadData)
	require.ErrorContains(t, err, "301 levels deep, more than the limit of 300 (query.max-format-depth)")

	matchers, err := e.ParseSelector(`{__name__="m",x!~"a.*"}`)
	require.NoError(t, err)
	require.Len(t, matchers, 2)
	_, err = e.ParseSelector("m[5m]")
	requireType(t, err, ErrorBadData)
	_, err = e.ParseSelector(strings.Repeat("a", 20_000))
	requireType(t, err, ErrorBadData)

	_, err = e.Parse("limitk(1, m)")
	requireType(t, err, ErrorBadData)
	experimental := newEngine(t, newWaiting(), func(o *Options) { o.Experimental = true })
	_, err = experimental.Parse("limitk(1, m)")
	require.NoError(t, err)
	_, err = e.Parse(`{"ünïcode.name"}`)
	require.NoError(t, err)
	_, err = e.Parse("m offset -5m + m @ 10 + avg_over_time(m[1h:])")
	require.NoError(t, err)
}

func TestSubqueryStepAndNaN(t *testing.T) {
	e := newEngine(t, promqltest.LoadedStorage(t, load), nil)
	res, err := e.Instant(t.Context(), InstantRequest{Query: `count_over_time(m{i="1"}[10m:])`, TimeMs: minute(20)})
	require.NoError(t, err)
	require.Equal(t, 10.0, res.Value.(promengine.Vector)[0].F)
	e.SetSubqueryStep(30 * time.Second)
	for _, columnar := range []Switch{On, Off} {
		res, err = e.Instant(t.Context(), InstantRequest{
			Query: `count_over_time(m{i="1"}[10m:])`, TimeMs: minute(20), Params: Params{Columnar: columnar},
		})
		require.NoError(t, err)
		require.Equal(t, 20.0, res.Value.(promengine.Vector)[0].F)
	}
	res, err = e.Instant(t.Context(), InstantRequest{Query: `0/0`})
	require.NoError(t, err)
	require.True(t, math.IsNaN(res.Value.(promengine.Scalar).V))
}

func TestOptionsValidate(t *testing.T) {
	_, err := New(Options{Timeout: -1, Lookback: time.Microsecond, ConcurrencyMax: -2})
	for _, want := range []string{"Queryable", "Timeout", "Lookback", "ConcurrencyMax"} {
		require.ErrorContains(t, err, want)
	}
	reg := prometheus.NewRegistry()
	newEngine(t, newWaiting(), func(o *Options) { o.Registerer = reg })
	_, err = New(Options{Queryable: newWaiting(), Registerer: reg})
	require.ErrorContains(t, err, "register")
}
