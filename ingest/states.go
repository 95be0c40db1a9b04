package ingest

import (
	"context"

	"halite/rollup/tiers"
)

// States are what was computed from samples and may be kept longer than these; *tiers.Tiers are some.
type States interface {
	// ApplyDeletions computes anew what was computed of samples that are deleted, durably, so that their tombstones need not
	// be remembered.
	ApplyDeletions(ctx context.Context) error
	// Applied returns the last deletion that all of it is as of, for good. Where several servers share it ApplyDeletions may
	// leave some for later.
	Applied(ctx context.Context) (id uint64, err error)
	// CountLost counts the states from the day first to the day last that a deletion would remove because their samples are
	// retired; has tells of which hours of a series there are rows.
	CountLost(
		ctx context.Context, prefixes [][]byte, first, last, fromMs, toMs int64, has func(i int, hour int64) bool,
	) (tiers.Lost, error)
	// Told finds out which hours have states of samples.
	Told(ctx context.Context, asked []tiers.Asked) error
	// MonthClosed tells whether there may be a state of a day.
	MonthClosed(day int64) bool
}
