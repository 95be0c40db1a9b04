package promql

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Answer is the transfer of an answer to a client. Its methods must not block.
type Answer interface {
	// Slow reports whether the server has waited for the client for some time.
	Slow() bool
	// End makes the transfer fail. The query ends its Budget soon afterwards.
	End()
}

// answerEndWait bounds the wait for the memory of an answer after its End.
const answerEndWait = 5 * time.Second

// pool is the memory that all queries take together until their answers are written.
//
// If it is exhausted, a query that needs more ends slow answers, the newest first, one at a time, until there is enough.
// Without a slow answer the query fails at once. So slow clients cannot keep others from being answered, and an answer
// that is nearly through is not given up for one that has just begun.
type pool struct {
	bytesMax int64
	bytes    atomic.Int64
	ended    atomic.Int64 // slow answers

	ending  sync.Mutex // one query at a time ends answers
	mu      sync.Mutex
	answers []transfer // in the order in which they began
}

// transfer is an answer that is being written.
type transfer struct {
	Answer
	budget *Budget
	over   chan struct{} // closed by the End of the budget
	ended  bool
}

// take fails if there is not as much. Only small queries may have the last 1/smallShare.
func (p *pool) take(bytes int64, small bool) bool {
	bytesMax := p.bytesMax
	if !small {
		bytesMax -= bytesMax / smallShare
	}
	if p.bytes.Add(bytes) > bytesMax {
		p.bytes.Add(-bytes)
		return false
	}
	return true
}

func (p *pool) release(bytes int64) { p.bytes.Add(-bytes) }

// lease is take that ends slow answers if there is not enough memory.
func (p *pool) lease(bytes int64, small bool) bool {
	if p.take(bytes, small) {
		return true
	}
	p.ending.Lock()
	defer p.ending.Unlock()
	for !p.take(bytes, small) {
		over := p.endNewest()
		if over == nil {
			return false
		}
		select {
		case <-over:
		case <-time.After(answerEndWait):
		}
	}
	return true
}

// endNewest ends the newest slow answer; over is closed when its memory is back. It is nil if no answer is slow.
func (p *pool) endNewest() (over <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.answers) - 1; i >= 0; i-- {
		if t := &p.answers[i]; !t.ended && t.Slow() {
			t.ended = true
			t.End()
			p.ended.Add(1)
			return t.over
		}
	}
	return nil
}

// Sending says that the answer of the query is being written, until End, and trims the lease. It is called once at most;
// a nil Answer can never be ended.
func (b *Budget) Sending(a Answer) {
	b.trim()
	if a == nil {
		return
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	b.pool.answers = append(b.pool.answers, transfer{Answer: a, budget: b, over: make(chan struct{})})
}

// sent forgets the answer of a budget. Afterwards nobody calls its End.
func (p *pool) sent(b *Budget) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.answers, func(t transfer) bool { return t.budget == b })
	if i >= 0 {
		close(p.answers[i].over)
		p.answers = slices.Delete(p.answers, i, i+1)
	}
}
