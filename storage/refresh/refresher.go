package refresh

import (
	"context"
	"sync"
	"time"
)

// Refresher coalesces concurrent reads of one piece of state. Set Do and Timeout before the first Refresh.
type Refresher struct {
	// Do reads the state. Calls of Do never overlap.
	Do func(ctx context.Context) error
	// Timeout bounds one call of Do.
	Timeout time.Duration

	mu      sync.Mutex
	next    *read // the read that begins next; nil if no caller waits for one
	running bool
}

// read is one call of Do that several callers share.
type read struct {
	done chan struct{} // closed when err is set
	err  error
}

// Refresh waits for a read that begins after this call, and returns its error. It returns the cause of ctx if ctx ends first.
func (r *Refresher) Refresh(ctx context.Context) error {
	r.mu.Lock()
	shared := r.next
	if shared == nil {
		shared = &read{done: make(chan struct{})}
		r.next = shared
	}
	if !r.running {
		r.running = true
		go r.loop()
	}
	r.mu.Unlock()
	select {
	case <-shared.done:
		return shared.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// loop reads until no caller waits.
func (r *Refresher) loop() {
	for {
		r.mu.Lock()
		current := r.next
		r.next, r.running = nil, current != nil
		r.mu.Unlock()
		if current == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), r.Timeout)
		current.err = r.Do(ctx)
		cancel()
		close(current.done)
	}
}
