package query

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"halite/storage/principal"
)

// slots admits a fixed number of queries at a time. Cheap and large queries wait in separate queues, so that neither kind
// delays the other for long:
//
//   - A quarter of the slots is closed to large queries. A cheap query waits for cheap queries only.
//   - While large queries hold less than a quarter of the slots, a free slot goes to a large query first.
//
// With a single slot, queries are admitted in the order of their arrival.
//
// On a server with tenants, a free slot goes to the tenant that holds the fewest, and a tenant leaves a quarter of the slots to
// others. So the queries of one tenant do not fill the slots, nor the queues, in front of the queries of another. While several
// tenants are active, each of them holds fewer slots than there are CPUs, and each query uses one
// CPU. So a CPU is free for others.
type slots struct {
	total    int
	shared   int // slots that a tenant may hold while others are active
	reserved int // slots for each kind
	wait     time.Duration
	queueMax int
	metrics  *metrics

	mu      sync.Mutex
	arrived uint64
	running [kinds]int
	held    map[string]int   // slots of each tenant that has some
	queues  [kinds]list.List // of *turn, oldest first
}

// costKind distinguishes cheap queries from large ones.
type costKind int

const (
	cheap costKind = iota
	large
	kinds
)

func (k costKind) String() string { return [kinds]string{"cheap", "large"}[k] }

// turn is the slot of a query, or its slot in the queue.
type turn struct {
	kind    costKind
	tenant  string // whose query it is; "" on a server without tenants
	who     *principal.Principal
	single  bool // it uses one CPU; valid once it has a slot
	arrival uint64
	element *list.Element // nil once the query has a slot
	granted chan struct{} // closed once the query has a slot
}

func newSlots(o Options, m *metrics) *slots {
	s := &slots{
		held: map[string]int{}, total: o.ConcurrencyMax, shared: o.SharedConcurrencyMax, wait: o.QueueWait,
		queueMax: o.QueueMax, metrics: m,
	}
	if s.total > 1 {
		s.reserved = max(1, s.total/4)
	}
	return s
}

// enter returns once the query has a slot; leave gives the slot back. single says that the query shall use one CPU. enter fails
// with ErrBusy or with the error of ctx.
func (s *slots) enter(ctx context.Context, kind costKind) (leave func(), single bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	t, err := s.arrive(kind, principal.From(ctx))
	if err != nil {
		return nil, false, err
	}
	if err := s.await(ctx, t); err != nil {
		return nil, false, err
	}
	s.metrics.active.Inc()
	return func() {
		s.metrics.active.Dec()
		s.leave(t)
	}, t.single, nil
}

// arrive takes a slot for a query or queues it.
func (s *slots) arrive(kind costKind, who *principal.Principal) (*turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived++
	t := &turn{kind: kind, tenant: who.Tenancy(), who: who, arrival: s.arrived, granted: make(chan struct{})}
	queue := &s.queues[kind]
	t.element = queue.PushBack(t)
	s.admit()
	if t.element != nil && s.waiting(t) > s.queueMax {
		queue.Remove(t.element)
		return nil, s.busy(fmt.Sprintf("%d %s queries wait for one of %d slots already (query.max-queue)",
			s.queueMax, kind, s.open(kind)))
	}
	return t, nil
}

// await waits until a query has its slot.
func (s *slots) await(ctx context.Context, t *turn) error {
	select {
	case <-t.granted:
		return nil
	default:
	}
	s.metrics.queued.Inc()
	defer s.metrics.queued.Dec()
	timer := time.NewTimer(s.wait)
	defer timer.Stop()
	var err error
	select {
	case <-t.granted:
		return nil
	case <-timer.C:
		err = s.busy(fmt.Sprintf("none of %d slots for %s queries (query.max-concurrency) became free within %s "+
			"(query.queue-wait)", s.open(t.kind), t.kind, s.wait))
	case <-ctx.Done():
		err = ctx.Err()
	}
	if !s.abandon(t) {
		return nil // The slot came at the same moment.
	}
	return err
}

// abandon takes a waiting query out of its queue. It reports false if the query has a slot.
func (s *slots) abandon(t *turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.element == nil {
		return false
	}
	s.queues[t.kind].Remove(t.element)
	return true
}

func (s *slots) leave(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[t.kind]--
	if s.held[t.tenant]--; s.held[t.tenant] == 0 {
		delete(s.held, t.tenant)
	}
	s.admit()
}

// admit gives free slots to waiting queries. The caller holds mu.
func (s *slots) admit() {
	for t := s.next(); t != nil; t = s.next() {
		s.queues[t.kind].Remove(t.element)
		t.element = nil
		t.single = s.shares(t)
		s.running[t.kind]++
		s.held[t.tenant]++
		close(t.granted)
	}
}

// next is the waiting query that a free slot belongs to; nil if there is none.
func (s *slots) next() *turn {
	if s.running[cheap]+s.running[large] >= s.total {
		return nil
	}
	c, l := s.first(cheap), s.first(large)
	switch {
	case l == nil || s.running[large] >= s.open(large):
		return c
	case c == nil:
		return l
	case s.reserved == 0 && l.arrival < c.arrival, s.running[large] < s.reserved:
		return l
	default:
		return c
	}
}

// first is the query of a kind that comes first: the oldest one of the tenant that holds the fewest slots.
func (s *slots) first(kind costKind) (first *turn) {
	for e := s.queues[kind].Front(); e != nil; e = e.Next() {
		t := e.Value.(*turn)
		if t.tenant == "" {
			return t
		}
		if first != nil && s.held[t.tenant] >= s.held[first.tenant] {
			continue
		}
		if s.held[t.tenant] < s.most(t) {
			first = t
		}
	}
	return first
}

// most is the number of slots that the tenant of a query may hold.
func (s *slots) most(t *turn) int {
	if s.shares(t) {
		return min(s.shared, s.total-s.reserved)
	}
	return s.total - s.reserved
}

// shares reports whether another tenant is active.
func (s *slots) shares(t *turn) bool {
	others := len(s.held)
	if s.held[t.tenant] > 0 {
		others--
	}
	return t.tenant != "" && s.shared < s.total && (others > 0 || t.who.Shares())
}

// waiting is the number of queries of the same kind and tenant that wait.
func (s *slots) waiting(t *turn) int {
	if t.tenant == "" {
		return s.queues[t.kind].Len()
	}
	n := 0
	for e := s.queues[t.kind].Front(); e != nil; e = e.Next() {
		if e.Value.(*turn).tenant == t.tenant {
			n++
		}
	}
	return n
}

// open is the number of slots that queries of a kind may hold.
func (s *slots) open(kind costKind) int {
	if kind == large {
		return s.total - s.reserved
	}
	return s.total
}

func (s *slots) busy(why string) error {
	return &Error{Type: ErrorUnavailable, Err: fmt.Errorf("%w: %s", ErrBusy, why)}
}
