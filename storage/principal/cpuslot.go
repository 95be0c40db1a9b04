package principal

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// share has the CPU slots of one tenant.
type share struct {
	slots    *semaphore.Weighted // first come, first served
	requests int                 // requests that hold a slot or wait for one
}

// CPUSlot lets a request of a tenant use a CPU while other tenants are active. A request holds its slot while it parses,
// stores, evaluates or encodes. It releases the slot while it waits for a client, a disk or a queue. A nil CPUSlot has no
// effect: its request shares no CPU with another tenant. A CPUSlot is safe for concurrent use.
type CPUSlot struct {
	activity *Activity
	tenants  string

	mu    sync.Mutex // held while the request waits, so that all its goroutines wait
	held  bool
	since time.Time
}

// timeSlice is the time after which a request yields its slot to other requests of the tenant. Go's scheduler gives a
// goroutine the same time if others wait.
const timeSlice = 10 * time.Millisecond

// AcquireCPU waits for a CPU slot of the tenant, in the order of the calls. It returns nil at once if no other tenant is
// active. It fails with the error of ctx. The caller releases the slot.
func (p *Principal) AcquireCPU(ctx context.Context) (*CPUSlot, error) {
	if !p.Shares() {
		return nil, nil
	}
	s := &CPUSlot{activity: p.activity, tenants: p.Tenancy()}
	return s, s.Acquire(ctx)
}

// Release gives the slot to the tenant's next request. Another call has no effect.
func (s *CPUSlot) Release() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
}

func (s *CPUSlot) release() {
	if s.held {
		s.held = false
		s.activity.release(s.tenants)
	}
}

// Acquire waits for a slot again after Release. It fails with the error of ctx. The request then holds no slot.
func (s *CPUSlot) Acquire(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acquire(ctx)
}

func (s *CPUSlot) acquire(ctx context.Context) error {
	if s.held {
		return nil
	}
	err := s.activity.acquire(ctx, s.tenants)
	s.held, s.since = err == nil, s.activity.now()
	return err
}

// Yield gives the slot to other waiting requests of the tenant if this request has held it for timeSlice. Long work calls it
// often, so that a slow query does not stop the tenant's writes. It fails with the error of ctx. The request then holds no
// slot.
func (s *CPUSlot) Yield(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held || s.activity.now().Sub(s.since) < timeSlice {
		return nil
	}
	s.release()
	return s.acquire(ctx)
}

// acquire waits for a slot of a tenant.
func (a *Activity) acquire(ctx context.Context, tenants string) error {
	a.mu.Lock()
	s := a.shares[tenants]
	if s == nil {
		s = &share{slots: semaphore.NewWeighted(int64(a.slotsMax))}
		a.shares[tenants] = s
	}
	s.requests++
	a.mu.Unlock()
	err := s.slots.Acquire(ctx, 1)
	if err != nil {
		a.leave(tenants)
	}
	return err
}

// release gives a slot to the next request that waits.
func (a *Activity) release(tenants string) {
	a.mu.Lock()
	s := a.shares[tenants]
	a.mu.Unlock()
	s.slots.Release(1)
	a.leave(tenants)
}

// leave removes a request from a share.
func (a *Activity) leave(tenants string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.shares[tenants]; s.requests == 1 {
		delete(a.shares, tenants)
	} else {
		s.requests--
	}
}
