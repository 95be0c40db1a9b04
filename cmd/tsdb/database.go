package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/api"
	"halite/ingest"
	"halite/ingest/wal"
	"halite/keyschema"
	"halite/query"
	"halite/query/promql"
	"halite/query/querylog"
	"halite/rollup/job"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/lease"
	"halite/storage/retention"
	"halite/storage/tombstone"
)

// database is everything between HTTP and the disk, opened bottom up.
type database struct {
	tables  storage.Store // as the engine has opened it
	store   storage.Store
	deleted *tombstone.Set
	schema  *keyschema.Schema
	tiers   *job.Rollups // nil in Bigtable until they are asked for
	// rollupTurn is the lease under which one of several servers computes rollups; nil if there is one server.
	rollupTurn *lease.Keeper
	index      *index.Index
	ingester   ingester
	catalogue  api.Catalogue // index, as queries use it
	deleter    api.Deleter
	queryable  *promql.Queryable
	retention  *keyschema.Retention
	sweeper    *retention.Sweeper
	queryLog   *querylog.Log
	engine     *query.Engine
	lock       io.Closer // of --storage.path; nil in mode direct
}

// openDatabase opens the floors from the engine up. What was opened is closed again if a later floor fails.
func openDatabase(ctx context.Context, c *serveConfig, log *slog.Logger, r prometheus.Registerer) (db *database, err error) {
	db = &database{}
	defer func() {
		if err != nil {
			err = errors.Join(adviseOnDamage(err), db.close(ctx))
			db = nil
		}
	}()
	if !c.direct() {
		if db.lock, err = c.takeStorage(); err != nil {
			return db, err
		}
	}
	tables, err := openStore(ctx, c, log, r)
	if err != nil {
		return db, err
	}
	db.tables, db.store = tables, tables
	if db.deleted, db.store, err = openTombstones(ctx, c, tables, log, r); err != nil {
		return db, err
	}
	if err := db.openRules(ctx, c, tables, log, r); err != nil {
		return db, err
	}
	if db.tiers != nil {
		db.store = db.tiers.Invalidating(db.store)
	}
	watch := promql.NewRowWatch()
	store := watch.Store(db.store)
	db.store = store
	now, ages := c.clock(), db.retention.Tier(keyschema.Raw)
	longest := time.Duration(ages.Longest())
	data, err := store.EnsureTable(ctx, storage.DataSchema(longest))
	if err != nil {
		return db, err
	}
	opts := index.Options{
		Store: store, Schema: db.schema, Retention: longest, CacheBytesMax: c.catalogueBytes, Logger: log, Registerer: r,
		Now: now, Ages: ages, MonthSeriesMax: c.monthSeriesMax,
	}
	db.knowSeries(c, &opts)
	if c.direct() {
		err = db.openDirect(ctx, c, opts)
	} else {
		err = db.openIngester(ctx, c, watch, opts)
	}
	if err != nil {
		return db, err
	}
	reading := promql.Options{
		Catalogue: db.catalogue, Head: db.ingester, Data: data, Schema: db.schema, Retention: longest,
		SeriesMax: c.querySeriesMax, BytesMax: c.queryBytesMax, TotalBytesMax: c.queryTotalBytesMax, BatchRowsMax: c.batchRowsMax(),
		Tombstones: db.deleted, Watch: watch, RowCacheBytes: noneIfZero(c.rowCacheBytes), Registerer: r, Now: now, Ages: ages,
	}
	if db.rollups(c) {
		reading.Tiers, reading.TierAges = db.tiers, db.retention
	}
	if db.queryable, err = promql.New(reading); err != nil {
		return db, err
	}
	if db.queryLog, err = openQueryLog(c, log, r); err != nil {
		return db, err
	}
	if db.engine, err = query.New(db.queryOptions(c, log, r)); err != nil {
		return db, err
	}
	db.startJobs(c)
	return db, nil
}

