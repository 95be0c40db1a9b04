package main

import (
	"halite/storage/histmetrics"
	"slices"

	"context"
	"errors"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/relabel"

	"halite/api"
	"halite/api/tenancy"
	"halite/api/tenantadmin"
	"halite/cmd/tsdb/internal/backup"
	"halite/cmd/tsdb/internal/config"
	"halite/cmd/tsdb/internal/rules"
	"halite/cmd/tsdb/internal/tables"
	"halite/ingest"
	"halite/ingest/deletion"
	"halite/ingest/direct"
	"halite/ingest/hatracker"
	"halite/ingest/tenantlimits"
	"halite/keyschema"
	"halite/query"
	"halite/query/lastread"
	"halite/query/limits"
	"halite/query/querylog"
	"halite/query/read"
	"halite/query/resultcache"
	"halite/query/rowcache"
	"halite/query/topqueries"
	"halite/rollup/job"
	"halite/storage"
	"halite/storage/aliases"
	"halite/storage/index"
	"halite/storage/index/restricted"
	"halite/storage/keyviz"
	"halite/storage/lease"
	"halite/storage/notes"
	"halite/storage/pebble"
	"halite/storage/pebble/fault"
	"halite/storage/periodic"
	"halite/storage/retention"
	"halite/storage/tabletevents"
	"halite/storage/tenants"
	"halite/storage/tombstone"
	"halite/storage/widerows"
)

// database has all layers between HTTP and the disk. They open bottom up.
type database struct {
	tables  storage.Store // as the engine opened it
	store   storage.Store
	deleted *tombstone.Set
	schema  *keyschema.Schema
	config  *config.Config // as read at the start
	tiers   *job.Rollups   // nil on Bigtable until a server enables rollups
	// rollupLease is the lease under which one of several servers computes rollups; nil if there is one server.
	rollupLease *lease.Keeper
	index       *index.Index
	ingester    ingester
	lookup      *restricted.Index // the index that queries use
	deleter     api.Deleter
	reader      *read.Reader
	rowCache    *rowcache.Cache
	retention   *keyschema.Retention
	clock       *retention.Clock // by which old data is dropped
	// changingSamples runs a change of what reads return for a range of times, between two new versions of its caches.
	changingSamples func(fromMs, toMs int64, change func() error) error
	sweeper         *retention.Sweeper
	notes           *notes.Store
	aliases         *aliases.Registry
	jobs            periodic.Jobs
	queryLog        *querylog.Log
	limits          *limits.Control // limits of queries
	topQueries      *topqueries.Tracker
	lastReads       *lastread.Tracker
	keyviz          *keyviz.Collector // nil with --keyviz.max-memory=0
	wideRows        *widerows.Watch
	tabletLog       *tabletevents.Log // splits and merges
	tenancy         *tenancy.Tenancy  // nil without --tenants
	tenantList      *tenants.Registry
	tenants         *tenantadmin.Admin // nil without --tenants
	engine          *query.Engine
	rules           *rules.Manager
	lock            io.Closer // lock of --storage.path; nil in mode direct
}

// ingester stores samples: *ingest.Ingester or *direct.Direct.
type ingester interface {
	sampleWriter
	read.Head
	// Histograms returns the metrics with histograms; nil if the write mode has none.
	Histograms() *histmetrics.Set
	resultcache.Changes
	ChangedTimes(mintMs, maxtMs int64)
	Metadata(metric string, limit int) map[string][]ingest.Metadata
	TargetMetadata(metric, job, instance string) (m ingest.Metadata, known bool)
	Flush(ctx context.Context) error
	Stats() ingest.Stats
	SeriesLimits(most int) ingest.SeriesLimitStatus
	SetRelabelling(ctx context.Context, configs []*relabel.Config, ha *hatracker.Options) error
	HAClusters() []hatracker.ClusterStatus
	SetLimits(samplesPerSecond ingest.Limit, series *ingest.Limit)
	SetTenantLimits(limits map[string]ingest.TenantLimits)
	tenantadmin.Writer
	Close(ctx context.Context) error
}

// rollups reports whether the server computes and reads rollups.
func (db *database) rollups(c *serveConfig) bool { return db.tiers != nil && c.rollupsOn() }

