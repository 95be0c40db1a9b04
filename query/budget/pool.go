package budget

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Response is the transfer of a result to a client. Its methods must not block.
type Response interface {
	// Slow reports whether the server has waited for the client for some time.
	Slow() bool
	// End makes the transfer fail. Soon afterwards, the query closes its Budget.
	End()
}

// responseEndWait bounds the wait for the memory of a response after its End.
const responseEndWait = 5 * time.Second

// Pool is the memory of all queries together, until their responses are written.
//
// A query that finds the pool exhausted ends slow responses, the newest first, one at a time, until there is enough memory. If no
// response is slow, the query fails at once. So slow clients cannot block other queries. The newest response ends first, because
// older ones may be nearly complete.
type Pool struct {
	bytesMax int64
	bytes    atomic.Int64
	ended    atomic.Int64 // number of slow responses that were ended

	ending    sync.Mutex // held by the query that ends responses
	mu        sync.Mutex
	responses []transfer // in order of their start
}

// NewPool returns a pool of bytesMax bytes and registers its metrics. reg may be nil.
func NewPool(bytesMax int64, reg prometheus.Registerer) (*Pool, error) {
	p := &Pool{bytesMax: bytesMax}
	if reg == nil {
		return p, nil
	}
	for _, c := range []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_query_memory_bytes", Help: "Memory that queries and their responses hold.",
		}, func() float64 { return float64(p.bytes.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_query_memory_bytes_max", Help: "Memory that queries and their responses may hold.",
		}, func() float64 { return float64(p.bytesMax) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "tsdb_query_responses_ended_total",
			Help: "Responses that were aborted because their client was slow and another query needed the memory.",
		}, func() float64 { return float64(p.ended.Load()) }),
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of query memory: %w", err)
		}
	}
	return p, nil
}

// transfer is a response that is being written.
type transfer struct {
	Response
	budget *Budget
	over   chan struct{} // closed when the budget is closed
	ended  bool
}

// tryLease leases bytes if they are free. Only small queries get bytes from the last 1/smallQueryShare of the pool.
func (p *Pool) tryLease(bytes int64, small bool) bool {
	bytesMax := p.bytesMax
	if !small {
		bytesMax -= bytesMax / smallQueryShare
	}
	if p.bytes.Add(bytes) > bytesMax {
		p.bytes.Add(-bytes)
		return false
	}
	return true
}

func (p *Pool) release(bytes int64) { p.bytes.Add(-bytes) }

// lease is tryLease, but it ends slow responses if the pool is exhausted.
func (p *Pool) lease(bytes int64, small bool) bool {
	if p.tryLease(bytes, small) {
		return true
	}
	p.ending.Lock()
	defer p.ending.Unlock()
	for !p.tryLease(bytes, small) {
		over := p.endNewest()
		if over == nil {
			return false
		}
		select {
		case <-over:
		case <-time.After(responseEndWait):
		}
	}
	return true
}

// endNewest ends the newest slow response and returns a channel that is closed once its memory is free. The channel is nil
// if no response is slow.
func (p *Pool) endNewest() (over <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.responses) - 1; i >= 0; i-- {
		if t := &p.responses[i]; !t.ended && t.Slow() {
			t.ended = true
			t.End()
			p.ended.Add(1)
			return t.over
		}
	}
	return nil
}

// StartSending registers the response of the query until Close, and trims the lease. Call it at most once. A nil Response is
// never ended.
func (b *Budget) StartSending(r Response) {
	b.trim()
	if r == nil {
		return
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	b.pool.responses = append(b.pool.responses, transfer{Response: r, budget: b, over: make(chan struct{})})
}

// removeResponse removes the response of a budget, so that the pool no longer calls its End.
func (p *Pool) removeResponse(b *Budget) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.responses, func(t transfer) bool { return t.budget == b })
	if i >= 0 {
		close(p.responses[i].over)
		p.responses = slices.Delete(p.responses, i, i+1)
	}
}
