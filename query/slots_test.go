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

func (g *slots) mustArrive(t *testing.T, kind costKind) *turn {
	turn, err := g.arrive(kind, nil)
	require.NoError(t, err)
	return turn
}

// has tells whether a query has its slot.
func (t *turn) has() bool {
	select {
	case <-t.granted:
		return true
	default:
		return false
	}
}

// TestCheapQueriesPassLargeOnes floods the slots with large queries: each cheap query finds a slot at once.
func TestCheapQueriesPassLargeOnes(t *testing.T) {
	g := newTestSlots(t, 8, 1000)
	running := 0
	for range 500 {
		if g.mustArrive(t, large).has() {
			running++
		}
	}
	require.Equal(t, 6, running, "a quarter of the slots is closed to large queries")
	for range 100 {
		a, b := g.mustArrive(t, cheap), g.mustArrive(t, cheap)
		require.True(t, a.has())
		require.True(t, b.has())
		waiting := g.mustArrive(t, cheap)
		require.False(t, waiting.has())
		g.leave(a)
		require.True(t, waiting.has(), "a cheap query waits for cheap queries only")
		g.leave(b)
		g.leave(waiting)
	}
}

// TestLargeQueriesDoNotStarve floods the slots with cheap queries: a large query gets the next free slot.
func TestLargeQueriesDoNotStarve(t *testing.T) {
	for _, slots := range []int{1, 2, 4, 8, 100} {
		g := newTestSlots(t, slots, 1000)
		var running []*turn
		for range slots {
			running = append(running, g.mustArrive(t, cheap))
		}
		l := g.mustArrive(t, large)
		for range 10 {
			g.mustArrive(t, cheap)
		}
		require.False(t, l.has())
		g.leave(running[0])
		require.True(t, l.has(), "%d slots", slots)
	}
}

// TestSingleSlotIsFirstComeFirstServed: with one slot neither kind goes first.
func TestSingleSlotIsFirstComeFirstServed(t *testing.T) {
	g := newTestSlots(t, 1, 1000)
	var turns []*turn
	for _, kind := range []costKind{large, cheap, large, large, cheap, cheap} {
		turns = append(turns, g.mustArrive(t, kind))
	}
	for i, turn := range turns {
		require.True(t, turn.has())
		require.True(t, i+1 == len(turns) || !turns[i+1].has())
		g.leave(turn)
	}
}

// TestSlotsOfTenants: a tenant that floods slots and queues leaves slots to others, and a free slot goes to who holds the fewest.
func TestSlotsOfTenants(t *testing.T) {
	g := newTestSlots(t, 8, 100)
	arrive := func(tenant string) *turn {
		turn, err := g.arrive(cheap, asTenant(tenant))
		require.NoError(t, err)
		return turn
	}
	var flood []*turn
	for range 106 {
		flood = append(flood, arrive("flood"))
	}
	require.Equal(t, map[string]int{"flood": 6}, g.held)
	_, err := g.arrive(cheap, asTenant("flood"))
	require.ErrorIs(t, err, ErrBusy, "the queue of this tenant is full")
	one, other := arrive("one"), arrive("one")
	require.True(t, one.has() && other.has())
	waiting, fewer := arrive("one"), arrive("two")
	g.leave(flood[0])
	require.True(t, fewer.has())
	require.False(t, waiting.has() || flood[6].has())
	g.leave(flood[1])
	require.True(t, waiting.has())
	g.leave(one)
	g.leave(other)
	require.Equal(t, map[string]int{"flood": 6, "one": 1, "two": 1}, g.held)
}

// TestFullQueueRefusesItsOwnKind: waiting large queries do not take the slots of cheap ones in the queue.
func TestFullQueueRefusesItsOwnKind(t *testing.T) {
	g := newTestSlots(t, 4, 2)
	for range 5 {
		g.mustArrive(t, large)
	}
	_, err := g.arrive(large, nil)
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorContains(t, err, "2 large queries wait for one of 3 slots already (query.max-queue)")
	for range 3 {
		g.mustArrive(t, cheap)
	}
	_, err = g.arrive(cheap, nil)
	require.ErrorContains(t, err, "2 cheap queries wait for one of 4 slots already (query.max-queue)")
}

