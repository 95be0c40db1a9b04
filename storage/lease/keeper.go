package lease

import (
	"context"
	"log/slog"
	"sync/atomic"

	"halite/storage/periodic"
)

// Keeper takes a lease as soon as it is free and keeps it until Close. Only one goroutine at a time may call Renew or Close.
// Any goroutine may call Held.
type Keeper struct {
	lease   *Lease
	log     *slog.Logger
	untilMs atomic.Int64 // end of the lease, 0 if another process holds it
	jobs    periodic.Jobs
}

// NewKeeper returns a keeper, which does nothing before Start or Renew. A nil logger discards.
func NewKeeper(opts Options, log *slog.Logger) (*Keeper, error) {
	l, err := New(opts)
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Keeper{lease: l, log: log.With("lease", opts.Name)}, nil
}

// Held reports whether this process holds the lease, by its own clock.
func (k *Keeper) Held() bool {
	leftMs := k.untilMs.Load() - k.lease.opts.Now().UnixMilli()
	return leftMs > 0 && leftMs <= k.lease.opts.TTL.Milliseconds() // more is left only after the clock was set back
}

// Renew takes or renews the lease, and reports whether this process holds it. After an error, an earlier lease lasts until
// its end.
func (k *Keeper) Renew(ctx context.Context) (bool, error) {
	before, began := k.Held(), k.lease.opts.Now()
	held, err := k.lease.Hold(ctx)
	if err != nil {
		return k.Held(), err
	}
	until := int64(0)
	if held {
		until = began.Add(k.lease.opts.TTL).UnixMilli()
	}
	k.untilMs.Store(until)
	if held != before {
		k.log.Info("lease", "held", held)
	}
	return held, nil
}

// Start takes the lease and renews it three times per TTL until Close.
func (k *Keeper) Start() {
	interval := k.lease.opts.TTL / 3
	if k.Held() {
		k.jobs.Add(interval, nil, k.renewAndLog)
	} else {
		k.jobs.AddNow(interval, k.renewAndLog)
	}
}

func (k *Keeper) renewAndLog(ctx context.Context) {
	if _, err := k.Renew(ctx); err != nil && ctx.Err() == nil {
		k.log.Error("renewing a lease failed; the keeper tries again", "err", err)
	}
}

// Close stops renewing and releases the lease.
func (k *Keeper) Close(ctx context.Context) (err error) {
	k.jobs.Stop()
	k.jobs.Wait()
	if k.Held() {
		err = k.lease.Release(ctx)
	}
	k.untilMs.Store(0)
	return err
}
