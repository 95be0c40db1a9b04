package query

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/query/expression"
	"halite/storage/principal"
)

// slots admits a fixed number of queries at once. Cheap and large queries have separate queues, so that no kind delays the
// other for long:
//
//   - A quarter of the slots is closed to large queries. A cheap query only waits for cheap queries.
//   - While large queries hold less than a quarter of the slots, a free slot goes to a large query first.
//
// With a single slot, queries run in the order of their arrival.
//
// On a server with tenants, a free slot goes to the tenant that holds the fewest slots. A tenant leaves a quarter of
// the slots to other tenants. So one tenant cannot fill the slots or the queues. While several tenants are active,
// each of them holds fewer slots than there are CPUs, and each query uses one CPU. So one CPU stays free for other
// tenants.
type slots struct {
	total    int
	shared   int // slots that a tenant may hold while others are active
	reserved int // slots for each kind
	wait     time.Duration
	queueMax int
	metrics  *metrics

	mu       sync.Mutex
	enqueued uint64
	running  [kinds]int
	held     map[string]int   // slots of each tenant
	queues   [kinds]list.List // of *waiter, oldest first
}

// costKind distinguishes cheap queries from large ones.
type costKind int

const (
	cheap costKind = iota
	large
	kinds
)

func (k costKind) String() string { return [kinds]string{"cheap", "large"}[k] }

// waiter is a query that waits for a slot or holds one.
type waiter struct {
	kind    costKind
	tenant  string // tenant of the query; "" on a server without tenants
	who     *principal.Principal
	single  bool // the query uses one CPU; valid once it has a slot
	arrival uint64
	element *list.Element // nil once the query has a slot
	ready   chan struct{} // closed once the query has a slot; nil if it got its slot on arrival
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

// acquire returns once the query has a slot. release gives the slot back. single means that the query must use only one CPU.
// acquire fails with ErrBusy or with the error of ctx.
func (s *slots) acquire(ctx context.Context, kind costKind) (release func(), single bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	w, err := s.enqueue(kind, principal.From(ctx))
	if err != nil {
		return nil, false, err
	}
	if err := s.await(ctx, w); err != nil {
		return nil, false, err
	}
	s.metrics.active.Inc()
	return func() {
		s.metrics.active.Dec()
		s.release(w)
	}, w.single, nil
}

// enqueue gives a query a free slot, or adds it to its queue.
func (s *slots) enqueue(kind costKind, who *principal.Principal) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enqueued++
	w := &waiter{kind: kind, tenant: who.Tenancy(), who: who, arrival: s.enqueued}
	queue := &s.queues[kind]
	w.element = queue.PushBack(w)
	if s.admit(); w.element == nil {
		return w, nil
	}
	if s.waiting(w) > s.queueMax {
		queue.Remove(w.element)
		return nil, s.busy(fmt.Sprintf("%d %s queries already wait for one of %d slots (query.max-queue)",
			s.queueMax, kind, s.open(kind)))
	}
	w.ready = make(chan struct{})
	return w, nil
}

// await waits for the slot of a query.
func (s *slots) await(ctx context.Context, w *waiter) error {
	if w.ready == nil {
		return nil
	}
	s.metrics.queued.Inc()
	defer s.metrics.queued.Dec()
	timer := time.NewTimer(s.wait)
	defer timer.Stop()
	var err error
	select {
	case <-w.ready:
		return nil
	case <-timer.C:
		err = s.busy(fmt.Sprintf("none of %d slots for %s queries (query.max-concurrency) became free within %s "+
			"(query.queue-wait)", s.open(w.kind), w.kind, s.wait))
	case <-ctx.Done():
		err = ctx.Err()
	}
	if !s.dequeue(w) {
		return nil // the slot came at the same moment
	}
	return err
}

// dequeue removes a waiting query from its queue. It returns false if the query has a slot.
func (s *slots) dequeue(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.element == nil {
		return false
	}
	s.queues[w.kind].Remove(w.element)
	return true
}

func (s *slots) release(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[w.kind]--
	if s.held[w.tenant]--; s.held[w.tenant] == 0 {
		delete(s.held, w.tenant)
	}
	s.admit()
}

// admit gives free slots to waiting queries. The caller holds mu.
func (s *slots) admit() {
	for w := s.next(); w != nil; w = s.next() {
		s.queues[w.kind].Remove(w.element)
		w.element = nil
		w.single = s.shares(w)
		s.running[w.kind]++
		s.held[w.tenant]++
		if w.ready != nil {
			close(w.ready)
		}
	}
}

