package loadtest

import (
	"sync"
	"sync/atomic"
)

// mark names one write of a sample.
type mark struct {
	slot uint32
	step uint32 // the highest bit is set if the write is the second one, with another value
}

const secondWrite = 1 << 31

func (m mark) second() bool { return m.step&secondWrite != 0 }

// ledger remembers what was acknowledged, in bits: one for each sample, and more only for steps in which samples were
// rewritten or writes failed.
type ledger struct {
	words int
	mu    sync.RWMutex
	steps []*ledgerStep
}

type ledgerStep struct {
	first, second atomic.Pointer[[]uint64] // acknowledged
	doubt         atomic.Pointer[[]uint64] // a write, first or second, was sent and not acknowledged: it may be there or not
}

func newLedger(slots int) *ledger { return &ledger{words: (slots + 63) / 64} }

// step returns the bits of a step; it makes them if needed.
func (l *ledger) step(n int) *ledgerStep {
	l.mu.RLock()
	if n < len(l.steps) {
		defer l.mu.RUnlock()
		return l.steps[n]
	}
	l.mu.RUnlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.steps) <= n {
		l.steps = append(l.steps, &ledgerStep{})
	}
	return l.steps[n]
}

func (l *ledger) set(bits *atomic.Pointer[[]uint64], slot uint32) {
	words := bits.Load()
	if words == nil {
		fresh := make([]uint64, l.words)
		if bits.CompareAndSwap(nil, &fresh) {
			words = &fresh
		} else {
			words = bits.Load()
		}
	}
	atomic.OrUint64(&(*words)[slot/64], 1<<(slot%64))
}

func has(bits *atomic.Pointer[[]uint64], slot uint32) bool {
	words := bits.Load()
	return words != nil && atomic.LoadUint64(&(*words)[slot/64])&(1<<(slot%64)) != 0
}

// acknowledged notes that a request was answered 2xx.
func (l *ledger) acknowledged(marks []mark) {
	for _, m := range marks {
		s := l.step(int(m.step &^ secondWrite))
		if m.second() {
			l.set(&s.second, m.slot)
		} else {
			l.set(&s.first, m.slot)
		}
	}
}

// doubtful notes that a request was sent and not acknowledged.
func (l *ledger) doubtful(marks []mark) {
	for _, m := range marks {
		l.set(&l.step(int(m.step&^secondWrite)).doubt, m.slot)
	}
}

// written is what became of the writes of one sample.
type written struct {
	first, second, doubt bool
}

// look returns what became of a sample; steps that were never reached have nothing.
func (l *ledger) look(slot, step int) written {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if step >= len(l.steps) {
		return written{}
	}
	s := l.steps[step]
	return written{has(&s.first, uint32(slot)), has(&s.second, uint32(slot)), has(&s.doubt, uint32(slot))}
}
