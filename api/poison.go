package api

import (
	"sync"

	"github.com/zeebo/xxh3"
)

const (
	// panicsMax is how often one body may make the writer panic before it is refused for good.
	panicsMax = 3
	// poisonMax bounds the bodies that are remembered.
	poisonMax = 128
)

// poisonList remembers write requests whose storing panicked. A sender repeats a request that was answered 500 for ever
// and holds back those behind it; after some repetitions it is better to drop the one.
type poisonList struct {
	mu     sync.Mutex
	panics map[uint64]int // by hash of the body; empty unless there is a fault in the program
}

// banned reports whether body panicked too often.
func (p *poisonList) banned(body []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.panics) > 0 && p.panics[xxh3.Hash(body)] >= panicsMax
}

// add counts a panic that body caused.
func (p *poisonList) add(body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.panics == nil || len(p.panics) >= poisonMax {
		p.panics = make(map[uint64]int)
	}
	p.panics[xxh3.Hash(body)]++
}
