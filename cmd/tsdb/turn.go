package main

import (
	"context"
	"errors"

	"halite/rollup/job"
)

// rollupLease names the lease of the server that computes rollups.
const rollupLease = "rollups"

// turnStates are the rollups of one of several servers, for cleaning.
type turnStates struct {
	*job.Rollups
	db *database
	// computes is set if this server waits for its turn to compute rollups anyway.
	computes bool
}

// ApplyDeletions implements ingest.States. A server that computes no rollups applies deletions while no other server holds
// the lease. Otherwise deletions would wait for ever if no server computes rollups.
func (s turnStates) ApplyDeletions(ctx context.Context) (err error) {
	if turn := s.db.rollupTurn; !s.computes {
		if held, err := turn.Renew(ctx); err != nil || !held {
			return err
		}
		turn.Start()
		defer func() { err = errors.Join(err, turn.Close(context.WithoutCancel(ctx))) }()
	}
	return s.Rollups.ApplyDeletions(ctx)
}
