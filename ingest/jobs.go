package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halite/ingest/deletion"
	"halite/keyschema"
	"halite/storage"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// spaceInterval is the time between two checks of the free disk space and of the size of the log.
const spaceInterval = time.Second

// startJobs starts the background jobs, which Close stops.
func (i *Ingester) startJobs() {
	tuning := i.opts.Head
	if tuning.FlushInterval < 0 {
		return
	}
	job := func(interval time.Duration, wake <-chan struct{}, failed string, run func(ctx context.Context) error) {
		i.jobs.Add(interval, wake, func(ctx context.Context) {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				i.logger.Error(failed, "err", err)
			}
		})
	}
	job(tuning.FlushInterval, i.flusher.Woken(), "flush failed; its samples stay in memory and in the log, the next run retries",
		i.flusher.Step)
	job(tuning.MaintainInterval, nil, "maintenance failed; the next run retries", i.maintain)
	if i.opts.Tombstones != nil {
		i.jobs.Add(deletion.MaintainInterval, nil, i.maintainDeletions)
	}
	i.jobs.Add(spaceInterval, nil, func(context.Context) {
		i.checkSpace()
		i.checkLog()
		i.admission.reportRefused(i.now(), i.log.Stats().Err)
	})
}

// maintain runs the jobs of the index and, once a day, the engine's garbage collection.
func (i *Ingester) maintain(ctx context.Context) error {
	err := i.index.Maintain(ctx)
	err = errors.Join(err, i.collectSeries(ctx), i.expireHistogramMetrics(ctx))
	if day := i.now().UnixMilli() / (keyschema.DayMs); day != i.collectedDay {
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

// expireHistogramMetrics removes a metric from the set of metrics with histograms when its histograms are older than every
// retention. It waits one more day, because rows of that age may still be in memory. With rollups, metrics stay in the set.
// Queries of times that rollups cover then warn that the histograms are missing.
func (i *Ingester) expireHistogramMetrics(ctx context.Context) error {
	oldestMs := i.index.OldestMs()
	if oldestMs == 0 || i.opts.States != nil {
		return nil
	}
	return i.histograms.Expire(ctx, keyschema.HourOf(max(oldestMs-keyschema.DayMs, 0)))
}

// checkSpace checks the reserve and the free space of the log's file system. It sets whether the server refuses writes.
func (i *Ingester) checkSpace() {
	if i.opts.Reserve != nil {
		if err := i.opts.Reserve(); err != nil {
			reason := lowSpace
			if !storage.Exhausted(err) && !errors.Is(err, storage.ErrUnavailable) {
				reason = err.Error()
			}
			i.admission.setSpace(reason, "dir", i.opts.Dir, "err", err)
			return
		}
	}
	if i.opts.FreeBytesMin < 0 {
		i.admission.setSpace("", "dir", i.opts.Dir)
		return
	}
	usage, err := i.opts.FS.GetDiskUsage(i.opts.Dir)
	if err != nil {
		// In-memory file systems report no usage. A disk that does not answer fails writes anyway.
		if !errors.Is(err, vfs.ErrUnsupported) && i.admission.space.Swap(nil) != nil {
			i.logger.Warn("free disk space is unknown", "dir", i.opts.Dir, "err", err)
		}
		return
	}
	reason := ""
	if usage.AvailBytes < uint64(i.opts.FreeBytesMin) {
		reason = lowSpace
	}
	i.admission.setSpace(reason, "dir", i.opts.Dir, "free_bytes", usage.AvailBytes, "needed_bytes", i.opts.FreeBytesMin)
}

// checkLog sets whether a log that cannot be shortened makes the server refuse writes. It wakes the flusher when the log is
// too long.
func (i *Ingester) checkLog() {
	sizeBytes := i.log.Stats().SizeBytes
	if sizeBytes > i.opts.WALBytesMax {
		i.flusher.Wake()
	}
	i.admission.setLogFull(sizeBytes > i.opts.WALBytesMax+i.opts.WALBytesMax/4, sizeBytes, i.opts.WALBytesMax)
}
