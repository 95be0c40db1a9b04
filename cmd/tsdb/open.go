package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/api/tenantadmin"
	"halite/cmd/tsdb/internal/datadir"
	"halite/cmd/tsdb/internal/tables"
	"halite/ingest"
	"halite/ingest/flush"
	"halite/ingest/wal"
	"halite/keyschema"
	"halite/query"
	"halite/query/lastread"
	"halite/query/limits"
	"halite/query/promadapter"
	"halite/query/querylog"
	"halite/query/read"
	"halite/query/read/rollups"
	"halite/query/rowcache"
	"halite/query/topqueries"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/index/restricted"
	"halite/storage/keyviz"
	"halite/storage/pebble"
	"halite/storage/pebble/fault"
	"halite/storage/retention"
	"halite/storage/tabletevents"
	"halite/storage/tombstone"
	"halite/storage/widerows"
)

// openDatabase opens the layers from the engine up. If a layer fails, it closes the opened ones.
func openDatabase(ctx context.Context, c *serveConfig, log *slog.Logger, r prometheus.Registerer) (db *database, err error) {
	db, err = newDatabase(c, log, r)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(tables.AdviseOnDamage(err), db.close(ctx))
			db = nil
		}
	}()
	if !c.direct() {
		if db.lock, err = c.lockStorage(); err != nil {
			return db, err
		}
	}
	if c.locked != nil {
		c.locked()
	}
	if db.tables, err = openStore(ctx, c, db.tabletLog, db.clock.Now, log, r); err != nil {
		return db, err
	}
	db.store = db.tables
	if db.deleted, db.store, err = tables.OpenTombstones(ctx, tombstone.Options{
		Store: db.tables, Shared: c.direct(), TombstonesMax: c.tombstonesMax, AcceptLoss: c.acceptWALLoss, Logger: log, Registerer: r,
	}); err != nil {
		return db, err
	}
	if err := db.openRules(ctx, c, db.tables, log, r); err != nil {
		return db, err
	}
	db.limits = limits.New(r)
	watch := rowcache.NewWatch()
	store, data, err := db.openData(ctx, c, watch, time.Duration(db.retention.Tier(keyschema.Raw).Longest()), r)
	if err != nil {
		return db, err
	}
	opts := index.Options{
		Store: store, Schema: db.schema, Retention: db.retention.Tier(db.seriesTier(c)), CacheBytesMax: c.indexBytes, Logger: log,
		Registerer: r, Now: c.clock(), RetentionNow: db.clock.Now, MonthSeriesMax: c.monthSeriesMax,
	}
	db.changingSamples = db.deleting(watch)
	if c.direct() {
		err = db.openDirect(ctx, c, opts)
	} else {
		err = db.openIngester(ctx, c, opts)
	}
	if err != nil {
		return db, err
	}
	if err := db.openReader(c, watch, data, r); err != nil {
		return db, err
	}
	if db.queryLog, err = openQueryLog(c, log, r); err != nil {
		return db, err
	}
	if err := db.openEngine(c, log, r); err != nil {
		return db, err
	}
	if err := db.apply(ctx, c, db.config); err != nil {
		return db, err
	}
	db.openTenants(log, r)
	db.startJobs(c, log)
	return db, nil
}

// openTenants makes the administration of tenants, if the server has tenants. startJobs starts it.
func (db *database) openTenants(log *slog.Logger, r prometheus.Registerer) {
	if db.tenancy != nil {
		db.tenants = tenantadmin.New(tenantadmin.Options{
			List: db.tenantList, Writer: db.ingester, Notes: db.notes, Store: db.tables, Logger: log, Registerer: r,
			DropMeta: []func(ctx context.Context, tenant string) error{db.aliases.DropTenant, db.keyviz.DropTenant},
		})
	}
}

