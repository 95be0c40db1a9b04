package receiver

import (
	"sync"

	"github.com/zeebo/xxh3"
)

const (
	// PanicsMax is the number of panics after which the server refuses a body for good.
	PanicsMax = 3
	// crashLoopsMax bounds the bodies whose panics are counted.
	crashLoopsMax = 128
)

// CrashLoops counts the panics that each write request has caused. A sender repeats a request with the response 500 forever, and
// its other requests wait. After some repetitions it is better to drop that one request.
type CrashLoops struct {
	mu     sync.Mutex
	panics map[uint64]int // by hash of the body; empty unless the program has a fault
}

// Refuses reports whether body has caused too many panics.
func (p *CrashLoops) Refuses(body []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.panics) > 0 && p.panics[xxh3.Hash(body)] >= PanicsMax
}

// Add counts a panic that body caused.
func (p *CrashLoops) Add(body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.panics == nil || len(p.panics) >= crashLoopsMax {
		p.panics = make(map[uint64]int)
	}
	p.panics[xxh3.Hash(body)]++
}
