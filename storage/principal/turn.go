package principal

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// share has the turns of one tenant.
type share struct {
	turns    *semaphore.Weighted // first come, first served
	requests int                 // requests that hold a turn or wait for one
}

// Turn lets a request of a tenant use a CPU while other tenants are active. A request holds it while it parses, stores,
// evaluates or encodes, but not while it waits for a client, a disk or a queue. A nil Turn is for a request that shares
// nothing; it has no bound. A Turn is safe for concurrent use.
type Turn struct {
	activity *Activity
	tenants  string

	mu    sync.Mutex // held while the request waits, so that all its goroutines wait
	held  bool
	since time.Time
}

// turnTime is the time after which a request yields its turn to other requests of the tenant. Go's scheduler gives a
// goroutine the same time if others wait.
const turnTime = 10 * time.Millisecond

// BeginTurn waits for one of the tenant's turns, in the order of the calls. It returns nil at once if no other tenant is
// active. It fails with the error of ctx. The caller calls Pause when the work is done.
func (p *Principal) BeginTurn(ctx context.Context) (*Turn, error) {
	if !p.Shares() {
		return nil, nil
	}
	t := &Turn{activity: p.activity, tenants: p.Tenancy()}
	return t, t.Resume(ctx)
}

// Pause gives the turn to the tenant's next request.
func (t *Turn) Pause() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pause()
}

func (t *Turn) pause() {
	if t.held {
		t.held = false
		t.activity.leave(t.tenants)
	}
}

// Resume waits for a turn again after Pause. It fails with the error of ctx; then the request has no turn.
func (t *Turn) Resume(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.resume(ctx)
}

func (t *Turn) resume(ctx context.Context) error {
	if t.held {
		return nil
	}
	err := t.activity.enter(ctx, t.tenants)
	t.held, t.since = err == nil, t.activity.now()
	return err
}

// Yield gives the turn to other waiting requests of the tenant if this request has held it for turnTime. Long work calls it
// often, so a slow query does not stop the tenant's writes. It fails with the error of ctx; then the request has no turn.
func (t *Turn) Yield(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.held || t.activity.now().Sub(t.since) < turnTime {
		return nil
	}
	t.pause()
	return t.resume(ctx)
}

// enter waits for a turn of a tenant.
func (a *Activity) enter(ctx context.Context, tenants string) error {
	a.mu.Lock()
	s := a.shares[tenants]
	if s == nil {
		s = &share{turns: semaphore.NewWeighted(int64(a.turnsMax))}
		a.shares[tenants] = s
	}
	s.requests++
	a.mu.Unlock()
	err := s.turns.Acquire(ctx, 1)
	if err != nil {
		a.forget(tenants)
	}
	return err
}

// leave gives a turn to the next request that waits.
func (a *Activity) leave(tenants string) {
	a.mu.Lock()
	s := a.shares[tenants]
	a.mu.Unlock()
	s.turns.Release(1)
	a.forget(tenants)
}

// forget removes a request from a share.
func (a *Activity) forget(tenants string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.shares[tenants]; s.requests == 1 {
		delete(a.shares, tenants)
	} else {
		s.requests--
	}
}