// takeStorage locks the directory of all data and makes room in it for the start.
func (c *serveConfig) takeStorage() (lock io.Closer, err error) {
	if lock, err = lockStorage(c.storagePath); err != nil {
		return nil, err
	}
	if err := newReserve(c).release(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// lockStorage makes the directory of all data and keeps other processes out of it.
func lockStorage(path string) (io.Closer, error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, fmt.Errorf("--storage.path: %w", err)
	}
	lock, err := lockDir(path)
	if errors.Is(err, storage.ErrLocked) {
		return nil, fmt.Errorf("%s: another process holds the lock of this directory: %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("--storage.path: %w", err)
	}
	return lock, nil
}

// startJobs starts what runs beside the ingester's own jobs.
func (db *database) startJobs(c *serveConfig) {
	if db.rollups(c) {
		if db.rollupTurn != nil {
			db.rollupTurn.Start()
		}
		db.tiers.Start()
	}
	db.sweeper.Start()
}

// rollups tells whether rollups are computed and read.
func (db *database) rollups(c *serveConfig) bool { return db.tiers != nil && c.rollupsOn() }

// knowSeries has the catalogue know series as long as anything of them is kept.
func (db *database) knowSeries(c *serveConfig, opts *index.Options) {
	if db.rollups(c) {
		opts.Ages = db.retention.Tier(keyschema.Days)
		opts.Retention = time.Duration(opts.Ages.Longest())
	}
}

// ingestOptions are those of the ingester.
func (db *database) ingestOptions(
	c *serveConfig, watch *promql.RowWatch, log *slog.Logger, r prometheus.Registerer,
) ingest.Options {
	ages := db.retention.Tier(keyschema.Raw)
	opts := ingest.Options{
		Tombstones: db.deleted, Deleting: db.deleting(watch),
		Dir: walDir(c.storagePath), Store: db.store, Index: db.index, Schema: db.schema,
		Retention: time.Duration(ages.Longest()), Ages: ages,
		AcceptWALLoss: c.acceptWALLoss, AcceptTableLoss: c.acceptsTableLoss(db.tables), TakeOver: c.takesOver(),
		FreeBytesMin: c.freeBytesMin, WALBytesMax: c.walBytesMax, Logger: log, Registerer: r, Now: c.clock(),
		Replaying: c.replaying, Reserve: newReserve(c).restore,
		Head:   ingest.HeadOptions{BytesMax: c.headBytesMax, TotalBytesMax: c.headTotalBytesMax},
		Limits: c.ingestLimits(),
	}
	if db.tiers != nil {
		opts.States = db.tiers
	}
	return opts
}

// openIngester opens the catalogue, and the log and head in front of the tables.
func (db *database) openIngester(
	ctx context.Context, c *serveConfig, watch *promql.RowWatch, opts index.Options,
) (err error) {
	if err := db.restoreSequence(ctx); err != nil {
		return err
	}
	if db.index, err = index.Open(ctx, opts); err != nil {
		return err
	}
	db.deleted.SetLabelSets(db.index.LabelSet)
	i, err := ingest.Open(ctx, db.ingestOptions(c, watch, opts.Logger, opts.Registerer))
	if errors.Is(err, wal.ErrLocked) {
		return fmt.Errorf("%s: another process holds the lock of this directory: %w", c.storagePath, err)
	}
	if err != nil {
		return err // not i, which would be an interface that is not nil
	}
	db.ingester, db.catalogue, db.deleter = i, db.index, i
	return db.settleLosses(ctx, opts.Logger)
}

// queryOptions are those of the query engine.
func (db *database) queryOptions(c *serveConfig, log *slog.Logger, r prometheus.Registerer) query.Options {
	ages := db.retention.Tier(keyschema.Raw)
	return query.Options{
		Queryable: db.queryable, Timeout: c.queryTimeout, SamplesMax: c.querySamplesMax,
		EngineSamplesMax: c.engineSamplesMax, ConcurrencyMax: c.queryConcurrency,
		CheapSamplesMax: c.cheapSamplesMax, QueueMax: c.queryQueueMax, QueueWait: c.queryQueueWait, PointsMax: c.queryPointsMax,
		QueryBytesMax: c.queryTextBytesMax, Lookback: c.queryLookback, Tiers: c.tiersSwitch(), Logger: log, Registerer: r,
		Changes: db.ingester, ResultCacheBytes: noneIfZero(c.resultCacheBytes), ResultCacheRecent: c.resultCacheRecent,
		Retention: time.Duration(ages.Longest()), Ages: ages, DepthMax: c.queryDepthMax, SubqueryStepsMax: c.subqueryStepsMax,
		SubqueryPointsMax: c.subqueryPointsMax, LabelGrowthMax: c.labelGrowthMax,
		Experimental: c.queryExperimental, Log: db.queryLog,
	}
}

// close closes what is open, top down: the ingester flushes its head first.
func (db *database) close(ctx context.Context) error {
	errs := []error{db.queryLog.Close()}
	if db.sweeper != nil {
		db.sweeper.Close()
	}
	if db.tiers != nil {
		db.tiers.Close()
	}
	if db.ingester != nil {
		errs = append(errs, db.ingester.Close(ctx))
	}
	if db.rollupTurn != nil { // no cleaning uses it any more
		errs = append(errs, db.rollupTurn.Close(ctx))
	}
	if db.store != nil {
		errs = append(errs, db.store.Close())
	}
	if db.lock != nil {
		errs = append(errs, db.lock.Close())
	}
	return errors.Join(errs...)
}

// StoreStats describes the store for /api/v1/status/tsdb.
func (db *database) StoreStats(limit int) api.StoreStats {
	catalogue, head := db.index.Stats(limit), db.ingester.Stats()
	return api.StoreStats{
		Series: catalogue.Series, LabelPairs: catalogue.LabelPairs, Chunks: int64(head.Rows),
		MinTimeMs: head.MinTimeMs, MaxTimeMs: head.MaxTimeMs,
		SeriesByMetric: catalogue.SeriesByMetric, ValuesByLabel: catalogue.ValuesByLabel,
		BytesByLabel: catalogue.BytesByLabel, SeriesByPair: catalogue.SeriesByPair,
	}
}

// noneIfZero turns the size of a flag, of which 0 means none, into that of an option, of which 0 means the default.
func noneIfZero(sizeBytes int64) int64 {
	if sizeBytes == 0 {
		return -1
	}
	return sizeBytes
}
