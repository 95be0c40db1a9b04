package acked

import (
	"sync"
	"sync/atomic"
)

// WriteID identifies one write of a sample.
type WriteID struct {
	Slot uint32
	Step uint32 // with SecondWrite set if this is the second write of the sample, which has another value
}

// SecondWrite is the bit of WriteID.Step that marks a second write.
const SecondWrite = 1 << 31

// Second reports whether this is the second write of the sample.
func (id WriteID) Second() bool { return id.Step&SecondWrite != 0 }

// step returns the step without the bit SecondWrite.
func (id WriteID) step() int { return int(id.Step &^ SecondWrite) }

// Set records the outcome of every write in bitmaps. A step needs one bit a sample, and further bits only if it has
// rewritten samples or failed writes.
type Set struct {
	words int // of a bitmap
	mu    sync.RWMutex
	steps []*stepBits
}

// bitmap has one bit for each slot. It is nil until its first bit is set.
type bitmap = atomic.Pointer[[]uint64]

type stepBits struct {
	first, second bitmap // acknowledged writes
	inDoubt       bitmap // a write, first or second, was sent and not acknowledged: the server may have stored it or not
}

// New returns an empty set for the given number of slots.
func New(slots int) *Set { return &Set{words: (slots + 63) / 64} }

// step returns the bitmaps of a step. It creates them if necessary.
func (s *Set) step(n int) *stepBits {
	s.mu.RLock()
	if n < len(s.steps) {
		defer s.mu.RUnlock()
		return s.steps[n]
	}
	s.mu.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.steps) <= n {
		s.steps = append(s.steps, &stepBits{})
	}
	return s.steps[n]
}

func (s *Set) setBit(bits *bitmap, slot uint32) {
	words := bits.Load()
	if words == nil {
		fresh := make([]uint64, s.words)
		if bits.CompareAndSwap(nil, &fresh) {
			words = &fresh
		} else {
			words = bits.Load()
		}
	}
	atomic.OrUint64(&(*words)[slot/64], 1<<(slot%64))
}

func hasBit(bits *bitmap, slot uint32) bool {
	words := bits.Load()
	return words != nil && atomic.LoadUint64(&(*words)[slot/64])&(1<<(slot%64)) != 0
}

// Acknowledge records that the server acknowledged the writes of a request.
func (s *Set) Acknowledge(ids []WriteID) {
	for _, id := range ids {
		bits := s.step(id.step())
		if id.Second() {
			s.setBit(&bits.second, id.Slot)
		} else {
			s.setBit(&bits.first, id.Slot)
		}
	}
}

// MarkInDoubt records that a request was sent and not acknowledged.
func (s *Set) MarkInDoubt(ids []WriteID) {
	for _, id := range ids {
		s.setBit(&s.step(id.step()).inDoubt, id.Slot)
	}
}

// Outcome says which writes of a sample were acknowledged, and whether one is in doubt.
type Outcome struct {
	First, Second, InDoubt bool
}

// Outcome returns the outcome of a sample's writes. It is zero for steps that the load did not reach.
func (s *Set) Outcome(slot, step int) Outcome {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if step >= len(s.steps) {
		return Outcome{}
	}
	bits := s.steps[step]
	return Outcome{hasBit(&bits.first, uint32(slot)), hasBit(&bits.second, uint32(slot)), hasBit(&bits.inDoubt, uint32(slot))}
}
