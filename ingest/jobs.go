package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halite/keyschema"
)

// spaceInterval is the time between two looks at the free disk space and the size of the log.
const spaceInterval = time.Second

// startJobs starts the goroutines that Close ends.
func (i *Ingester) startJobs() {
	ctx, stop := context.WithCancel(context.Background())
	i.stopJobs = stop
	if i.hopts.FlushInterval < 0 {
		return
	}
	i.every(ctx, i.hopts.FlushInterval, i.wake, func() {
		if err := i.step(ctx); err != nil && ctx.Err() == nil {
			i.opts.Logger.Error("flush failed; its samples stay in memory and in the log, the next run retries", "err", err)
		}
	})
	i.every(ctx, spaceInterval, nil, func() { i.checkSpace(); i.checkLog(); i.reportRefused(i.opts.Now()) })
	i.every(ctx, i.hopts.MaintainInterval, nil, func() {
		if err := i.maintain(ctx); err != nil && ctx.Err() == nil {
			i.opts.Logger.Error("maintenance failed; the next run retries", "err", err)
		}
	})
}

// wakeFlusher makes the flush job look at once. It never blocks.
func (i *Ingester) wakeFlusher() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// step is one run of the flush job: rows that are due, memory pressure, the log's length and truncation.
func (i *Ingester) step(ctx context.Context) error {
	i.flushMu.Lock()
	defer i.flushMu.Unlock()
	now := i.opts.Now()
	// Wake-ups must not let rows look idle sooner: ticks follow the clock.
	i.head.SetTick(i.tickAt(now))
	err := i.flushDue(ctx, now)
	_, relieveErr := i.relieve(ctx)
	if err = errors.Join(err, relieveErr, i.shorten(ctx)); err != nil {
		return err
	}
	if !i.unsynced || now.Sub(i.checkpointed) < i.hopts.CheckpointInterval {
		return nil
	}
	if err := i.checkpoint(ctx, false); err != nil {
		return err
	}
	i.checkpointed = now
	return nil
}

// tickAt counts flush intervals since the start.
func (i *Ingester) tickAt(now time.Time) uint32 {
	interval := i.hopts.FlushInterval
	if interval < 0 {
		interval = time.Second
	}
	return uint32(max(0, now.Sub(i.started)/interval))
}

// maintain runs the catalogue's upkeep and, once a day, the engine's garbage collection.
func (i *Ingester) maintain(ctx context.Context) error {
	err := i.opts.Index.Maintain(ctx)
	err = errors.Join(err, i.retire(ctx), i.settlePending(ctx))
	if day := i.opts.Now().UnixMilli() / (keyschema.HourMs * keyschema.DayHours); day != i.collectedDay {
		collectErr := i.opts.Store.CollectGarbage(ctx)
		if collectErr == nil {
			i.collectedDay = day
		} else {
			err = errors.Join(err, fmt.Errorf("collect garbage: %w", collectErr))
		}
	}
	if err != nil {
		i.metrics.maintFails.Inc()
	}
	return err
}
