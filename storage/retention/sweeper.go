package retention

import (
	"context"
	"sync"
	"time"

	"halite/keyschema"
	"halite/storage/periodic"
)

// Sweeper drops data of rules with a shorter retention than others. See the package comment.
type Sweeper struct {
	opts    Options
	metrics *metrics

	sweeping sync.Mutex
	// changing keeps drops and changes of the retention apart. It guards policies and inForce.
	changing sync.RWMutex
	// policies holds the ages in the GC policies of the tables; nil if they are not known.
	policies *keyschema.RetentionByMetric
	// inForce is the time at which the ages came into force in this process, by its start or by Change.
	inForce time.Time
	stop    context.CancelFunc
	work    sync.WaitGroup
}

// New makes a Sweeper; nothing runs before Start or Sweep. The caller opens the tables with the retention in force.
func New(opts Options) (*Sweeper, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	s := &Sweeper{opts: opts.withDefaults(), policies: opts.Retention.Load()}
	s.inForce = s.opts.Now()
	var err error
	s.metrics, err = newMetrics(s.opts.Registerer, s.policies)
	return s, err
}

// Start sweeps in the background, at once and then at each interval, until Close. A process that gets the lease sweeps at
// its next call of MaySweep, because the previous process may have died during a sweep.
func (s *Sweeper) Start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.work.Go(func() {
		for next := time.Duration(0); periodic.Sleep(ctx, next) == nil; {
			if next = s.opts.CheckInterval; s.opts.MaySweep() {
				s.sweepAndLog(ctx)
				next = s.opts.Interval
			}
		}
	})
}

func (s *Sweeper) sweepAndLog(ctx context.Context) {
	freed, err := s.Sweep(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		s.opts.Logger.Error("dropping data older than its retention failed; the next sweep continues", "err", err)
	case err == nil && freed.Ranges > 0:
		s.opts.Logger.Info("dropped data older than its retention", "metrics_and_days", freed.Ranges, "rows", freed.Rows,
			"bytes", freed.Bytes)
	}
}

// Close stops the background job and waits for it.
func (s *Sweeper) Close() {
	if s.stop != nil {
		s.stop()
		s.work.Wait()
	}
}

// Costs calls Costs with the sweeper's store, rules and clock.
func (s *Sweeper) Costs(ctx context.Context, try Change) ([]Cost, error) {
	return Costs(ctx, s.opts.Store, s.opts.Retention.Load(), s.opts.Now(), try)
}
