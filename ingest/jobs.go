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
	i.every(ctx, i.hopts.FlushInterval, i.flusher.Woken(), func() {
		if err := i.flusher.Step(ctx); err != nil && ctx.Err() == nil {
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

// checkLog sets whether writes are refused because the log cannot be shortened, and wakes the flusher when it is too long.
func (i *Ingester) checkLog() {
	size := i.log.Stats().SizeBytes
	hard := i.opts.WALBytesMax + i.opts.WALBytesMax/4
	if size > i.opts.WALBytesMax {
		i.flusher.Wake()
	}
	if full := size > hard; i.logFull.Swap(full) != full && full {
		i.opts.Logger.Error(fmt.Sprintf("refusing writes: the write-ahead log has %d bytes and cannot be shortened", size),
			"limit_bytes", i.opts.WALBytesMax)
	}
}
