package main

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/cmd/tsdb/internal/tables"
	"halite/query"
	"halite/rollup/job"
	rollupstore "halite/rollup/store"
	"halite/storage"
)

// tiersSwitch converts --query.tiers for the query engine.
func (c *serveConfig) tiersSwitch() query.Switch {
	if c.queryTiers == tiersRaw {
		return query.Off
	}
	return query.Default
}

// openTiers opens the rollups of the data table. It returns nil if there are none. The job does not run yet.
//
// In Bigtable, finding the days with samples may read the whole table. So rollups exist there only after a server has
// enabled them, and then stay consistent. Servers that share tables keep rollups consistent from the beginning, because any
// of these servers may enable them. If the table has lost rows, the job computes all days with samples again.
func (db *database) openTiers(
	ctx context.Context, c *serveConfig, log *slog.Logger, r prometheus.Registerer,
) (*job.Rollups, error) {
	shared := db.sharedRollups(c)
	if c.engine == tables.EngineBigtable && !c.rollupsOn() && shared == nil {
		schemas, err := db.store.Tables(ctx)
		exists := slices.ContainsFunc(schemas, func(s storage.TableSchema) bool { return s.Name == storage.TableRollup })
		if err != nil || !exists {
			return nil, err
		}
	}
	interval := time.Duration(0)
	if shared != nil {
		interval = c.directMode.packEvery
	}
	return job.Open(ctx, rollupstore.Options{
		Tables: db.store, Retention: db.retention, Deletions: db.deleted, Shared: shared, Logger: log,
		Registerer: r, Now: db.clock.Now, Reset: db.lostFrom(storage.TableRollup),
	}, job.Options{Interval: interval, Registerer: r})
}
