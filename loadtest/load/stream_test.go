package load

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/loadtest/acked"
	"halite/loadtest/fleet"
)

func timeOf(ms int64) time.Time { return time.UnixMilli(1_763_683_200_000 + ms) }

// testLoad has the parts of a load that streams need.
type testLoad struct {
	opts     Options
	fleet    *fleet.Fleet
	timeline *Timeline
}

func newTestLoad(t testing.TB, o Options, now func() time.Time) *testLoad {
	t.Helper()
	require.NoError(t, o.Validate())
	timeline, err := NewTimeline(&o, now)
	require.NoError(t, err)
	f, err := fleet.New(o.Fleet)
	require.NoError(t, err)
	o.Fleet = f.Options()
	return &testLoad{opts: o, fleet: f, timeline: timeline}
}

// sent is one sample as a stream sent it.
type sent struct {
	id      acked.WriteID
	tsMs    int64
	value   float64
	request int
}

// runStreams runs all streams of a load to their end.
func runStreams(t testing.TB, l *testLoad) (all []sent, bodies [][]byte) {
	send := func(r *Request) error {
		require.LessOrEqual(t, len(r.IDs), l.opts.RequestSamples)
		for i, ts := range decode(t, r.Body).Timeseries {
			all = append(all, sent{r.IDs[i], ts.Samples[0].Timestamp, ts.Samples[0].Value, len(bodies)})
		}
		bodies = append(bodies, bytes.Clone(r.Body))
		return nil
	}
	for _, s := range NewStreams(&l.opts, l.fleet, l.timeline) {
		for s.NextStep() < l.timeline.Steps() {
			require.NoError(t, s.SendStep(send))
		}
		require.NoError(t, s.Drain(send))
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

// TestEverySampleOnce checks that each sample is sent once, and each rewritten sample a second time later.
func TestEverySampleOnce(t *testing.T) {
	for _, shuffle := range []bool{false, true} {
		o := disordered()
		o.Shuffle = shuffle
		l := newTestLoad(t, o, time.Now)
		all, _ := runStreams(t, l)
		first, again := make(map[acked.WriteID]int), make(map[acked.WriteID]int)
		for at, x := range all {
			m := acked.WriteID{Slot: x.id.Slot, Step: x.id.Step &^ acked.SecondWrite}
			times := first
			if x.id.Second() {
				times = again
				order, _ := l.orderOf(m)
				require.Equal(t, Rewritten, order)
				before, ok := first[m]
				require.True(t, ok, "second write of %v before the first", m)
				require.True(t, !shuffle || all[before].request < x.request, "both writes of %v in one shuffled request", m)
				require.Equal(t, l.fleet.Rewritten(int(m.Slot), int(m.Step), all[before].value), x.value)
				require.Equal(t, all[before].tsMs, x.tsMs)
			}
			_, twice := times[m]
			require.False(t, twice, "%v is sent twice", m)
			times[m] = at
		}
		n := l.fleet.Slots() * l.timeline.Steps()
		require.Len(t, first, n)
		require.Equal(t, 30, l.timeline.Steps())
		require.InDelta(t, 0.1, float64(len(again))/float64(n), 0.01)
	}
}

func (l *testLoad) orderOf(m acked.WriteID) (Order, int64) {
	d := NewDisorder(&l.opts)
	return d.At(int(m.Slot), int(m.Step))
}

// TestLateness checks that late samples follow samples that are newer by about LateBy, and that out-of-order samples
// follow the next sample of their series.
func TestLateness(t *testing.T) {
	l := newTestLoad(t, disordered(), time.Now)
	all, _ := runStreams(t, l)
	newest := make(map[uint32]int64) // by slot
	counts := make(map[Order]int)
	maxLate := int64(0)
	for _, x := range all {
		order, _ := l.orderOf(acked.WriteID{Slot: x.id.Slot, Step: x.id.Step &^ acked.SecondWrite})
		behind := newest[x.id.Slot] - x.tsMs
		newest[x.id.Slot] = max(newest[x.id.Slot], x.tsMs)
		last := int(x.id.Step&^acked.SecondWrite) >= l.timeline.Steps()-7 // no newer samples follow the samples that Drain sends
		if x.id.Second() || last {
			continue
		}
		counts[order]++
		switch order {
		case InOrder, Rewritten:
			require.Negative(t, behind)
		case Late:
			maxLate = max(maxLate, behind)
		case OutOfOrder:
			require.LessOrEqual(t, behind, int64(40_000), "%v", x)
		}
	}
	require.Greater(t, maxLate, int64(40_000))
	require.LessOrEqual(t, maxLate, int64(70_000))
	for _, order := range []Order{InOrder, OutOfOrder, Late, Rewritten} {
		require.Positive(t, counts[order])
	}
}

func TestSameOptionsSameBytes(t *testing.T) {
	o := disordered()
	o.Shuffle = true
	_, one := runStreams(t, newTestLoad(t, o, time.Now))
	_, two := runStreams(t, newTestLoad(t, o, time.Now))
	require.Equal(t, one, two)
	o.Fleet.Seed++
	_, three := runStreams(t, newTestLoad(t, o, time.Now))
	require.NotEqual(t, one, three)
}

func TestDelayHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var h delayHeap
	var want []int64
	for range 500 {
		due := r.Int64N(100)
		want = append(want, due)
		h.push(delayedSample{dueMs: due})
	}
	slices.Sort(want)
	for _, due := range want {
		require.Equal(t, due, h.pop().dueMs)
	}
	require.Empty(t, h)
}
