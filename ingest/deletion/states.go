package deletion

import (
	"context"

	rollupstore "halite/rollup/store"
	"halite/storage"
)

// States are rollup states. They are computed from samples, and retention may keep them longer than the
// samples.
type States interface {
	// ApplyDeletions makes all states durably reflect the deletions made so far. Then their tombstones may be dropped. If
	// several servers share the tables, it may leave some deletions for later.
	ApplyDeletions(ctx context.Context) error
	// DeletionHorizon returns the last deletion that all states reflect, now and in future.
	DeletionHorizon(ctx context.Context) (id uint64, err error)
	// CountOrphans counts the states from day first to day last whose samples retention has dropped and that a deletion
	// would remove. has reports whether series i has a row of an hour.
	CountOrphans(
		ctx context.Context, prefixes [][]byte, first, last, fromMs, toMs int64, has func(i int, hour int64) bool,
	) (rollupstore.Orphans, error)
	// HasStates marks the hours in queries that have a state with samples.
	HasStates(ctx context.Context, queries []rollupstore.HoursQuery) error
	// DropRows removes all states of a range of rows.
	DropRows(ctx context.Context, rows storage.RowRange) error
}
