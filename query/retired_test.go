package query_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	promengine "github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
	"halite/rollup"
)

// Retention of the stack below.
const (
	retiredDays = 150
	retiredRaw  = 20 * dayMs
)

// retiredStack has samples of 150 days. Retention keeps samples for 20 days, hourly states for 70 days, and daily states
// forever.
type retiredStack struct {
	*stack
	now    int64
	series map[string]*retiredSeries
}

type retiredSeries struct {
	tsMs   []int64
	values []float64
}

func newRetiredStack(t *testing.T) *retiredStack {
	rng := rand.New(rand.NewPCG(5, 5))
	clock := new(atomic.Int64)
	clock.Store(tieredFrom)
	r := &retiredStack{series: map[string]*retiredSeries{}}
	r.stack = openStackWith(t, vfs.NewMem(), stackOptions{
		tiers: true, clock: clock, raw: 20 * 24 * time.Hour, hours: 70 * 24 * time.Hour,
	})
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	for day := range int64(retiredDays) {
		var samples []ingest.Sample
		for i := range 3 {
			if i == 2 && day >= 50 {
				continue // this series ends
			}
			name := fmt.Sprint(i)
			if r.series[name] == nil {
				r.series[name] = &retiredSeries{}
			}
			s := r.series[name]
			for ts := tieredFrom + day*dayMs + int64(i+1)*1000; ts < tieredFrom+(day+1)*dayMs; ts += 600_000 {
				v := math.Round(rng.NormFloat64()*100) / 10
				samples = append(samples, ingest.Sample{
					Labels: labels.FromStrings("__name__", "old", "i", name), TsMs: ts, Value: v,
				})
				s.tsMs, s.values = append(s.tsMs, ts), append(s.values, v)
			}
		}
		clock.Store(tieredFrom + (day+1)*dayMs + hourMs)
		r.write(samples)
		r.flush()
		r.rollUp()
		if day%10 == 9 {
			require.NoError(t, r.store.Sync(context.Background()))
		}
	}
	r.now = clock.Load()
	return r
}

// eval returns the result over all samples of a series, retired or not.
func (s *retiredSeries) eval(fn rollup.Func, startMs, endMs int64) (float64, bool) {
	var st rollup.State
	for i, ts := range s.tsMs {
		if ts > startMs && ts <= endMs {
			st.Add(ts, s.values[i])
		}
	}
	v, has, _ := fn.Eval(&st, startMs, endMs)
	return v, has
}

// TestRetiredSamplesAreAnsweredFromStates: windows of whole hours are exact, and so are older windows of whole days. The
// result has a warning that it comes from states.
func TestRetiredSamplesAreAnsweredFromStates(t *testing.T) {
	if testing.Short() {
		t.Skip("single-threaded: the run without -short covers it")
	}
	r := newRetiredStack(t)
	e := newQueryEngine(t, r.source, query.On)
	retired := time.UnixMilli(r.now - retiredRaw).UTC().Format(time.RFC3339)
	for _, c := range []struct {
		from, to, length int64 // days before now
		unit             int64
		warning          string
	}{
		{15, 2, 7 * hourMs, hourMs, ""},
		{15, 2, 25 * 60_000, hourMs, ""},
		{60, 30, 7 * hourMs, hourMs, "hourly"},
		{60, 30, 2 * hourMs, hourMs, "hourly"},
		{60, 2, 6 * dayMs, dayMs, "hourly"},
		{140, 2, 9 * dayMs, dayMs, "daily"},
	} {
		for name := range tieredFunctions {
			fn, ok := rollup.ParseFunc(name)
			if !ok {
				continue
			}
			start, end := r.now-c.from*dayMs, r.now-c.to*dayMs
			start -= start % c.unit
			step := 3 * c.unit
			text := fmt.Sprintf("%s(old[%dms])", name, c.length)
			res, err := runQuery(e, text, start, end, time.Duration(step)*time.Millisecond, query.Params{})
			require.NoError(t, err)
			warnings, _ := res.Warnings.AsStrings(text, 0, 0)
			if c.warning == "" {
				require.Empty(t, warnings, text)
			} else {
				require.Equal(t, []string{
					"answered from " + c.warning + " states: raw samples before " + retired + " are retired",
				}, warnings, text)
			}
			r.compare(t, text, fn, res.Value.(promengine.Matrix), start, end, step, c.length)
			res.Close()
		}
	}
}

func (r *retiredStack) compare(
	t *testing.T, text string, fn rollup.Func, m promengine.Matrix, start, end, step, length int64,
) {
	t.Helper()
	got := map[string]map[int64]float64{}
	for _, s := range m {
		points := map[int64]float64{}
		for _, p := range s.Floats {
			points[p.T] = p.F
		}
		got[s.Metric.Get("i")] = points
	}
	values := 0
	for name, s := range r.series {
		for at := start; at <= end; at += step {
			want, has := s.eval(fn, at-length, at)
			v, found := got[name][at]
			require.Equal(t, has, found, "%s of %s at %d", text, name, at)
			require.True(t, !has || near(want, v) || math.Abs(want-v) < 1e-9, "%s of %s at %d: %v, want %v", text, name, at, v, want)
			if has {
				values++
			}
		}
	}
	require.Greater(t, values, 5, text)
}

// TestRetiredSamplesAreGone: hours without states are empty. A window that contains the end of an hour contains the hour.
func TestRetiredSamplesAreGone(t *testing.T) {
	if testing.Short() {
		t.Skip("single-threaded: the run without -short covers it")
	}
	r := newRetiredStack(t)
	e := newQueryEngine(t, r.source, query.On)
	at := r.now - 40*dayMs
	at -= at % hourMs
	value := func(text string, at int64) string {
		res, err := runQuery(e, text, at, at, time.Second, query.Params{})
		require.NoError(t, err)
		defer res.Close()
		return res.Value.String()
	}
	require.Empty(t, value("old", at))
	require.Empty(t, value("quantile_over_time(0.5, old[1d])", at))
	require.NotEmpty(t, value("old", r.now-10*dayMs+60_000))
	require.Contains(t, value(`count_over_time(old{i="0"}[2h30m])`, at+10*60_000), "=>\n18 @", "three hours end in the window")
	require.Contains(t, value(`count_over_time(old{i="0"}[30m])`, at), "=>\n6 @")
	require.Empty(t, value(`count_over_time(old{i="0"}[30m])`, at+40*60_000))
	// A series that ended long ago is found until its states expire.
	at = tieredFrom + 52*dayMs
	require.Contains(t, value(`sum(count_over_time(old{i="2"}[10d]))`, at-at%dayMs), fmt.Sprint(8*144))
}
