package query

import (
	"context"
	"time"
)

// gate lets a fixed number of queries in and makes the others wait a while.
type gate struct {
	places  chan struct{}
	wait    time.Duration
	metrics *metrics
}

func newGate(places int, wait time.Duration, m *metrics) *gate {
	return &gate{places: make(chan struct{}, places), wait: wait, metrics: m}
}

// enter returns once a place is free; leave gives it back. It fails with ErrBusy or with the error of ctx.
func (g *gate) enter(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case g.places <- struct{}{}:
	default:
		if err := g.queue(ctx); err != nil {
			return nil, err
		}
	}
	g.metrics.active.Inc()
	return func() {
		g.metrics.active.Dec()
		<-g.places
	}, nil
}

func (g *gate) queue(ctx context.Context) error {
	g.metrics.queued.Inc()
	defer g.metrics.queued.Dec()
	timer := time.NewTimer(g.wait)
	defer timer.Stop()
	select {
	case g.places <- struct{}{}:
		return nil
	case <-timer.C:
		return &Error{Type: ErrorUnavailable, Err: ErrBusy}
	case <-ctx.Done():
		return ctx.Err()
	}
}
