package look

import (
	"context"
	"sync"
	"time"
)

// Looks is one thing to look at. Do and Timeout are set before the first Join and not changed.
type Looks struct {
	// Do looks. One call runs at a time.
	Do func(ctx context.Context) error
	// Timeout bounds one look.
	Timeout time.Duration

	mu      sync.Mutex
	waiting *one // that begins next
	flying  bool
}

type one struct {
	done chan struct{}
	err  error
}

// Join waits for a look that begins after the call, or for ctx.
func (l *Looks) Join(ctx context.Context) error {
	l.mu.Lock()
	o := l.waiting
	if o == nil {
		o = &one{done: make(chan struct{})}
		l.waiting = o
	}
	if !l.flying {
		l.flying = true
		go l.fly()
	}
	l.mu.Unlock()
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fly looks until nobody waits.
func (l *Looks) fly() {
	for {
		l.mu.Lock()
		o := l.waiting
		l.waiting, l.flying = nil, o != nil
		l.mu.Unlock()
		if o == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), l.Timeout)
		o.err = l.Do(ctx)
		cancel()
		close(o.done)
	}
}
