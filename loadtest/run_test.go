package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/loadtest/client"
	"halite/loadtest/fleet"
	"halite/loadtest/load"
	"halite/loadtest/probe"
	"halite/loadtest/report"
)

func timeOf(ms int64) time.Time { return time.UnixMilli(1_763_683_200_000 + ms) }

// small is a load of a few thousand samples with every kind of disorder, over a past range.
func small() Options {
	return Options{
		Load: load.Options{
			Fleet: fleet.Options{Hosts: 3, HotSeries: 120, ChurnPercent: 50, ChurnSteps: 4}, From: timeOf(0), To: timeOf(150_000),
			Senders: 3, RequestSamples: 150, LatePercent: 10, RewrittenPercent: 10, OutOfOrderPercent: 10, LateBy: 30 * time.Second,
			Shuffle: true,
		},
		FreshnessEvery: 5 * time.Millisecond,
	}
}

func runSmall(t *testing.T, s *fakeServer, o Options) *report.Report {
	t.Helper()
	r, err := Run(t.Context(), t.Context(), s.target(), o)
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	_, err = json.Marshal(r)
	require.NoError(t, err)
	return r
}

func TestRunAgainstGoodServer(t *testing.T) {
	for _, remoteRead := range []bool{true, false} {
		s := newFakeServer(t)
		s.remoteRead, s.busyReads = remoteRead, 2
		r := runSmall(t, s, small())
		require.False(t, r.Failed(), "%+v", r.Verification)
		require.Equal(t, map[bool]string{true: "remote read", false: "range selectors"}[remoteRead], r.Verification.ReadBy)
		require.Equal(t, int64(420*10), r.Verification.Checked)
		require.Greater(t, r.Writes.Samples, r.Verification.Checked, "rewritten ones are written twice")
		require.Zero(t, r.Verification.Extra)
		require.Zero(t, r.Verification.InDoubt)
		require.Positive(t, r.Freshness.Visible.Count)
		require.Zero(t, r.Freshness.Unseen)
		require.Contains(t, r.Distribution.TabletsError, "404")
		group := r.Distribution.Salts[0]
		require.Greater(t, group.Series, 420, "replaced hosts have series of their own")
		sum := int64(0)
		for _, n := range group.Samples.Loads {
			sum += n
		}
		require.Equal(t, r.Writes.Samples, sum)
	}
}

// TestVerificationFindsFaults runs a server that loses or changes one sample. The report must name exactly this sample.
func TestVerificationFindsFaults(t *testing.T) {
	for name, fault := range map[string]struct {
		change           func(v float64) (float64, bool)
		missing, changed int64
		close            int64
	}{
		"lost":                {func(v float64) (float64, bool) { return 0, false }, 1, 0, 0},
		"changed":             {func(v float64) (float64, bool) { return v + 1, true }, 0, 1, 0},
		"changed in last bit": {func(v float64) (float64, bool) { return math.Nextafter(v, 1e300), true }, 0, 1, 1},
	} {
		for _, remoteRead := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				s := newFakeServer(t)
				s.remoteRead = remoteRead
				var seen atomic.Int64
				s.store = func(_ string, x prompb.Sample) (float64, bool) {
					if x.Value > 10 && seen.Add(1) == 1000 {
						return fault.change(x.Value)
					}
					return x.Value, true
				}
				o := small()
				o.Load.RewrittenPercent = 0 // so that no second write repairs it
				r := runSmall(t, s, o)
				require.True(t, r.Failed())
				require.Equal(t, fault.missing, r.Verification.Missing)
				require.Equal(t, fault.changed, r.Verification.Different)
				require.Equal(t, fault.close, r.Verification.NearlyEqual)
				require.Len(t, r.Verification.Examples, 1)
				require.Contains(t, r.Verification.Examples[0], `job="loadtest"`)
			})
		}
	}
}

// TestVerificationWantsLastWrite checks that a server that keeps the first of two writes fails.
func TestVerificationWantsLastWrite(t *testing.T) {
	s := newFakeServer(t)
	type at struct {
		labels string
		tsMs   int64
	}
	first := make(map[at]float64)
	s.store = func(labels string, x prompb.Sample) (float64, bool) {
		k := at{labels, x.Timestamp}
		if _, ok := first[k]; !ok {
			first[k] = x.Value
		}
		return first[k], true
	}
	r := runSmall(t, s, small())
	require.Zero(t, r.Verification.Missing)
	require.Equal(t, r.Writes.Samples-r.Verification.Checked, r.Verification.Different)
	require.Len(t, r.Verification.Examples, 10)
}

