package loadtest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/loadtest/fleet"
)

func timeOf(ms int64) time.Time { return time.UnixMilli(1_763_683_200_000 + ms) }

func newTestRunner(t testing.TB, o Options) *runner {
	t.Helper()
	r, err := newRunner(Target{WriteURL: "http://127.0.0.1:1/w", QueryURL: "http://127.0.0.1:1"}, o)
	require.NoError(t, err)
	return r
}

// sent is one sample as a stream sent it.
type sent struct {
	mark    mark
	tsMs    int64
	value   float64
	request int
}

// runStreams lets the streams of a runner run to their end.
func runStreams(t testing.TB, r *runner) (all []sent, bodies [][]byte) {
	for _, s := range newStreams(&r.opts, r.fleet, r.timeline) {
		var req request
		send := func(b *batch) error {
			require.LessOrEqual(t, len(b.samples), r.opts.RequestSamples)
			b.encode(&req, s.shuffle)
			for i, ts := range decode(t, req.body).Timeseries {
				all = append(all, sent{req.marks[i], ts.Samples[0].Timestamp, ts.Samples[0].Value, len(bodies)})
			}
			bodies = append(bodies, bytes.Clone(req.body))
			return nil
		}
		for s.step < r.timeline.steps {
			require.NoError(t, s.next(send))
		}
		require.NoError(t, s.drain(send))
	}
	return all, bodies
}

func disordered() Options {
	return Options{
		Fleet: fleet.Options{Hosts: 7, HotSeries: 130, Seed: 3, ChurnPercent: 30, ChurnSteps: 5}, From: timeOf(0), To: timeOf(300_000),
		Interval: 10 * time.Second, Senders: 3, RequestSamples: 190, OutOfOrderPercent: 5, LatePercent: 10, RewrittenPercent: 10,
		LateBy: 40 * time.Second,
	}
}

// TestEverySampleOnce: whatever the disorder, each sample is sent once, and each rewritten one once more, later.
func TestEverySampleOnce(t *testing.T) {
	for _, shuffle := range []bool{false, true} {
		o := disordered()
		o.Shuffle = shuffle
		r := newTestRunner(t, o)
		all, _ := runStreams(t, r)
		first, again := make(map[mark]int), make(map[mark]int)
		for at, x := range all {
			m := mark{x.mark.slot, x.mark.step &^ secondWrite}
			times := first
			if x.mark.second() {
				times = again
				how, _ := r.disorderOf(m)
				require.Equal(t, rewritten, how)
				before, ok := first[m]
				require.True(t, ok, "second write of %v before the first", m)
				require.True(t, !shuffle || all[before].request < x.request, "both writes of %v in one shuffled request", m)
				require.Equal(t, r.fleet.Rewritten(int(m.slot), int(m.step), all[before].value), x.value)
				require.Equal(t, all[before].tsMs, x.tsMs)
			}
			_, twice := times[m]
			require.False(t, twice, "%v is sent twice", m)
			times[m] = at
		}
		n := r.fleet.Slots() * r.timeline.steps
		require.Len(t, first, n)
		require.Equal(t, 30, r.timeline.steps)
		require.InDelta(t, 0.1, float64(len(again))/float64(n), 0.01)
	}
}

func (r *runner) disorderOf(m mark) (manner, int64) {
	d := newDisorder(&r.opts)
	return d.of(int(m.slot), int(m.step))
}

// TestLateness: late samples come after others that are younger by about LateBy, and samples out of order right after
// the next one of their series.
func TestLateness(t *testing.T) {
	r := newTestRunner(t, disordered())
	all, _ := runStreams(t, r)
	newest := make(map[uint32]int64) // by slot
	counts := make(map[manner]int)
	maxLate := int64(0)
	for _, x := range all {
		how, _ := r.disorderOf(mark{x.mark.slot, x.mark.step &^ secondWrite})
		behind := newest[x.mark.slot] - x.tsMs
		newest[x.mark.slot] = max(newest[x.mark.slot], x.tsMs)
		last := int(x.mark.step&^secondWrite) >= r.timeline.steps-7 // what is held at the end comes without younger ones
		if x.mark.second() || last {
			continue
		}
		counts[how]++
		switch how {
		case inTime, rewritten:
			require.Negative(t, behind)
		case late:
			maxLate = max(maxLate, behind)
		case outOfOrder:
			require.LessOrEqual(t, behind, int64(40_000), "%v", x)
		}
	}
	require.Greater(t, maxLate, int64(40_000))
	require.LessOrEqual(t, maxLate, int64(70_000))
	for _, how := range []manner{inTime, outOfOrder, late, rewritten} {
		require.Positive(t, counts[how])
	}
}

