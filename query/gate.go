package query

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// gate admits a fixed number of queries at a time. Cheap and large queries wait in separate queues, so that neither kind
// delays the other for long:
//
//   - A quarter of the places is closed to large queries. A cheap query waits for cheap queries only.
//   - While large queries hold less than a quarter of the places, a free place goes to a large query first.
//
// A gate with a single place admits queries in the order of their arrival.
type gate struct {
	places   int
	reserved int // places for each kind
	wait     time.Duration
	queueMax int
	metrics  *metrics

	mu      sync.Mutex
	arrived uint64
	running [kinds]int
	queues  [kinds]list.List // of *turn, oldest first
}

// costKind tells cheap queries from large ones.
type costKind int

const (
	cheap costKind = iota
	large
	kinds
)

func (k costKind) String() string { return [kinds]string{"cheap", "large"}[k] }

// turn is the place of a query, or its place in the queue.
type turn struct {
	kind    costKind
	arrival uint64
	element *list.Element // nil once the query has a place
	granted chan struct{} // closed once the query has a place
}

func newGate(o Options, m *metrics) *gate {
	g := &gate{places: o.ConcurrencyMax, wait: o.QueueWait, queueMax: o.QueueMax, metrics: m}
	if g.places > 1 {
		g.reserved = max(1, g.places/4)
	}
	return g
}

// enter returns once the query has a place; leave gives the place back. It fails with ErrBusy or with the error of ctx.
func (g *gate) enter(ctx context.Context, kind costKind) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, err := g.arrive(kind)
	if err != nil {
		return nil, err
	}
	if err := g.await(ctx, t); err != nil {
		return nil, err
	}
	g.metrics.active.Inc()
	return func() {
		g.metrics.active.Dec()
		g.leave(t)
	}, nil
}

// arrive takes a place for a query or queues it.
func (g *gate) arrive(kind costKind) (*turn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.arrived++
	t := &turn{kind: kind, arrival: g.arrived, granted: make(chan struct{})}
	queue := &g.queues[kind]
	t.element = queue.PushBack(t)
	g.admit()
	if t.element != nil && queue.Len() > g.queueMax {
		queue.Remove(t.element)
		return nil, g.busy(fmt.Sprintf("%d %s queries wait for one of %d places already (query.max-queue)",
			g.queueMax, kind, g.open(kind)))
	}
	return t, nil
}

// await waits until a query has its place.
func (g *gate) await(ctx context.Context, t *turn) error {
	select {
	case <-t.granted:
		return nil
	default:
	}
	g.metrics.queued.Inc()
	defer g.metrics.queued.Dec()
	timer := time.NewTimer(g.wait)
	defer timer.Stop()
	var err error
	select {
	case <-t.granted:
		return nil
	case <-timer.C:
		err = g.busy(fmt.Sprintf("none of %d places for %s queries (query.max-concurrency) became free within %s "+
			"(query.queue-wait)", g.open(t.kind), t.kind, g.wait))
	case <-ctx.Done():
		err = ctx.Err()
	}
	if !g.abandon(t) {
		return nil // The place came at the same moment.
	}
	return err
}

// abandon takes a waiting query out of its queue. It reports false if the query has a place.
func (g *gate) abandon(t *turn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.element == nil {
		return false
	}
	g.queues[t.kind].Remove(t.element)
	return true
}

func (g *gate) leave(t *turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running[t.kind]--
	g.admit()
}

// admit gives free places to waiting queries. The caller holds mu.
func (g *gate) admit() {
	for t := g.next(); t != nil; t = g.next() {
		g.queues[t.kind].Remove(t.element)
		t.element = nil
		g.running[t.kind]++
		close(t.granted)
	}
}

// next is the waiting query that a free place belongs to; nil if there is none.
func (g *gate) next() *turn {
	if g.running[cheap]+g.running[large] >= g.places {
		return nil
	}
	c, l := g.oldest(cheap), g.oldest(large)
	switch {
	case l == nil || g.running[large] >= g.open(large):
		return c
	case c == nil:
		return l
	case g.reserved == 0 && l.arrival < c.arrival, g.running[large] < g.reserved:
		return l
	default:
		return c
	}
}

func (g *gate) oldest(kind costKind) *turn {
	if e := g.queues[kind].Front(); e != nil {
		return e.Value.(*turn)
	}
	return nil
}

// open is the number of places that queries of a kind may hold.
func (g *gate) open(kind costKind) int {
	if kind == large {
		return g.places - g.reserved
	}
	return g.places
}

func (g *gate) busy(why string) error {
	return &Error{Type: ErrorUnavailable, Err: fmt.Errorf("%w: %s", ErrBusy, why)}
}