// TestRefusedWritesAreNotLost checks that samples of requests answered 503 or 400 are retried or in doubt, but not missing.
func TestRefusedWritesAreNotLost(t *testing.T) {
	s := newFakeServer(t)
	s.refuse = func(n int, w http.ResponseWriter) bool {
		switch {
		case n%7 == 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case n%11 == 0:
			http.Error(w, "no", http.StatusBadRequest)
		default:
			return false
		}
		return true
	}
	o := small()
	o.FreshnessEvery = -1
	r := runSmall(t, s, o)
	require.True(t, r.Failed(), "rejected samples are a failure")
	require.True(t, r.Verification.Passed(), "%+v", r.Verification)
	require.Positive(t, r.Verification.InDoubt)
	require.Positive(t, r.Writes.Rejected)
	require.Equal(t, r.Writes.Statuses["503"], r.Writes.Retries["503"])
	require.Nil(t, r.Freshness)
}

// TestInterruptedRun checks that the end of the context ends the load, and that acknowledged samples are still verified.
func TestInterruptedRun(t *testing.T) {
	s := newFakeServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	var once sync.Once
	s.store = func(_ string, x prompb.Sample) (float64, bool) {
		once.Do(cancel)
		return x.Value, true
	}
	o := small()
	o.FreshnessEvery = -1
	r, err := Run(ctx, t.Context(), s.target(), o)
	require.NoError(t, err)
	require.True(t, r.Interrupted)
	require.True(t, r.Verification.Passed())
	require.Positive(t, r.Verification.Checked)
	require.Less(t, r.Verification.Checked, int64(4200))
}

// TestInterruptedReading checks that the end of the context ends the verification, and that the report says so.
func TestInterruptedReading(t *testing.T) {
	s := newFakeServer(t)
	s.busyReads = 1 << 30
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := small()
	o.FreshnessEvery = -1
	var progress settleWatcher
	o.Settle, progress.seen = time.Millisecond, func() { time.AfterFunc(50*time.Millisecond, cancel) }
	o.Progress = &progress
	r, err := Run(ctx, t.Context(), s.target(), o)
	require.NoError(t, err)
	require.False(t, r.Interrupted)
	require.NotEmpty(t, r.Verification.Error)
	require.False(t, r.Verification.Passed())
}

// settleWatcher calls seen when the settle time after a load begins.
type settleWatcher struct{ seen func() }

func (w *settleWatcher) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("settling")) {
		w.seen()
	}
	return len(p), nil
}

func TestLiveLoad(t *testing.T) {
	for _, rate := range []float64{0, 4000} {
		s := newFakeServer(t)
		var progress bytes.Buffer
		r := runSmall(t, s, Options{
			Load: load.Options{
				Fleet: fleet.Options{Hosts: 2}, Rate: rate, Duration: 300 * time.Millisecond, RequestSamples: 40,
			},
			QueryRate: 20, Progress: &progress, Terminal: true,
		})
		require.False(t, r.Failed(), "%+v", r.Verification)
		require.Positive(t, r.Verification.Checked)
		require.Equal(t, rate > 0, r.Writes.Lag != nil)
		require.Positive(t, r.Queries.All.Latency.Count+uint64(r.Queries.All.Errors))
		require.Contains(t, progress.String(), "samples")
	}
}

func TestUnreachableTarget(t *testing.T) {
	o := small()
	_, err := Run(t.Context(), t.Context(), client.Target{WriteURL: "http://127.0.0.1:1/w", QueryURL: "http://127.0.0.1:1"}, o)
	require.ErrorIs(t, err, ErrUnreachable)
}

// TestCompare compares two servers. The second loses a sample, and only it must fail.
func TestCompare(t *testing.T) {
	good, bad := newFakeServer(t), newFakeServer(t)
	var seen atomic.Int64
	bad.store = func(_ string, x prompb.Sample) (float64, bool) { return x.Value, seen.Add(1) != 100 }
	targets := []client.Target{good.target(), bad.target()}
	targets[0].Name, targets[1].Name = "good", "bad"
	o := small()
	o.Load.RewrittenPercent = 0
	c, err := Compare(t.Context(), t.Context(), targets, o, CompareOptions{SliceSamples: 1000, QueryRepeats: 2})
	require.NoError(t, err)
	require.True(t, c.Failed())
	require.False(t, c.Targets[0].Failed(), "%+v", c.Targets[0].Verification)
	require.Equal(t, int64(4200), c.Targets[0].Writes.Samples)
	require.Equal(t, int64(4200), c.Targets[1].Writes.Samples)
	require.Equal(t, int64(1), c.Targets[1].Verification.Missing)
	require.Len(t, c.Queries, len(probe.Dashboards()))
	var text bytes.Buffer
	require.NoError(t, c.WriteText(&text))
	require.Contains(t, text.String(), "| load | good | bad | ratio |")
	require.Contains(t, text.String(), "| read back: missing | 0 | 1 |")

	o.Load.From, o.Load.To = time.Time{}, time.Time{}
	_, err = Compare(t.Context(), t.Context(), targets, o, CompareOptions{})
	require.ErrorIs(t, err, ErrOptions)
	_, err = Compare(t.Context(), t.Context(), nil, small(), CompareOptions{})
	require.ErrorIs(t, err, client.ErrTarget)
}
