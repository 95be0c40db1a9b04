package deletion

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/index/presence"
	"halite/storage/tombstone"
)

// ErrLeft means that rows or series of a dropped tenant remain.
var ErrLeft = errors.New("data of the dropped tenant remains")

// ofTenant selects all series of a tenant other than the default one.
func ofTenant(tenant string) Request {
	pattern := regexp.QuoteMeta(keyschema.TenantPrefix(tenant)) + ".+"
	return Request{
		Selectors: [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, pattern)}},
		ToMs:      keyschema.TimeMaxMs, Everything: true,
	}
}

// tenantRows are the rows of a tenant in the tables of samples and of rollups.
func tenantRows(tenant string) storage.RowRange {
	start, end := keyschema.TenantRows(tenant)
	return storage.RowRange{Start: start, End: end}
}

// TenantSeries lists the series of a tenant other than the default one.
func (d *Deleter) TenantSeries(ctx context.Context, tenant string) ([]index.Series, error) {
	return d.scanner().Select(ctx, ofTenant(tenant))
}

// DropTenant removes all series of a tenant other than the default one, with their samples and rollups. When it returns, the
// removal is durable and no reader finds any data. The caller blocks the tenant's writes. After an error, the caller repeats
// the call. It returns the number of series.
func (d *Deleter) DropTenant(ctx context.Context, tenant string) (series int, err error) {
	// The tombstone comes first. So readers see all data of the tenant or none, and a replay of the log restores nothing.
	if series, err = d.Delete(ctx, ofTenant(tenant)); err != nil {
		return 0, err
	}
	d.cleanMu.Lock()
	defer d.cleanMu.Unlock()
	view, err := d.opts.Tombstones.SnapshotExclusive(ctx)
	if err != nil {
		return 0, err
	}
	done := tombstonesOf(view.List(), tenant)
	view.Release()
	if err := d.dropTenantRows(ctx, tenant); err != nil {
		return 0, fmt.Errorf("drop the rows of tenant %q: %w", tenant, err)
	}
	if err := d.dropTenantHours(ctx, tenant); err != nil {
		return 0, fmt.Errorf("drop tenant %q from the index: %w", tenant, err)
	}
	if err := d.opts.Store.Sync(ctx); err != nil {
		return 0, fmt.Errorf("sync the tables: %w", err)
	}
	if _, err := d.opts.Tombstones.Drop(ctx, done); err != nil {
		return 0, err
	}
	if err := d.reclaim(ctx, []storage.RowRange{tenantRows(tenant)}, 0, keyschema.TimeMaxMs/storage.DayMs); err != nil {
		return 0, err
	}
	return series, d.checkDropped(ctx, tenant)
}

// tombstonesOf returns the ids of the tombstones that concern only the tenant's series.
func tombstonesOf(list []*tombstone.Tombstone, tenant string) (ids []uint64) {
	for _, t := range list {
		metrics, tenants, ok := tombstone.Names(t.Selectors)
		for _, metric := range metrics {
			prefix, _ := keyschema.SplitTenant(metric)
			tenants = append(tenants, keyschema.TenantOf(prefix))
		}
		if ok && !slices.ContainsFunc(tenants, func(other string) bool { return other != tenant }) {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// dropTenantRows removes the rows of samples and rollups. The caller holds cleanMu.
func (d *Deleter) dropTenantRows(ctx context.Context, tenant string) error {
	rows := tenantRows(tenant)
	// Rollups go first, because dropped samples would make each of them dirty.
	if err := d.dropStates(ctx, rows); err != nil {
		return err
	}
	d.opts.Flusher.Lock()
	err := d.opts.Data.DropRows(ctx, rows)
	d.opts.Flusher.MarkUnsynced()
	d.opts.Flusher.Unlock()
	if err != nil || d.opts.States == nil {
		return err
	}
	// A pass of the rollup job that began earlier may still write states. This call waits for it.
	if err := d.opts.States.ApplyDeletions(ctx); err != nil {
		return err
	}
	return d.dropStates(ctx, rows)
}

// dropStates removes rows of rollups.
func (d *Deleter) dropStates(ctx context.Context, rows storage.RowRange) error {
	if d.opts.States != nil {
		return d.opts.States.DropRows(ctx, rows)
	}
	table, err := d.opts.Tombstones.Base().Table(ctx, storage.TableRollup)
	if errors.Is(err, storage.ErrNoTable) {
		return nil
	}
	if err != nil {
		return err
	}
	return table.DropRows(ctx, rows)
}

// dropTenantHours removes all hours of the tenant from the index. The tenant's rows are gone, and no sample is unflushed.
func (d *Deleter) dropTenantHours(ctx context.Context, tenant string) error {
	return d.opts.Index.RemoveHours(ctx, index.HourRemoval{
		Last:     keyschema.HourMax,
		Matchers: func(int64) [][]*labels.Matcher { return ofTenant(tenant).Selectors },
		Emptied: func(_ context.Context, series []index.Series) ([][]presence.Span, error) {
			hours := make([][]presence.Span, len(series))
			for n := range series {
				hours[n] = series[n].Hours
			}
			return hours, nil
		},
		Flushes: d.opts.Flusher,
	})
}

// checkDropped returns ErrLeft if data of the tenant remains.
func (d *Deleter) checkDropped(ctx context.Context, tenant string) error {
	found, err := d.TenantSeries(ctx, tenant)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("%w: the index lists %d series of %q", ErrLeft, len(found), tenant)
	}
	rows := storage.RowSet{Ranges: []storage.RowRange{tenantRows(tenant)}}
	for _, name := range []string{storage.TableData, storage.TableRollup} {
		table, err := d.opts.Tombstones.Base().Table(ctx, name)
		if errors.Is(err, storage.ErrNoTable) {
			continue
		}
		if err != nil {
			return err
		}
		has, err := storage.HasRow(ctx, table, rows, storage.Filter{KeysOnly: true})
		if err != nil {
			return err
		}
		if has {
			return fmt.Errorf("%w: table %s has rows of %q", ErrLeft, name, tenant)
		}
	}
	return nil
}