// TestSlotsCountRight plays random arrivals, departures and cancellations. Places are never exceeded, never idle while a
// query may have one, and all free at the end.
func TestSlotsCountRight(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, slots := range []int{1, 2, 3, 4, 9} {
		g := newTestSlots(t, slots, 50)
		var turns []*turn
		for range 5000 {
			switch i := r.IntN(3); {
			case i == 0 || len(turns) == 0:
				if turn, err := g.arrive(costKind(r.IntN(int(kinds))), nil); err == nil {
					turns = append(turns, turn)
				}
			default:
				i := r.IntN(len(turns))
				if turn := turns[i]; turn.has() {
					g.leave(turn)
				} else {
					require.True(t, g.abandon(turn))
				}
				turns = append(turns[:i], turns[i+1:]...)
			}
			require.LessOrEqual(t, g.running[large], g.open(large))
			require.LessOrEqual(t, g.running[cheap]+g.running[large], slots)
			if g.running[cheap]+g.running[large] < slots {
				require.Zero(t, g.queues[cheap].Len())
				require.True(t, g.queues[large].Len() == 0 || g.running[large] == g.open(large))
			}
		}
		for len(turns) > 0 {
			if turn := turns[len(turns)-1]; turn.has() {
				g.leave(turn)
			} else {
				g.abandon(turn)
			}
			turns = turns[:len(turns)-1]
		}
		require.Equal(t, [kinds]int{}, g.running)
	}
}

// TestEstimate reckons the cost of expressions over 100 series.
func TestEstimate(t *testing.T) {
	e := newEngine(t, newWaiting(), nil)
	const hour = int64(3600 / 15)
	for _, c := range []struct {
		query string
		steps int64 // of a minute; 0 is an instant query
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
		require.Equal(t, c.want, e.opts.estimate(expr, s, func([]*labels.Matcher) int64 { return 100 }), c.query)
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
	require.Equal(t, cheap, newEngine(t, few, limit).opts.kindOf(t.Context(), p, instant))
	require.Equal(t, large, newEngine(t, many, limit).opts.kindOf(t.Context(), p, instant))
	require.Equal(t, cheap, newEngine(t, newWaiting(), limit).opts.kindOf(t.Context(), p, instant), "there is no estimate")
}

// TestSharedSlots: while another tenant is active, a tenant holds few slots and each of its queries uses one CPU.
func TestSharedSlots(t *testing.T) {
	g := newTestSlots(t, 8, 1000)
	g.shared = 2
	now := time.Unix(1_800_000_000, 0)
	activity := principal.NewActivity(func() time.Time { return now })
	arrive := func(tenant string) *turn {
		turn, err := g.arrive(cheap, activity.Of(asTenant(tenant)))
		require.NoError(t, err)
		return turn
	}
	var flood []*turn
	for range 20 {
		flood = append(flood, arrive("flood"))
	}
	require.True(t, flood[5].has() && !flood[6].has(), "alone, a tenant holds three quarters")
	require.False(t, flood[5].single)
	one := arrive("one")
	require.True(t, one.has() && one.single)
	for _, turn := range flood[:5] {
		g.leave(turn)
		require.False(t, flood[7].has())
	}
	require.True(t, flood[6].has() && flood[6].single, "it holds two")
	g.leave(one)
	g.leave(flood[5])
	require.True(t, flood[7].has() && flood[7].single, "the other one was active some seconds ago")
	require.False(t, flood[8].has())
	now = now.Add(time.Minute)
	g.leave(flood[6])
	require.True(t, flood[12].has() && !flood[12].single && !flood[13].has(), "alone again")
}
