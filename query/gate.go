package query

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// gate lets a fixed number of queries in and makes the others wait a while.
type gate struct {
	places   chan struct{}
	wait     time.Duration
	queueMax int64
	queued   atomic.Int64
	metrics  *metrics
}

func newGate(o Options, m *metrics) *gate {
	return &gate{
		places: make(chan struct{}, o.ConcurrencyMax), wait: o.QueueWait, queueMax: int64(o.QueueMax), metrics: m,
	}
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
	defer g.queued.Add(-1)
	if g.queued.Add(1) > g.queueMax {
		return g.busy(fmt.Sprintf("%d queries wait for one of %d places already (query.max-queue)", g.queueMax, cap(g.places)))
	}
	g.metrics.queued.Inc()
	defer g.metrics.queued.Dec()
	timer := time.NewTimer(g.wait)
	defer timer.Stop()
	select {
	case g.places <- struct{}{}:
		return nil
	case <-timer.C:
		return g.busy(fmt.Sprintf("none of %d places (query.max-concurrency) became free within %s (query.queue-wait)",
			cap(g.places), g.wait))
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) busy(why string) error {
	return &Error{Type: ErrorUnavailable, Err: fmt.Errorf("%w: %s", ErrBusy, why)}
}
