package widerows

import (
	"context"

	"halite/storage"
)

// Store wraps s so that the watch sees the writes to its data table.
func (w *Watch) Store(s storage.Store) storage.Store { return &watchedStore{s, w} }

type watchedStore struct {
	storage.Store
	watch *Watch
}

// EnsureTable implements storage.Store.
func (s *watchedStore) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	return s.watched(s.Store.EnsureTable(ctx, schema))
}

// Table implements storage.Store.
func (s *watchedStore) Table(ctx context.Context, name string) (storage.Table, error) {
	return s.watched(s.Store.Table(ctx, name))
}

func (s *watchedStore) watched(t storage.Table, err error) (storage.Table, error) {
	if err != nil || t.Schema().Name != storage.TableData {
		return t, err
	}
	return &watchedTable{t, s.watch}, nil
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
	for i := 0; i < len(muts) && err == nil; i++ {
		t.watch.note(&muts[i])
	}
	return err
}

var (
	_ storage.Store = (*watchedStore)(nil)
	_ storage.Table = (*watchedTable)(nil)
)
