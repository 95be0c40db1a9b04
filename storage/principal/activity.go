package principal

import (
	"runtime"
	"sync"
	"time"
)

// activeFor is the time after its last request for which a tenant counts as active.
const activeFor = 30 * time.Second

// Activity records which tenants were active last. It is safe for concurrent use.
type Activity struct {
	now      func() time.Time
	slotsMax int

	mu sync.Mutex
	// shares has the tenants that hold CPU slots.
	shares map[string]*share
	// latest is the last request. other is the last request of any other tenant.
	latest, other seen
}

// seen is the last request of a tenant.
type seen struct {
	tenants string
	at      time.Time
}

// NewActivity returns an Activity with a clock. slotsMax bounds the CPU slots of a tenant while others are active; 0 means three
// quarters of the CPUs, at least one.
func NewActivity(now func() time.Time, slotsMax int) *Activity {
	if slotsMax == 0 {
		slotsMax = max(1, runtime.GOMAXPROCS(0)*3/4)
	}
	return &Activity{now: now, slotsMax: slotsMax, shares: map[string]*share{}}
}

// For records a request of the Principal and returns the Principal with the Activity, for Shares. It returns a Principal
// without tenants unchanged.
func (a *Activity) For(p *Principal) *Principal {
	tenants := p.Tenancy()
	if a == nil || tenants == "" {
		return p
	}
	a.mu.Lock()
	if a.latest.tenants != tenants {
		a.other = a.latest
	}
	a.latest = seen{tenants, a.now()}
	a.mu.Unlock()
	own := *p
	own.activity = a
	return &own
}

// Shares reports whether another tenant was active within the last 30 seconds. Then a tenant uses less of the server.
func (p *Principal) Shares() bool {
	if p == nil || p.activity == nil {
		return false
	}
	a, tenants := p.activity, p.Tenancy()
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.latest
	if last.tenants == tenants {
		last = a.other
	}
	return last.tenants != "" && a.now().Sub(last.at) < activeFor
}
