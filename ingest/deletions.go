package ingest

import (
	"context"
	"errors"
	"fmt"

	"halite/ingest/deletion"
	"halite/ingest/wal"
	"halite/ingest/wal/record"
	"halite/keyschema"
	"halite/storage/tombstone"
)

// newDeleter returns the deleter of samples. The head, the log and the flusher must be open.
func (i *Ingester) newDeleter() *deletion.Deleter {
	return deletion.New(deletion.Options{
		Index: i.index, Schema: i.opts.Schema, Store: i.opts.Store, Data: i.data, Tombstones: i.opts.Tombstones,
		States: i.opts.States, Head: i.head, Log: i.log, Sequence: i.sequence, Flusher: i.flusher, Announce: i.opts.Deleting,
		Changed: i.ChangedTimes, Now: i.now, Logger: i.logger, Metrics: i.metrics.deletions,
	})
}

// enterDeletion is Enter for requests that delete samples or clean tombstones.
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

// CountDeletion counts the samples that DeleteSeries would delete. It deletes nothing, but it reads all these samples.
func (i *Ingester) CountDeletion(ctx context.Context, r deletion.Request) (deletion.Count, error) {
	if err := i.enterDeletion(); err != nil {
		return deletion.Count{}, err
	}
	defer i.Exit()
	return i.deleter.Count(ctx, r)
}

// Cleaning returns the progress of the running CleanTombstones, or nil if none runs.
func (i *Ingester) Cleaning() *deletion.Progress { return i.deleter.Cleaning() }

// CleanTombstones removes deleted samples from the tables: see deletion.Deleter.Clean.
func (i *Ingester) CleanTombstones(ctx context.Context) (deletion.Report, error) {
	if err := i.enterDeletion(); err != nil {
		return deletion.Report{}, err
	}
	defer i.Exit()
	report, err := i.deleter.Clean(ctx)
	return report, retryable(err)
}

// TenantContent counts the contents of a tenant.
type TenantContent struct {
	// Series counts the tenant's series. Metrics counts its metrics with descriptions.
	Series, Metrics int
}

// CountTenant counts what DropTenant would remove.
func (i *Ingester) CountTenant(ctx context.Context, tenant string) (c TenantContent, err error) {
	if err := i.enterDeletion(); err != nil {
		return c, err
	}
	defer i.Exit()
	found, err := i.deleter.TenantSeries(ctx, tenant)
	return TenantContent{Series: len(found), Metrics: i.metadata.ofTenant(keyschema.TenantPrefix(tenant))}, err
}

// DropTenant removes everything of a tenant other than the default one from head, log, index and tables. It refuses the
// tenant's writes from its start until ReopenTenant. It is durable when it returns. After an error or a crash, the caller
// repeats it.
func (i *Ingester) DropTenant(ctx context.Context, tenant string) (series int, err error) {
	if err := i.enterDeletion(); err != nil {
		return 0, err
	}
	defer i.Exit()
	prefix := keyschema.TenantPrefix(tenant)
	if err := i.tenants.ForPrefix(prefix).Close(ctx); err != nil {
		return 0, err
	}
	if series, err = i.deleter.DropTenant(ctx, tenant); err != nil {
		return 0, retryable(err)
	}
	if err := i.dropMetadata(ctx, prefix); err != nil {
		return 0, err
	}
	if err := i.histograms.DropTenant(ctx, prefix); err != nil {
		return 0, err
	}
	if err := i.dropElections(ctx, prefix); err != nil {
		return 0, err
	}
	// The log still holds metadata of the tenant. A crash would restore it unless the log is empty.
	return series, retryable(i.removeTenantSeries(ctx, prefix))
}

// dropMetadata removes the descriptions of a tenant's metrics while nothing writes descriptions to the tables.
func (i *Ingester) dropMetadata(ctx context.Context, prefix string) error {
	i.flusher.Lock()
	defer i.flusher.Unlock()
	return i.metadata.dropTenant(ctx, prefix)
}

// maintainDeletions removes hours without samples from the index after deletions.
func (i *Ingester) maintainDeletions(ctx context.Context) {
	if err := i.deleter.Maintain(ctx); err != nil && ctx.Err() == nil {
		i.metrics.maintFails.Inc()
		i.logger.Error("lists of series may show series whose samples were deleted; the next run retries", "err", err)
	}
}

// errDeletionsUnknown means that the log has deletions but Options.Tombstones is nil.
var errDeletionsUnknown = errors.New("the write-ahead log has deletions, which are not supported here")

// deletion applies a deletion record. The head already holds the samples written before the deletion. Samples written after
// it follow in the log.
func (p *replay) deletion(payload []byte, pos wal.Position) error {
	d, err := record.ParseDeletion(payload)
	if err != nil {
		return fmt.Errorf("%w at %s", err, pos)
	}
	if p.i.opts.Tombstones == nil {
		return fmt.Errorf("%w, at %s", errDeletionsUnknown, pos)
	}
	for _, log := range d.Refs {
		if ref := p.ref(log); ref != 0 && ref != retiredRef {
			p.deleted = append(p.deleted, ref)
		}
	}
	if !d.Last {
		return nil
	}
	refs := p.deleted
	p.deleted = nil
	if err := p.endRelief(); err != nil { // a deletion must wait for flushes
		return err
	}
	t, err := tombstone.Parse(d.Tombstone)
	if err != nil {
		return fmt.Errorf("%w at %s", err, pos)
	}
	return p.i.deleter.Replay(p.ctx, t, refs)
}

// cleanIndex removes the hours that replay added to the index for deleted samples. After an error maintenance retries. Until then
// the index lists too many hours.
func (p *replay) cleanIndex() error {
	if p.i.opts.Tombstones == nil {
		return nil
	}
	err := p.i.deleter.CleanIndex(p.ctx)
	if err != nil && p.ctx.Err() == nil {
		p.i.logger.Error("lists of series may show series whose samples were deleted", "err", err)
		return nil
	}
	return err
}