func TestSameOptionsSameBytes(t *testing.T) {
	o := disordered()
	o.Shuffle = true
	_, one := runStreams(t, newTestRunner(t, o))
	_, two := runStreams(t, newTestRunner(t, o))
	require.Equal(t, one, two)
	o.Fleet.Seed++
	_, three := runStreams(t, newTestRunner(t, o))
	require.NotEqual(t, one, three)
}

func TestHeldHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var h heldHeap
	var want []int64
	for range 500 {
		due := r.Int64N(100)
		want = append(want, due)
		h.push(held{dueMs: due})
	}
	slices.Sort(want)
	for _, due := range want {
		require.Equal(t, due, h.pop().dueMs)
	}
	require.Empty(t, h)
}

func TestTimeline(t *testing.T) {
	now := timeOf(0)
	clock := func() time.Time { return now }
	live := newTestRunner(t, Options{
		Fleet: fleet.Options{Hosts: 10}, Rate: 500, Duration: time.Minute, RewrittenPercent: 50, Now: clock,
	})
	require.Equal(t, 3000.0, live.timeline.intervalMs, "1000 series and half of them again at 500/s")
	require.Equal(t, 20, live.timeline.steps)
	require.Equal(t, timeOf(6000).UnixMilli(), live.timeline.tsMs(0, 2))
	require.Equal(t, timeOf(7500).UnixMilli(), live.timeline.tsMs(500, 2))
	require.Equal(t, timeOf(7500), live.timeline.due(timeOf(7500).UnixMilli()))
	require.Equal(t, 3.0, live.fleet.Options().StepSeconds)

	past := newTestRunner(t, Options{
		Fleet: fleet.Options{Hosts: 10}, From: timeOf(-3_600_000), To: timeOf(0), Rate: 1000, Now: clock,
	})
	require.Equal(t, 240, past.timeline.steps)
	require.Equal(t, timeOf(240_000), past.timeline.due(timeOf(0).UnixMilli()), "240,000 samples at 1000/s take 240 s")

	flat := newTestRunner(t, Options{Fleet: fleet.Options{Hosts: 10}, Now: clock})
	a, b := flat.timeline.tsMs(0, 0), flat.timeline.tsMs(900, 1)
	require.Equal(t, a+1, b, "two steps have two timestamps even in one millisecond")
	now = timeOf(100)
	require.Equal(t, b, flat.timeline.tsMs(0, 1))
	require.Equal(t, timeOf(100).UnixMilli(), flat.timeline.tsMs(0, 2))
	require.Equal(t, 3, flat.timeline.begun())
}

func TestOptionFaults(t *testing.T) {
	target := Target{WriteURL: "http://a/w", QueryURL: "http://a"}
	hosts := fleet.Options{Hosts: 1}
	for text, o := range map[string]Options{
		"no series":      {},
		"together":       {Fleet: hosts, LatePercent: 50, RewrittenPercent: 51},
		"not one":        {Fleet: hosts, From: timeOf(0), To: timeOf(0)},
		"set one of":     {Fleet: hosts, Rate: 1, Interval: time.Second},
		"at most 1000":   {Fleet: hosts, Rate: 100_001},
		"SamplesMax":     {Fleet: hosts, From: timeOf(0), To: timeOf(1e9), SamplesMax: 10},
		"Duration":       {Fleet: hosts, Duration: -1},
		"RequestSamples": {Fleet: hosts, RequestSamples: -1},
	} {
		_, err := newRunner(target, o)
		require.ErrorContains(t, err, text)
	}
	_, err := newRunner(Target{}, Options{Fleet: hosts})
	require.ErrorIs(t, err, ErrTarget)
}

// TestGate: no sender is more steps ahead than allowed, and those that have left hold nobody up.
func TestGate(t *testing.T) {
	g := newGate(2, &timeline{})
	g.enter(0, g.ahead)
	entered := make(chan struct{})
	go func() {
		g.enter(0, g.ahead+1)
		close(entered)
	}()
	select {
	case <-entered:
		t.Fatal("a sender ran ahead")
	case <-time.After(20 * time.Millisecond):
	}
	g.enter(1, 1)
	<-entered
	g.leave(1)
	g.enter(0, 1000)
}