// next returns the waiting query that gets the next free slot, or nil.
func (s *slots) next() *waiter {
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

// first returns the first waiting query of a kind: the oldest one of the tenant that holds the fewest slots.
func (s *slots) first(kind costKind) (first *waiter) {
	for e := s.queues[kind].Front(); e != nil; e = e.Next() {
		w := e.Value.(*waiter)
		if w.tenant == "" {
			return w
		}
		if first != nil && s.held[w.tenant] >= s.held[first.tenant] {
			continue
		}
		if s.held[w.tenant] < s.most(w) {
			first = w
		}
	}
	return first
}

// most returns the number of slots that the tenant of a query may hold.
func (s *slots) most(w *waiter) int {
	if s.shares(w) {
		return min(s.shared, s.total-s.reserved)
	}
	return s.total - s.reserved
}

// shares reports whether another tenant is active.
func (s *slots) shares(w *waiter) bool {
	others := len(s.held)
	if s.held[w.tenant] > 0 {
		others--
	}
	return w.tenant != "" && s.shared < s.total && (others > 0 || w.who.Shares())
}

// waiting returns the number of waiting queries of the same kind and tenant.
func (s *slots) waiting(w *waiter) int {
	if w.tenant == "" {
		return s.queues[w.kind].Len()
	}
	n := 0
	for e := s.queues[w.kind].Front(); e != nil; e = e.Next() {
		if e.Value.(*waiter).tenant == w.tenant {
			n++
		}
	}
	return n
}

// open returns the number of slots that queries of a kind may hold.
func (s *slots) open(kind costKind) int {
	if kind == large {
		return s.total - s.reserved
	}
	return s.total
}

func (s *slots) busy(why string) error {
	return &Error{Type: ErrorUnavailable, Err: fmt.Errorf("%w: %s", ErrBusy, why)}
}

// seriesEstimator returns an upper bound of the number of series that matchers select, without reading tables. *read.Reader
// implements it. Without matchers it returns the number of all series.
type seriesEstimator interface {
	EstimateSeries(ctx context.Context, matchers ...*labels.Matcher) int
}

// estimator returns the estimator behind the Queryable; nil if there is none.
func (o Options) estimator() seriesEstimator {
	if r := readerOf(o.Queryable); r != nil {
		return r
	}
	q, _ := o.Queryable.(seriesEstimator)
	return q
}

// assumedIntervalMs is the sample interval that estimates assume.
const assumedIntervalMs = 15_000

// kindOf estimates the cost of a query whose subqueries have subqueryStepMs as default step. Without a seriesEstimator every
// query counts as cheap.
func (o Options) kindOf(ctx context.Context, p parser.Parser, s expression.Expression, subqueryStepMs int64) costKind {
	estimator := o.estimator()
	if estimator == nil {
		return cheap
	}
	expr, err := s.Expr(p)
	if err != nil {
		return cheap // The caller parses the expression again and reports the error.
	}
	// Most queries are cheap even if they select every series. They need no look-up in the index.
	all := int64(estimator.EstimateSeries(ctx))
	samples := o.estimate(expr, s, subqueryStepMs, func([]*labels.Matcher) int64 { return all })
	if samples > o.CheapSamplesMax {
		samples = o.estimate(expr, s, subqueryStepMs, func(matchers []*labels.Matcher) int64 {
			return int64(estimator.EstimateSeries(ctx, matchers...))
		})
	}
	if samples > o.CheapSamplesMax {
		return large
	}
	return cheap
}

// estimate returns the approximate number of samples that an expression reads and computes. Each selector adds its number of
// series times the samples in its time range, plus its evaluations.
func (o Options) estimate(
	expr parser.Expr, s expression.Expression, subqueryStepMs int64, series func([]*labels.Matcher) int64,
) (samples int64) {
	l := subqueryLimits{stepDefaultMs: subqueryStepMs}
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		selector, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		spanMs, evaluations := s.End.Sub(s.Start).Milliseconds(), int64(1)
		if s.IsRange {
			evaluations += spanMs / s.Step.Milliseconds()
		}
		windowMs := o.Lookback.Milliseconds()
		for _, above := range path {
			switch above := above.(type) {
			case *parser.MatrixSelector:
				windowMs = above.Range.Milliseconds()
			case *parser.SubqueryExpr:
				points := saturated(evaluations, above.Range.Milliseconds()/l.stepMs(above))
				spanMs += above.Range.Milliseconds()
				evaluations = added(points, spanMs/l.stepMs(above)+1)
			}
		}
		perSeries := added((spanMs+windowMs)/assumedIntervalMs, evaluations)
		samples = added(samples, saturated(series(selector.LabelMatchers), perSeries))
		return nil
	})
	return samples
}
