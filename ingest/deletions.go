package ingest

import (
	"context"

	"halite/ingest/deletion"
)

// newDeleter returns what deletes samples. The head, the log and the flusher are open.
func (i *Ingester) newDeleter() *deletion.Deleter {
	return deletion.New(deletion.Options{
		Index: i.opts.Index, Schema: i.opts.Schema, Store: i.opts.Store, Data: i.data, Tombstones: i.opts.Tombstones,
		States: i.opts.States, Head: i.head, Log: i.log, Sequence: i.sequence, Flusher: i.flusher, Announce: i.opts.Deleting,
		Changed: i.ChangedTimes, Now: i.opts.Now, Logger: i.opts.Logger, Metrics: i.metrics.deletions,
	})
}

// enterDeletion is Enter for a request about deletions.
func (i *Ingester) enterDeletion() error {
	if i.opts.Tombstones == nil {
		return deletion.ErrUnsupported
	}
	return i.Enter()
}

// DeleteSeries deletes samples: see deletion.Deleter.Delete. The caller may repeat a deletion that failed with
// storage.ErrUnavailable.
func (i *Ingester) DeleteSeries(ctx context.Context, r deletion.Request) (series int, err error) {
	if err := i.enterDeletion(); err != nil {
		return 0, err
	}
	defer i.Exit()
	series, err = i.deleter.Delete(ctx, r)
	return series, retryable(err)
}

// CountDeletion counts what DeleteSeries would delete, and deletes nothing. It reads all of it.
func (i *Ingester) CountDeletion(ctx context.Context, r deletion.Request) (deletion.Count, error) {
	if err := i.enterDeletion(); err != nil {
		return deletion.Count{}, err
	}
	defer i.Exit()
	return i.deleter.Count(ctx, r)
}

// CleanTombstones removes deleted samples from the tables: see deletion.Deleter.Clean.
func (i *Ingester) CleanTombstones(ctx context.Context) (deletion.Report, error) {
	if err := i.enterDeletion(); err != nil {
		return deletion.Report{}, err
	}
	defer i.Exit()
	report, err := i.deleter.Clean(ctx)
	return report, retryable(err)
}

// maintainDeletions removes hours without samples from the index after deletions.
func (i *Ingester) maintainDeletions(ctx context.Context) {
	if err := i.deleter.Maintain(ctx); err != nil && ctx.Err() == nil {
		i.metrics.maintFails.Inc()
		i.opts.Logger.Error("lists of series may show series whose samples were deleted; the next run retries", "err", err)
	}
}