// maintains reports whether this server maintains the tables that several servers share. The ingester must be open.
func (db *database) maintains() bool {
	shared, ok := db.ingester.(*direct.Direct)
	return !ok || shared.Maintains()
}

// lostTables are the accepted losses of tables that settleLosses has not handled yet.
func (db *database) lostTables() []fault.Damage {
	if s, ok := db.tables.(*pebble.Store); ok {
		return s.Lost()
	}
	return nil
}

// lostFrom reports whether rows of one of the tables are among the losses.
func (db *database) lostFrom(names ...string) bool {
	return tables.LostFrom(db.lostTables(), names...)
}

// listOfTenants returns the list of tenants; nil without --tenants.
func (db *database) listOfTenants() *tenants.Registry {
	if db.tenancy == nil {
		return nil
	}
	return db.tenantList
}

// tenantUses returns the function that reports how far tenants use their limits; nil without --tenants.
func (db *database) tenantUses() func(others ...string) map[string]tenantlimits.Use {
	if db.tenancy == nil {
		return nil
	}
	return db.ingester.TenantUses
}

// tenantAdmin returns the administration of tenants; nil without --tenants.
func (db *database) tenantAdmin() api.TenantAdmin {
	if db.tenants == nil {
		return nil // db.tenants itself would become an interface that is not nil
	}
	return db.tenants
}

// Flush moves the head to the tables. Then the engine writes day chunks of the open days in the background, before they
// close.
func (db *database) Flush(ctx context.Context) error {
	if err := db.ingester.Flush(ctx); err != nil {
		return err
	}
	if store, ok := db.tables.(*pebble.Store); ok {
		store.WriteDayChunksSoon()
	}
	return nil
}

// deletions describes the deletions whose rows are not yet clean.
func (db *database) deletions() deletion.Status {
	view := db.deleted.View()
	defer view.Release()
	status := deletion.Status{Deletions: slices.Clone(view.List())}
	if c, ok := db.deleter.(interface{ Cleaning() *deletion.Progress }); ok {
		status.Cleaning = c.Cleaning()
	}
	return status
}

// snapshots returns the function that makes snapshots; nil in mode direct, which has no log.
func (db *database) snapshots(c *serveConfig, r prometheus.Registerer) func(context.Context) (api.Snapshot, error) {
	i, ok := db.ingester.(*ingest.Ingester)
	if !ok {
		return nil
	}
	opts := backup.SnapshotOptions{Dir: c.storagePath, Log: i.Snapshot, Now: c.clock(), Registerer: r}
	if store, ok := db.tables.(*pebble.Store); ok {
		opts.Tables = store.Checkpoint
	}
	return backup.NewSnapshots(opts).Take
}

// StoreStats describes the store for /api/v1/status/tsdb.
func (db *database) StoreStats(limit int) api.StoreStats {
	series, head := db.index.Stats(limit), db.ingester.Stats()
	return api.StoreStats{
		Series: series.Series, LabelPairs: series.LabelPairs, Chunks: int64(head.Rows),
		MinTimeMs: head.MinTimeMs, MaxTimeMs: head.MaxTimeMs,
		SeriesByMetric: series.SeriesByMetric, ValuesByLabel: series.ValuesByLabel,
		BytesByLabel: series.BytesByLabel, SeriesByPair: series.SeriesByPair,
	}
}

// close closes the open layers top down. The ingester flushes its head first.
func (db *database) close(ctx context.Context) error {
	errs := []error{db.queryLog.Close()}
	if db.rules != nil {
		db.rules.Close()
	}
	db.jobs.Stop()
	db.jobs.Wait()
	db.tenants.Close()
	if db.sweeper != nil {
		db.sweeper.Close()
	}
	if db.tiers != nil {
		db.tiers.Close()
	}
	if db.ingester != nil {
		errs = append(errs, db.ingester.Close(ctx))
	}
	if db.rollupLease != nil { // no cleaning uses the lease any longer
		errs = append(errs, db.rollupLease.Close(ctx))
	}
	db.keyviz.Close(ctx)
	errs = append(errs, db.tabletLog.Save(ctx))
	if db.store != nil {
		errs = append(errs, db.store.Close())
	}
	if db.lock != nil {
		errs = append(errs, db.lock.Close())
	}
	return errors.Join(errs...)
}
