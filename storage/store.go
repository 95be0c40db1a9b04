package storage

import "context"

// Store is an open database: a fixed, small set of tables.
type Store interface {
	// EnsureTable creates a table, or checks that the existing table has the same families. It replaces a GC policy that
	// differs. It returns ErrSchemaMismatch if a family is missing on disk or has another kind.
	EnsureTable(ctx context.Context, schema TableSchema) (Table, error)
	// Table returns a table that EnsureTable created, in this process or an earlier one. Otherwise it returns ErrNoTable.
	Table(ctx context.Context, name string) (Table, error)
	// Tables lists the schemas of all tables, sorted by name.
	Tables(ctx context.Context) ([]TableSchema, error)
	// Sync returns when every mutation applied before the call survives power loss.
	Sync(ctx context.Context) error
	// CollectGarbage frees the space of cells that GC policies already hide from reads. It may take long.
	CollectGarbage(ctx context.Context) error
	// Close syncs and releases the store. No other call may run.
	Close() error
}

// Table is a sorted map: row key → family:qualifier → timestamped cells.
type Table interface {
	// Apply applies each mutation atomically. Rows are independent: if some rows fail, Apply applies the others and returns
	// an *ApplyError that names the failed rows. A row whose error wraps ErrUnavailable may have been applied, which matters
	// only if it adds to a sum. The caller may reuse the mutations after Apply returns. Later reads see them. They are
	// durable only after Store.Sync.
	Apply(ctx context.Context, muts []RowMutation) error
	// Load writes many whole rows. muts are sorted by key with unique keys, and all entries are SetCell in plain families.
	// If it can, an engine writes the rows as sorted files, without a memtable or log. All rows become visible together or not
	// at all, unless the engine documents a weaker promise. Then each row becomes visible separately, and a failed Load may
	// leave some rows behind. A caller that must run on every engine keeps its own copy readable until Load returns, and may
	// repeat a failed Load.
	Load(ctx context.Context, muts []RowMutation) error
	// ReadRows returns the rows of the set in key order, descending if opts.Reverse is set. It reads approximately the state
	// at the call. It sees the effect of each mutation on a row completely or not at all.
	ReadRows(ctx context.Context, set RowSet, opts ReadOptions) RowIter
	// CheckAndApply atomically tests whether the row has a cell that passes cond, and applies then or otherwise; either may
	// be empty. It reports whether cond matched. After ErrUnavailable, the row may or may not have changed.
	CheckAndApply(ctx context.Context, key []byte, cond Filter, then, otherwise RowMutation) (matched bool, err error)
	// DropRows removes all rows of the range without reading them. When it returns, reads no longer find them.
	DropRows(ctx context.Context, r RowRange) error
	// Tablets lists contiguous row ranges that cover all keys, with size and load.
	Tablets(ctx context.Context) ([]Tablet, error)
	// Schema returns the schema of the table.
	Schema() TableSchema
}

// RowIter returns rows one by one. The caller calls Next until it returns false, then Err, then Close. A caller that stops
// early also calls Close.
type RowIter interface {
	Next() bool
	// Row is valid until the next call of Next or Close. Copy data that you need longer.
	Row() Row
	Err() error
	Close() error
}
