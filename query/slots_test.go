package query

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"halite/query/expression"
	"halite/storage/principal"
)

func newTestSlots(t *testing.T, slots, queueMax int) *slots {
	m, err := newMetrics(nil)
	require.NoError(t, err)
	return newSlots(Options{ConcurrencyMax: slots, SharedConcurrencyMax: slots, QueueMax: queueMax, QueueWait: time.Minute}, m)
}

func asTenant(name string) *principal.Principal { return &principal.Principal{Tenants: []string{name}} }

func (g *slots) mustEnqueue(t *testing.T, kind costKind) *waiter {
	w, err := g.enqueue(kind, nil)
	require.NoError(t, err)
	return w
}

// hasSlot reports whether a query has its slot.
func (w *waiter) hasSlot() bool {
	if w.ready == nil {
		return true
	}
	select {
	case <-w.ready:
		return true
	default:
		return false
	}
}

// TestCheapQueriesPassLargeOnes floods the slots with large queries. Each cheap query gets a slot at once.
func TestCheapQueriesPassLargeOnes(t *testing.T) {
	g := newTestSlots(t, 8, 1000)
	running := 0
	for range 500 {
		if g.mustEnqueue(t, large).hasSlot() {
			running++
		}
	}
	require.Equal(t, 6, running, "a quarter of the slots is closed to large queries")
	for range 100 {
		a, b := g.mustEnqueue(t, cheap), g.mustEnqueue(t, cheap)
		require.True(t, a.hasSlot())
		require.True(t, b.hasSlot())
		waiting := g.mustEnqueue(t, cheap)
		require.False(t, waiting.hasSlot())
		g.release(a)
		require.True(t, waiting.hasSlot(), "a cheap query waits for cheap queries only")
		g.release(b)
		g.release(waiting)
	}
}

// TestLargeQueriesDoNotStarve floods the slots with cheap queries. A large query gets the next free slot.
func TestLargeQueriesDoNotStarve(t *testing.T) {
	for _, slots := range []int{1, 2, 4, 8, 100} {
		g := newTestSlots(t, slots, 1000)
		var running []*waiter
		for range slots {
			running = append(running, g.mustEnqueue(t, cheap))
		}
		l := g.mustEnqueue(t, large)
		for range 10 {
			g.mustEnqueue(t, cheap)
		}
		require.False(t, l.hasSlot())
		g.release(running[0])
		require.True(t, l.hasSlot(), "%d slots", slots)
	}
}

// TestSingleSlotIsFirstComeFirstServed checks that with one slot, no kind of query has priority.
func TestSingleSlotIsFirstComeFirstServed(t *testing.T) {
	g := newTestSlots(t, 1, 1000)
	var waiters []*waiter
	for _, kind := range []costKind{large, cheap, large, large, cheap, cheap} {
		waiters = append(waiters, g.mustEnqueue(t, kind))
	}
	for i, w := range waiters {
		require.True(t, w.hasSlot())
		require.True(t, i+1 == len(waiters) || !waiters[i+1].hasSlot())
		g.release(w)
	}
}

// TestSlotsOfTenants checks that a flood of one tenant leaves slots to others, and that a free slot goes to the tenant
// with the fewest.
func TestSlotsOfTenants(t *testing.T) {
	g := newTestSlots(t, 8, 100)
	enqueue := func(tenant string) *waiter {
		w, err := g.enqueue(cheap, asTenant(tenant))
		require.NoError(t, err)
		return w
	}
	var flood []*waiter
	for range 106 {
		flood = append(flood, enqueue("flood"))
	}
	require.Equal(t, map[string]int{"flood": 6}, g.held)
	_, err := g.enqueue(cheap, asTenant("flood"))
	require.ErrorIs(t, err, ErrBusy, "the queue of this tenant is full")
	one, other := enqueue("one"), enqueue("one")
	require.True(t, one.hasSlot() && other.hasSlot())
	waiting, fewer := enqueue("one"), enqueue("two")
	g.release(flood[0])
	require.True(t, fewer.hasSlot())
	require.False(t, waiting.hasSlot() || flood[6].hasSlot())
	g.release(flood[1])
	require.True(t, waiting.hasSlot())
	g.release(one)
	g.release(other)
	require.Equal(t, map[string]int{"flood": 6, "one": 1, "two": 1}, g.held)
}

// TestFullQueueRefusesItsOwnKind checks that waiting large queries do not fill the queue of cheap ones.
func TestFullQueueRefusesItsOwnKind(t *testing.T) {
	g := newTestSlots(t, 4, 2)
	for range 5 {
		g.mustEnqueue(t, large)
	}
	_, err := g.enqueue(large, nil)
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorContains(t, err, "2 large queries already wait for one of 3 slots (query.max-queue)")
	for range 3 {
		g.mustEnqueue(t, cheap)
	}
	_, err = g.enqueue(cheap, nil)
	require.ErrorContains(t, err, "2 cheap queries already wait for one of 4 slots (query.max-queue)")
}

