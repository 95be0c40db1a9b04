package retention

import (
	"context"
	"sync"
	"time"

	"halite/storage/periodic"
)

// Sweeper frees the space of what rules keep shorter than others. See the package comment.
type Sweeper struct {
	opts    Options
	metrics *metrics

	sweeping sync.Mutex
	stop     context.CancelFunc
	work     sync.WaitGroup
}

// New makes a Sweeper; nothing runs before Start or Sweep.
func New(opts Options) (*Sweeper, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	s := &Sweeper{opts: opts.withDefaults()}
	var err error
	s.metrics, err = newMetrics(s.opts.Registerer, s.opts.Ages)
	return s, err
}

// Start sweeps in the background, at once and then at each interval, until Close. Who gets the turn from another process
// sweeps when it has asked next: that process may have died in the middle of a sweep.
func (s *Sweeper) Start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.work.Go(func() {
		for next := time.Duration(0); periodic.Sleep(ctx, next) == nil; {
			if next = s.opts.TurnInterval; s.opts.Turn() {
				s.sweepAndTell(ctx)
				next = s.opts.Interval
			}
		}
	})
}

func (s *Sweeper) sweepAndTell(ctx context.Context) {
	freed, err := s.Sweep(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		s.opts.Logger.Error("freeing what is too old failed; the next run goes on", "err", err)
	case err == nil && freed.Ranges > 0:
		s.opts.Logger.Info("dropped what is older than its metric is kept", "metrics_and_days", freed.Ranges, "rows", freed.Rows,
			"bytes", freed.Bytes)
	}
}

// Close ends the background job and waits for it.
func (s *Sweeper) Close() {
	if s.stop != nil {
		s.stop()
		s.work.Wait()
	}
}

// Costs is the package's Costs of the sweeper's store, rules and clock.
func (s *Sweeper) Costs(ctx context.Context, try WhatIf) ([]Cost, error) {
	return Costs(ctx, s.opts.Store, s.opts.Ages, s.opts.Now(), try)
}
