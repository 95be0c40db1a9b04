package tools

import (
	"context"
	"errors"
	"slices"
	"time"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/pebble"
	"halite/storage/pebble/fault"
)

// rebuildIndex moves damaged files of the series index to tables/lost and rebuilds the index of all days with rows.
func (c *verifyConfig) rebuildIndex(ctx context.Context) error {
	v := verification{path: c.path, days: map[int64]bool{}, rollupDays: map[int64]bool{}}
	files, err := pebble.Verify(ctx, v.options(true), v.cell)
	if err != nil {
		return err
	}
	opts := v.options(false)
	opts.AcceptLoss = func(file string) bool {
		return slices.ContainsFunc(files.Damages, func(d fault.Damage) bool {
			return d.File == file && (d.Table == storage.TableSeries || d.Table == storage.TableLabels)
		})
	}
	store, err := pebble.Open(opts)
	if err != nil {
		return err
	}
	for _, d := range store.Lost() {
		for day := d.FirstDay; day <= d.LastDay; day++ {
			v.rollupDays[int64(day)] = true
		}
	}
	if err := v.rebuild(ctx, store); err != nil {
		return errors.Join(err, store.Close())
	}
	return errors.Join(store.Sync(ctx), settleIndex(store), store.Close())
}

// settleIndex confirms the losses if all of them are files of the series index. Other losses wait for the server.
func settleIndex(store *pebble.Store) error {
	for _, d := range store.Lost() {
		if d.Table != storage.TableSeries && d.Table != storage.TableLabels {
			return nil
		}
	}
	return store.ConfirmLosses()
}

// rebuild makes the index of all days with samples from the row keys. It also makes the index of days with rollups only, if the
// index is unknown. It adds the series of the log first, because a row may exist without its long label set.
func (v *verification) rebuild(ctx context.Context, store storage.Store) error {
	x, err := v.openIndex(ctx, store, func(opts index.Options) (*index.Index, error) {
		retention, err := indexRetention(ctx, store)
		if err != nil {
			return nil, err
		}
		opts.Retention = keyschema.KeepFor(retention)
		return index.Open(ctx, opts)
	})
	if err != nil || x == nil {
		return err
	}
	if err := v.log(x); err != nil {
		return err
	}
	known := x.Days()
	for day := range v.rollupDays {
		if !slices.Contains(known, day) {
			v.days[day] = true
		}
	}
	for day := range v.days {
		if err := x.Rebuild(ctx, day, day); err != nil {
			return err
		}
	}
	return x.Persist(ctx)
}

// indexRetention returns the retention of the server's last run.
func indexRetention(ctx context.Context, store storage.Store) (time.Duration, error) {
	table, err := store.Table(ctx, storage.TableSeries)
	if errors.Is(err, storage.ErrNoTable) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, f := range table.Schema().Families {
		if f.GC.MaxAge > 0 {
			return f.GC.MaxAge - 24*time.Hour, nil // see storage.IndexSchema
		}
	}
	return 0, nil
}
