package main

import (
	"context"
	"errors"

	"halite/rollup/tiers"
)

// rollupLease names the lease under which one of several servers computes rollups.
const rollupLease = "rollups"

// turnStates are rollups that several servers share, for cleaning.
type turnStates struct {
	*tiers.Tiers
	db *database
	// job says that this server waits for its turn to compute rollups anyway.
	job bool
}

// ApplyDeletions is part of ingest.States. A server that computes no rollups does it while nobody else does: without any that
// computes, deletions would wait for ever.
func (s turnStates) ApplyDeletions(ctx context.Context) (err error) {
	if turn := s.db.rollupTurn; !s.job {
		if held, err := turn.Renew(ctx); err != nil || !held {
			return err
		}
		turn.Start()
		defer func() { err = errors.Join(err, turn.Close(context.WithoutCancel(ctx))) }()
	}
	return s.Tiers.ApplyDeletions(ctx)
}
