package storage

import "context"

// Store is an open database: a fixed, small set of tables.
type Store interface {
	// EnsureTable creates the table or checks that the existing one has the same families; a GC policy may differ and is
	// then replaced. It returns ErrSchemaMismatch when a family is missing on disk or changed its kind.
	EnsureTable(ctx context.Context, schema TableSchema) (Table, error)
	// Table returns a table made earlier by EnsureTable in this or a former process, else ErrNoTable.
	Table(ctx context.Context, name string) (Table, error)
	// Tables lists the schemas of all tables, sorted by name.
	Tables(ctx context.Context) ([]TableSchema, error)
	// Sync returns once every mutation applied before the call survives power loss.
	Sync(ctx context.Context) error
	// CollectGarbage frees space of cells that GC policies have already hidden from reads. It may take long.
	CollectGarbage(ctx context.Context) error
	// Close syncs and releases the store. No call may be under way.
	Close() error
}

// Table is a sorted map: row key → family:qualifier → timestamped cells.
type Table interface {
	// Apply applies each mutation atomically; rows are independent of each other. If some rows fail it applies the rest
	// and returns an *ApplyError that names them; a row whose error wraps ErrUnavailable may have been applied all the same,
	// which matters only where it adds to a sum. The mutations may be reused once it has returned. Reads that start
	// afterwards see them; they are durable only after Store.Sync.
	Apply(ctx context.Context, muts []RowMutation) error
	// Load is Apply for many whole rows at once: muts sorted by key, keys unique, SetCell only, plain families only.
	// Engines that can, write the rows as sorted files without passing through a memtable or log.
	// All rows become visible together or not at all, unless the engine says in its documentation that it cannot: then each
	// row becomes visible by itself, and a failed Load may leave some rows behind. A caller that must run on every engine
	// keeps its own copy readable until Load has returned, and may repeat a Load that failed.
	Load(ctx context.Context, muts []RowMutation) error
	// ReadRows returns the rows of the set in key order (descending if opts.Reverse) as of about now: a row is always
	// seen whole or not at all with respect to each single mutation.
	ReadRows(ctx context.Context, set RowSet, opts ReadOptions) RowIter
	// CheckAndApply atomically tests whether the row has a cell that passes cond and applies then or otherwise
	// (either may be empty). It reports whether cond matched. After ErrUnavailable the row may have changed or not.
	CheckAndApply(ctx context.Context, key []byte, cond Filter, then, otherwise RowMutation) (matched bool, err error)
	// DropRows removes all rows of the range, cheaply and at once visible to reads.
	DropRows(ctx context.Context, r RowRange) error
	// Tablets lists contiguous row ranges that cover the whole key space, with size and load.
	Tablets(ctx context.Context) ([]Tablet, error)
	// Schema returns the schema the table was opened with.
	Schema() TableSchema
}

// RowIter yields rows. Call Next until it returns false, then Err, then Close (also when stopping early).
type RowIter interface {
	Next() bool
	// Row is valid until the next call of Next or Close; copy what must outlive it.
	Row() Row
	Err() error
	Close() error
}
