package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"halite/keyschema"
	"halite/query/promql"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// openTombstones reads what was deleted and returns the store that reads without it.
func openTombstones(
	ctx context.Context, c *serveConfig, store storage.Store, log *slog.Logger, r prometheus.Registerer,
) (*tombstone.Set, storage.Store, error) {
	set, err := tombstone.Open(ctx, tombstone.Options{
		Store: store, Shared: c.direct(), TombstonesMax: c.tombstonesMax, AcceptLoss: c.acceptWALLoss, Logger: log, Registerer: r,
	})
	if err != nil {
		return nil, store, err
	}
	set.SetLabelSets(func(ctx context.Context, _, hash string) ([]keyschema.Tag, error) {
		meta, err := store.Table(ctx, storage.TableMeta)
		if err != nil {
			return nil, err
		}
		return index.StoredLabelSet(ctx, meta, hash)
	})
	return set, set.Store(), nil
}

// deleting tells those who keep what they have read of a deletion, and lets it take effect.
func (db *database) deleting(watch *promql.RowWatch) func(fromMs, toMs int64, change func() error) error {
	if db.tiers == nil {
		return watch.Changing
	}
	return func(fromMs, toMs int64, change func() error) error {
		return watch.Changing(fromMs, toMs, func() error { return db.tiers.DuringDeletion(fromMs, toMs, change) })
	}
}
