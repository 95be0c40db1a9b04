package widerows

import (
	"context"

	"halite/storage"
)

// Store wraps s so that the watch sees the writes to its data table.
func (w *Watch) Store(s storage.Store) storage.Store {
	return storage.WrapData(s, func(t storage.Table) storage.Table { return &watchedTable{t, w} })
}

type watchedTable struct {
	storage.Table
	watch *Watch
}

// Apply implements storage.Table.
func (t *watchedTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	return t.written(muts, t.Table.Apply(ctx, muts))
}

// Load implements storage.Table.
func (t *watchedTable) Load(ctx context.Context, muts []storage.RowMutation) error {
	return t.written(muts, t.Table.Load(ctx, muts))
}

func (t *watchedTable) written(muts []storage.RowMutation, err error) error {
	if err != nil {
		return err
	}
	for i := range muts {
		t.watch.note(&muts[i])
	}
	return nil
}

var _ storage.Table = (*watchedTable)(nil)
