package job

import (
	"context"

	"halite/rollup/store"
)

// Rollups holds a store of states and its job.
type Rollups struct {
	*store.Store
	*Job
}

// Open opens a store and makes its job, which does not run yet. Open needs no Close, but Start does.
func Open(ctx context.Context, storeOptions store.Options, jobOptions Options) (*Rollups, error) {
	s, err := store.Open(ctx, storeOptions)
	if err != nil {
		return nil, err
	}
	j, err := New(s, jobOptions)
	if err != nil {
		return nil, err
	}
	return &Rollups{s, j}, nil
}
