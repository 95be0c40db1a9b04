package storage

import "context"

// WrapData returns a store that wraps the table TableData of s and passes everything else to s. It calls wrap each time
// that a caller opens the table, so wrap must be safe for concurrent use.
func WrapData(s Store, wrap func(Table) Table) Store { return &wrappedStore{s, wrap} }

type wrappedStore struct {
	Store
	wrap func(Table) Table
}

// EnsureTable implements Store.
func (s *wrappedStore) EnsureTable(ctx context.Context, schema TableSchema) (Table, error) {
	return s.wrapped(s.Store.EnsureTable(ctx, schema))
}

// Table implements Store.
func (s *wrappedStore) Table(ctx context.Context, name string) (Table, error) {
	return s.wrapped(s.Store.Table(ctx, name))
}

func (s *wrappedStore) wrapped(t Table, err error) (Table, error) {
	if err != nil || t.Schema().Name != TableData {
		return t, err
	}
	return s.wrap(t), nil
}