// newDatabase returns a database without layers.
func newDatabase(c *serveConfig, log *slog.Logger, r prometheus.Registerer) (db *database, err error) {
	db = &database{}
	if db.tabletLog, err = tabletevents.New(tabletevents.Options{Now: c.clock(), Shared: c.direct()}); err != nil {
		return nil, err
	}
	jumpMax := time.Duration(c.clockJump)
	if c.direct() {
		jumpMax = 0
	}
	db.clock, err = retention.NewClock(c.clock(), jumpMax, log, r)
	return db, err
}

// lockStorage locks the directory of all data and frees space in it for the start.
func (c *serveConfig) lockStorage() (lock io.Closer, err error) {
	if lock, err = datadir.Lock(c.storagePath); err != nil {
		return nil, fmt.Errorf("--storage.path: %w", err)
	}
	if err := datadir.NewReserve(c.storagePath, c.reserveBytes).Release(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// openKeyviz opens the history of tablets, and the collector of the key heat map, unless --keyviz.max-memory is 0.
func (db *database) openKeyviz(
	ctx context.Context, c *serveConfig, meta storage.Table, log *slog.Logger, r prometheus.Registerer,
) (err error) {
	server := keyviz.ServerDefault
	if c.direct() {
		server = index.NewWriter()
	}
	if err := db.tabletLog.Open(ctx, meta, server); err != nil {
		return err
	}
	if c.keyvizBytes == 0 {
		return nil
	}
	db.keyviz, err = keyviz.Open(ctx, keyviz.Options{
		Meta: meta, Server: server, Shared: c.direct(), MemoryBytesMax: c.keyvizBytes, Now: c.clock(), Logger: log, Registerer: r,
	})
	return err
}

// bigtableTabletsInterval is the time between two lists of the tablets of Bigtable, which does not report its changes.
const bigtableTabletsInterval = 10 * time.Minute

// watchTablets saves the history of tablets each minute.
func (db *database) watchTablets(c *serveConfig, log *slog.Logger) {
	db.jobs.Add(time.Minute, nil, func(ctx context.Context) {
		if err := db.tabletLog.Save(ctx); err != nil {
			log.Warn("the history of tablets stays in memory", "err", err)
		}
	})
	if c.engine != tables.EngineBigtable {
		return
	}
	db.jobs.AddNow(bigtableTabletsInterval, func(ctx context.Context) {
		table, err := db.store.Table(ctx, storage.TableData)
		if err != nil {
			log.Warn("cannot list the tablets", "err", err)
			return
		}
		list, err := table.Tablets(ctx)
		if err != nil {
			log.Warn("cannot list the tablets", "err", err)
			return
		}
		db.tabletLog.Compare(storage.TableData, list)
	})
}

// keyvizInterval is the time after which load becomes a column; 0 if there are no background jobs.
func (c *serveConfig) keyvizInterval() time.Duration {
	if c.noJobs {
		return 0
	}
	return time.Minute
}

// startJobs starts the background jobs outside the ingester.
func (db *database) startJobs(c *serveConfig, log *slog.Logger) {
	db.keyviz.Start(db.index.AppendKey, c.keyvizInterval())
	if c.noJobs {
		return
	}
	if db.rollups(c) {
		if db.rollupLease != nil {
			db.rollupLease.Start()
		}
		db.tiers.Start()
	}
	if db.tenants != nil {
		db.tenants.Start()
	}
	db.watchTablets(c, log)
	db.sweeper.Start()
	db.sweepNotes(c, log)
	db.watchClock(c, log)
}

// ingestOptions returns the options of the ingester.
func (db *database) ingestOptions(c *serveConfig, log *slog.Logger, r prometheus.Registerer) ingest.Options {
	identity := c.identity()
	opts := ingest.Options{
		Heat: db.keyviz, Tombstones: db.deleted, Deleting: db.changingSamples,
		Dir: datadir.WALDir(c.storagePath), Store: db.store, Index: db.index, Schema: db.schema,
		Retention:     db.retention.Tier(keyschema.Raw),
		AcceptWALLoss: c.acceptWALLoss, AcceptTableLoss: identity.AcceptsTableLoss(db.tables), TakeOver: identity.TakesOver(),
		FreeBytesMin: c.freeBytesMin, WALBytesMax: c.walBytesMax, Logger: log, Registerer: r, Now: c.clock(),
		Replaying: c.replaying, Reserve: datadir.NewReserve(c.storagePath, c.reserveBytes).Restore,
		Head:   ingest.HeadOptions{BytesMax: c.headBytesMax, TotalBytesMax: c.headTotalBytesMax, ExemplarsMax: c.exemplarsMax},
		Limits: c.ingestLimits(),
	}
	if db.tiers != nil {
		opts.States = db.tiers
	}
	return opts
}

// openIngester opens the index, and the log and head in front of the tables.
func (db *database) openIngester(ctx context.Context, c *serveConfig, opts index.Options) (err error) {
	if err := db.restoreSequence(ctx); err != nil {
		return err
	}
	if db.index, err = index.Open(ctx, opts); err != nil {
		return err
	}
	db.deleted.SetLabelSets(db.index.LabelSet)
	i, err := ingest.Open(ctx, db.ingestOptions(c, opts.Logger, opts.Registerer))
	if errors.Is(err, wal.ErrLocked) {
		return fmt.Errorf("%s: another process holds the lock of this directory: %w", c.storagePath, err)
	}
	if err != nil {
		return err // i itself would become an interface that is not nil
	}
	db.ingester, db.lookup, db.deleter = i, restricted.New(db.index, db.aliases), i
	return db.settleLosses(ctx, opts.Logger)
}

// openData wraps the store, and opens the data table.
func (db *database) openData(
	ctx context.Context, c *serveConfig, watch *rowcache.Watch, retention time.Duration, r prometheus.Registerer,
) (store storage.Store, data storage.Table, err error) {
	now := c.clock()
	if store, err = db.wrapDataTable(watch, now, r); err != nil {
		return nil, nil, err
	}
	if data, err = store.EnsureTable(ctx, storage.DataSchema(retention)); err != nil {
		return nil, nil, err
	}
	if c.engine == tables.EnginePebble {
		err = watch.FindNewestRow(ctx, data, now())
	}
	return store, data, err
}

// wrapDataTable wraps the data table for the layers that must see each write. From the outside in: the row watch gives
// written hours a new version for the row cache. The rollup guard marks rollups of written hours as stale. The key heat map
// counts rows, and the watch of wide rows adds up their bytes. Below them, the tombstones hide deleted samples.
// tables.OpenTombstones has wrapped them around the engine's tables.
func (db *database) wrapDataTable(
	watch *rowcache.Watch, now func() time.Time, r prometheus.Registerer,
) (storage.Store, error) {
	wide, err := widerows.New(widerows.Options{Now: now, Registerer: r})
	if err != nil {
		return nil, err
	}
	db.wideRows, db.store = wide, wide.Store(db.store)
	db.store = db.keyviz.Store(db.store)
	if db.tiers != nil {
		db.store = db.tiers.Invalidating(db.store)
	}
	db.store = watch.Store(db.store)
	return db.store, nil
}

// openReader opens the row cache and the reader of samples.
func (db *database) openReader(
	c *serveConfig, watch *rowcache.Watch, data storage.Table, r prometheus.Registerer,
) (err error) {
	db.rowCache, err = rowcache.New(rowcache.Options{
		Watch: watch, BytesMax: noneIfZero(c.rowCacheBytes), Registerer: r,
	})
	if err != nil {
		return err
	}
	if db.lastReads, err = lastread.New(lastread.Options{Now: c.clock()}); err != nil {
		return err
	}
	var hourly read.HourlyHistograms
	if db.rollups(c) {
		hourly = db.tiers.ReadHistograms
	}
	db.reader, err = read.New(read.Options{
		Index: db.lookup, Head: db.ingester, Data: data, Schema: db.schema, Retention: db.retention.Tier(keyschema.Raw),
		SeriesMax: c.querySeriesMax, BytesMax: c.queryBytesMax, TotalBytesMax: c.queryTotalBytesMax, BatchRowsMax: c.batchRowsMax(),
		RangeBatchRowsMax: c.batchRowsMax(), Registerer: r, Now: c.clock(),
		Tombstones: db.deleted, Cache: db.rowCache, NewestRow: watch.NewestRow,
		Histograms: db.ingester.Histograms(), StartTimes: c.queryStartTimes, HourlyHistograms: hourly,
		ExemplarsMax: c.exemplarsMax, BytesLimit: db.limits.BytesMax, LastReads: db.lastReads,
	})
	return err
}

// openEngine opens the query engine. The engine uses rollups if they exist.
func (db *database) openEngine(c *serveConfig, log *slog.Logger, r prometheus.Registerer) (err error) {
	if db.topQueries, err = topqueries.New(topqueries.Options{QueriesMax: c.topQueriesMax, Registerer: r}); err != nil {
		return err
	}
	opts := db.queryOptions(c, log, r)
	if db.rollups(c) {
		opts.Rollups, err = rollups.New(rollups.Options{
			Store: db.tiers, Cache: db.rowCache, Now: c.clock(),
		})
		if err != nil {
			return err
		}
	}
	db.engine, err = query.New(opts)
	return err
}

// queryOptions returns the options of the query engine.
func (db *database) queryOptions(c *serveConfig, log *slog.Logger, r prometheus.Registerer) query.Options {
	return query.Options{
		Queryable: promadapter.New(db.reader), Timeout: c.queryTimeout, SamplesMax: c.querySamplesMax,
		EngineSamplesMax: c.engineSamplesMax, ConcurrencyMax: c.queryConcurrency,
		SharedConcurrencyMax: c.sharedCPUs(),
		CheapSamplesMax:      c.cheapSamplesMax, QueueMax: c.queryQueueMax, QueueWait: c.queryQueueWait, PointsMax: c.queryPointsMax,
		QueryBytesMax: c.queryTextBytesMax, Lookback: c.queryLookback, Tiers: c.tiersSwitch(), Logger: log, Registerer: r,
		Changes: db.ingester, ResultCacheBytes: noneIfZero(c.resultCacheBytes), ResultCacheRecent: c.resultCacheRecent,
		Retention: db.retention.Tier(keyschema.Raw), DepthMax: c.queryDepthMax, FormatDepthMax: c.formatDepthMax,
		SubqueryStepsMax:  c.subqueryStepsMax,
		SubqueryPointsMax: c.subqueryPointsMax, LabelGrowthMax: c.labelGrowthMax,
		Experimental: c.queryExperimental, DelayedNames: c.queryDelayedNames, StartTimes: c.queryStartTimes,
		Log: db.queryLog, Limits: db.limits, Top: db.topQueries,
	}
}

// noneIfZero converts the size of a flag, where 0 means none, to the size of an option, where 0 means the default.
func noneIfZero(sizeBytes int64) int64 {
	if sizeBytes == 0 {
		return -1
	}
	return sizeBytes
}

// bigtableBatchRows is the number of rows that a query reads in one batch from Bigtable, where a request costs milliseconds.
const bigtableBatchRows = 4096

// batchRowsMax is the number of rows that a query reads in one batch; 0 is the default.
func (c *serveConfig) batchRowsMax() int {
	if c.engine == tables.EngineBigtable {
		return bigtableBatchRows
	}
	return 0
}

// openStore opens the engine that the flags select. events gets the splits and merges of tablets.
func openStore(
	ctx context.Context, c *serveConfig, events *tabletevents.Log, gcNow func() time.Time, log *slog.Logger, r prometheus.Registerer,
) (storage.Store, error) {
	identity := c.identity()
	if c.engine == tables.EngineBigtable {
		store, err := c.bigtable.Open(ctx, tables.OpenOptions{Logger: log, Registerer: r})
		if err != nil {
			return nil, err
		}
		if c.direct() {
			err = tables.Share(ctx, store, c.takeOver, time.Now())
		} else {
			err = tables.Claim(ctx, store, c.storagePath, c.takeOver, time.Now())
			if err == nil {
				_, err = identity.Check(ctx, store, log)
			}
		}
		if err != nil {
			return nil, errors.Join(err, store.Close())
		}
		return store, nil
	}
	store, err := pebble.Open(pebble.Options{
		Dir: datadir.TablesDir(c.storagePath), CacheBytes: c.cacheBytes, MemtableBytes: c.memtableBytes, TabletBytesMax: c.tabletBytes,
		TabletRowsHot: c.tabletRows, TabletChanged: events.Add, OpenFilesMax: c.openTablesMax, Logger: log, Registerer: r,
		DayChunks: tables.DayChunkCodec(), Now: c.clock(), GCNow: gcNow,
		AcceptLoss: identity.AcceptsLoss(), Waiting: c.waiting,
		Admit: func(s storage.Store) (pebble.Admission, error) { return identity.Check(ctx, s, log) },
	})
	if errors.Is(err, storage.ErrLocked) {
		return nil, fmt.Errorf("%s: another process holds the lock of this directory: %w", c.storagePath, err)
	}
	if err != nil {
		return nil, err
	}
	if err := tables.RemoveOwner(ctx, store); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// identity names the tables and the log that must belong together.
func (c *serveConfig) identity() *tables.Identity {
	return &tables.Identity{
		Engine: c.engine, StoragePath: c.storagePath, TakeOver: c.takeOver, AcceptWALLoss: c.acceptWALLoss,
		AcceptTableLoss: c.acceptTableLoss,
	}
}

// deleting calls change, which puts a deletion in force, and invalidates the caches that the deletion affects.
func (db *database) deleting(watch *rowcache.Watch) func(fromMs, toMs int64, change func() error) error {
	if db.tiers == nil {
		return watch.During
	}
	return func(fromMs, toMs int64, change func() error) error {
		return watch.During(fromMs, toMs, func() error { return db.tiers.During(fromMs, toMs, change) })
	}
}

// restoreSequence raises the next chunk number above all numbers in use, if the row that stores it may be lost.
func (db *database) restoreSequence(ctx context.Context) error {
	if !db.lostFrom(storage.TableMeta) {
		return nil
	}
	return flush.RestoreSequence(ctx, db.tables)
}

// settleLosses rebuilds the series index of the days with losses from the remaining tables. openTiers has already scheduled the
// affected rollups for computation.
func (db *database) settleLosses(ctx context.Context, log *slog.Logger) error {
	lost := db.lostTables()
	if len(lost) == 0 {
		return nil
	}
	for _, d := range lost {
		if d.Table != storage.TableSeries && d.Table != storage.TableLabels {
			continue
		}
		log.Warn("rebuilding the series index from the row keys", "first_day", fault.DayText(d.FirstDay), "last_day",
			fault.DayText(d.LastDay))
		if err := db.index.Rebuild(ctx, int64(d.FirstDay), int64(d.LastDay)); err != nil {
			return err
		}
	}
	if db.lostFrom(storage.TableMeta) {
		log.Warn("table meta has lost rows: set the schema rules again with --config.file; deletions that were not " +
			"cleaned yet are lost; senders send the metadata of metrics again")
	}
	if err := db.tables.Sync(ctx); err != nil {
		return err
	}
	return db.tables.(*pebble.Store).ConfirmLosses()
}

// activeQueriesName is the file in --storage.path with the running queries.
const activeQueriesName = "queries.active"

// openQueryLog opens the log of slow queries and the file of active ones. The caller holds the lock of --storage.path. Mode
// direct has no such directory, so it does not record active queries.
func openQueryLog(c *serveConfig, log *slog.Logger, r prometheus.Registerer) (*querylog.Log, error) {
	opts := querylog.Options{
		File: c.queryLogFile, SlowerThan: c.queryLogSlower, Slots: cmp.Or(c.queryConcurrency, query.DefaultConcurrencyMax()),
		Logger: log, Registerer: r,
	}
	if !c.direct() {
		opts.ActiveFile = filepath.Join(c.storagePath, activeQueriesName)
	}
	return querylog.Open(opts)
}