// TestSlotsCountRight runs random arrivals, departures and cancellations. The slots never exceed their number, no slot
// is idle while a query may have it, and all are free at the end.
func TestSlotsCountRight(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, slots := range []int{1, 2, 3, 4, 9} {
		g := newTestSlots(t, slots, 50)
		var waiters []*waiter
		for range 5000 {
			switch i := r.IntN(3); {
			case i == 0 || len(waiters) == 0:
				if w, err := g.enqueue(costKind(r.IntN(int(kinds))), nil); err == nil {
					waiters = append(waiters, w)
				}
			default:
				i := r.IntN(len(waiters))
				if w := waiters[i]; w.hasSlot() {
					g.release(w)
				} else {
					require.True(t, g.dequeue(w))
				}
				waiters = append(waiters[:i], waiters[i+1:]...)
			}
			require.LessOrEqual(t, g.running[large], g.open(large))
			require.LessOrEqual(t, g.running[cheap]+g.running[large], slots)
			if g.running[cheap]+g.running[large] < slots {
				require.Zero(t, g.queues[cheap].Len())
				require.True(t, g.queues[large].Len() == 0 || g.running[large] == g.open(large))
			}
		}
		for len(waiters) > 0 {
			if w := waiters[len(waiters)-1]; w.hasSlot() {
				g.release(w)
			} else {
				g.dequeue(w)
			}
			waiters = waiters[:len(waiters)-1]
		}
		require.Equal(t, [kinds]int{}, g.running)
	}
}

// TestEstimate checks the estimated cost of expressions over 100 series.
func TestEstimate(t *testing.T) {
	e := newEngine(t, newWaiting(), nil)
	const hour = int64(3600 / 15)
	for _, c := range []struct {
		query string
		steps int64 // of a minute each; 0 means an instant query
		want  int64
	}{
		{"1 + 1", 0, 0},
		{"m", 0, 100 * (20 + 1)},
		{"rate(m[1h])", 0, 100 * (hour + 1)},
		{"m + m", 0, 200 * (20 + 1)},
		{"m", 60, 100 * (hour + 20 + 61)},
		{"rate(m[1h])", 60, 100 * (2*hour + 61)},
		{"max_over_time(m[1h:1m])", 0, 100 * (hour + 20 + 60 + 61)},
		{"max_over_time(max_over_time(m[1000d:1s])[1000d:1s])", 10_000, 1<<63 - 1},
	} {
		expr, err := e.parser.ParseExpr(c.query)
		require.NoError(t, err)
		s := expression.Expression{Text: c.query, Start: time.UnixMilli(0), End: time.UnixMilli(c.steps * 60_000), Step: time.Minute}
		s.IsRange = c.steps > 0
		require.Equal(t, c.want, e.opts.estimate(expr, s, 60_000, func([]*labels.Matcher) int64 { return 100 }), c.query)
	}
}

// manySeries is a Queryable with an estimate.
type manySeries struct {
	waiting
	series int
}

func (m manySeries) EstimateSeries(context.Context, ...*labels.Matcher) int { return m.series }

// TestKindFollowsEstimate compares the estimate with the limit.
func TestKindFollowsEstimate(t *testing.T) {
	p := parser.NewParser(parser.Options{})
	few, many := manySeries{newWaiting(), 10}, manySeries{newWaiting(), 11}
	limit := func(o *Options) { o.CheapSamplesMax = 10 * (20 + 1) }
	instant := expression.Expression{Text: "m", Parsed: new(expression.Parsed), Start: time.UnixMilli(0), End: time.UnixMilli(0)}
	require.Equal(t, cheap, newEngine(t, few, limit).opts.kindOf(t.Context(), p, instant, 60_000))
	require.Equal(t, large, newEngine(t, many, limit).opts.kindOf(t.Context(), p, instant, 60_000))
	require.Equal(t, cheap, newEngine(t, newWaiting(), limit).opts.kindOf(t.Context(), p, instant, 60_000), "there is no estimate")
}

// TestSharedSlots: while another tenant is active, a tenant holds few slots and each of its queries uses one CPU.
func TestSharedSlots(t *testing.T) {
	g := newTestSlots(t, 8, 1000)
	g.shared = 2
	now := time.Unix(1_800_000_000, 0)
	activity := principal.NewActivity(func() time.Time { return now }, 0)
	enqueue := func(tenant string) *waiter {
		w, err := g.enqueue(cheap, activity.For(asTenant(tenant)))
		require.NoError(t, err)
		return w
	}
	var flood []*waiter
	for range 20 {
		flood = append(flood, enqueue("flood"))
	}
	require.True(t, flood[5].hasSlot() && !flood[6].hasSlot(), "alone, a tenant holds three quarters")
	require.False(t, flood[5].single)
	one := enqueue("one")
	require.True(t, one.hasSlot() && one.single)
	for _, w := range flood[:5] {
		g.release(w)
		require.False(t, flood[7].hasSlot())
	}
	require.True(t, flood[6].hasSlot() && flood[6].single, "it holds two")
	g.release(one)
	g.release(flood[5])
	require.True(t, flood[7].hasSlot() && flood[7].single, "the other one was active some seconds ago")
	require.False(t, flood[8].hasSlot())
	now = now.Add(time.Minute)
	g.release(flood[6])
	require.True(t, flood[12].hasSlot() && !flood[12].single && !flood[13].hasSlot(), "alone again")
}
