package partition

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage/pebble/cellkey"
)

// SwapGate prevents reads from seeing half of a swap. When the tree excises a span and ingests files in its place, both the
// old and the new files are missing for a moment. SwapGate discards a view from that moment.
type SwapGate struct {
	mu    sync.RWMutex // held during a swap
	state atomic.Pointer[swapState]
}

// swapState records whether a swap is running and in which partition. It is immutable. serial counts the states.
type swapState struct {
	serial uint64
	active bool
	at     cellkey.Header
}

func (g *SwapGate) load() *swapState {
	if s := g.state.Load(); s != nil {
		return s
	}
	return &swapState{}
}

// Swap runs do, which swaps a span of a partition.
func (g *SwapGate) Swap(h cellkey.Header, do func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	serial := g.load().serial
	g.state.Store(&swapState{serial: serial + 1, active: true, at: h})
	defer g.state.Store(&swapState{serial: serial + 2})
	return do()
}

// wait waits for the end of the running swap.
func (g *SwapGate) wait() {
	g.mu.RLock()
	defer g.mu.RUnlock()
}

// NewView returns an iterator over a snapshot of the tree. mayNeed reports whether the read may need cells of a partition.
// The caller must not hold a lock that a swap of such a partition waits for.
func (g *SwapGate) NewView(db *pebble.DB, mayNeed func(h cellkey.Header) bool) (*pebble.Iterator, error) {
	for {
		before := g.load()
		if before.active && mayNeed(before.at) {
			g.wait()
			continue
		}
		it, err := db.NewIter(nil)
		if err != nil {
			return nil, err
		}
		after := g.load()
		if after.serial == before.serial || after.serial == before.serial+1 && (!after.active || !mayNeed(after.at)) {
			return it, nil
		}
		if err := it.Close(); err != nil {
			return nil, err
		}
	}
}
