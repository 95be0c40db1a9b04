package main

import (
	"context"
	"errors"
	"math"

	"halite/cmd/tsdb/internal/tables"
	"halite/ingest"
	"halite/ingest/direct"
	"halite/keyschema"
	"halite/rollup/job"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/index/restricted"
	"halite/storage/lease"
)

func (c *serveConfig) ingestLimits() ingest.Limits {
	return ingest.Limits{
		Tenants: c.web.tenants.on, LabelsPerSeriesMax: c.labelsMax,
		BodyBytesMax: int(c.bodyBytesMax), DecodedBytesMax: int(c.bodyBytesMax),
		LabelNameBytesMax: int(c.labelNameMax), LabelValueBytesMax: int(c.labelValueMax), MetricNameBytesMax: int(c.metricNameMax),
		LabelSetBytesMax: int(c.labelSetMax), HistogramBytesMax: int(c.histogramMax),
		DecodedHistogramBytesMax: int(c.decodedHistMax), RequestSymbolsMax: c.symbolsMax,
		RelabelledSeriesMax: c.relabelledMax,
		SeriesMax:           c.seriesMax, SeriesWarn: c.seriesWarn, SeriesDryRun: c.seriesDryRun, AheadMax: c.aheadMax,
		InFlightBytesMax: c.inFlightBytesMax, SharedConcurrencyMax: c.sharedCPUs(), SharedLogBytesMax: c.sharedLogBytes(),
	}
}

// sharedCPUs is the number of CPUs that a tenant uses while others are active; 0 is the default. With Bigtable, requests
// wait for the network rather than for CPUs, so there is no bound by default.
func (c *serveConfig) sharedCPUs() int {
	if c.web.tenants.sharedCPUs == 0 && c.engine == tables.EngineBigtable {
		return sharedUnbounded
	}
	return c.web.tenants.sharedCPUs
}

// sharedLogBytes bounds the writes of a tenant that are not durable while others are active. Mode direct has no log.
func (c *serveConfig) sharedLogBytes() int64 {
	if c.web.tenants.sharedLogBytes == 0 || c.direct() {
		return math.MaxInt64
	}
	return c.web.tenants.sharedLogBytes
}

// sharedUnbounded is above all numbers of CPUs.
const sharedUnbounded = 1 << 20

// openDirect opens the index and the writer of mode direct. Queries cache no rows, because other servers write too.
func (db *database) openDirect(ctx context.Context, c *serveConfig, opts index.Options) (err error) {
	opts.Writer = index.NewWriter()
	if db.index, err = index.Open(ctx, opts); err != nil {
		return err
	}
	db.deleted.SetLabelSets(db.index.LabelSet)
	meta, err := db.store.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return err
	}
	guard := tables.Guard{Meta: meta, Schema: db.schema, Ahead: c.aheadOrDefault(), Now: opts.Now}
	if db.rollupLease, err = lease.NewKeeper(lease.Options{
		Meta: meta, Name: tables.RollupLease, Holder: opts.Writer, TTL: c.directMode.lease, Now: opts.Now,
	}, opts.Logger); err != nil {
		return err
	}
	t, err := direct.Open(ctx, direct.Options{
		Heat: db.keyviz, Tombstones: db.deleted, States: leasedStates{db.tiers, db, db.rollups(c)}, Fresh: db.tiers.Refresh,
		Store: db.store, Index: db.index, Writer: opts.Writer, Schema: db.schema, Retention: db.retention.Tier(keyschema.Raw),
		Limits: c.ingestLimits(), Refresh: c.directMode.refresh, PackDelay: c.directMode.packDelay,
		MarkAfter: c.directMode.packDelay / 3, PackInterval: c.directMode.packEvery,
		WriteTimeout: c.directMode.writeWait, LeaseTTL: c.directMode.lease,
		Guard: guard.Check, Now: opts.Now, Logger: opts.Logger, Registerer: opts.Registerer,
	})
	if err != nil {
		return err
	}
	db.ingester, db.lookup, db.deleter = t, restricted.New(t.Index(), db.aliases), t
	c.resultCacheBytes, c.rowCacheBytes = 0, 0
	// Other servers also add aliases.
	db.jobs.Add(c.directMode.refresh, nil, func(ctx context.Context) {
		if err := db.aliases.Refresh(ctx); err != nil && ctx.Err() == nil {
			opts.Logger.Error("cannot read the aliases of other servers; the server tries again", "err", err)
		}
	})
	return nil
}

// leasedStates are the rollups of one of several servers, for the cleaning of deletions.
type leasedStates struct {
	*job.Rollups
	db *database
	// computes is set if this server also competes for the lease to compute rollups.
	computes bool
}

// ApplyDeletions implements deletion.States. A server that computes no rollups applies deletions while no other server holds
// the lease. Otherwise deletions would wait forever if no server computed rollups.
func (s leasedStates) ApplyDeletions(ctx context.Context) (err error) {
	if keeper := s.db.rollupLease; !s.computes {
		if held, err := keeper.Renew(ctx); err != nil || !held {
			return err
		}
		keeper.Start()
		defer func() { err = errors.Join(err, keeper.Close(context.WithoutCancel(ctx))) }()
	}
	return s.Rollups.ApplyDeletions(ctx)
}
