package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/cmd/tsdb/internal/tables"
	"halite/keyschema"
	"halite/keyschema/tsuid"
	rollupstore "halite/rollup/store"
	"halite/storage"
	"halite/storage/aliases"
	"halite/storage/notes"
	"halite/storage/retention"
)

// openRules loads the schema rules. Then it opens rollups and the sweeper, which depend on the retention in these rules. The
// sweeper does not run yet.
func (db *database) openRules(
	ctx context.Context, c *serveConfig, opened storage.Store, log *slog.Logger, r prometheus.Registerer,
) (err error) {
	if db.config, err = c.readConfig(); err != nil {
		return err
	}
	if db.tenancy, db.tenantList, err = c.web.tenants.open(ctx, opened, c.clock(), c.sharedCPUs()); err != nil {
		return err
	}
	db.schema, err = tables.LoadSchema(ctx, opened, c.wantedRules(db.config), c.lastHour())
	if err != nil && c.configFile != "" {
		return fmt.Errorf("%s: %w", c.configFile, err)
	} else if err != nil {
		return err
	}
	kept, err := retentionOf(c, db.schema)
	if err != nil {
		return err
	}
	db.retention = keyschema.NewRetention(kept)
	if err := retention.StoreServerRetention(ctx, opened, c.ages()); err != nil {
		return err
	}
	if !c.direct() {
		if err := db.clock.Load(ctx, opened); err != nil {
			return err
		}
	}
	if db.tiers, err = db.openTiers(ctx, c, log, r); err != nil {
		return err
	}
	opts := retention.Options{Store: opened, Retention: db.retention, SeriesTier: db.seriesTier(c), MaySweep: db.maintains,
		Now: db.clock.Now, Logger: log, Registerer: r}
	if c.direct() {
		opts.CheckInterval = c.directMode.lease / 3
	}
	if db.tiers != nil && c.rollups.on && (c.rollupsOn() || !c.direct()) {
		opts.Needed = db.tiers.OldestNeeded
	}
	if db.sweeper, err = retention.New(opts); err != nil {
		return err
	}
	meta, err := opened.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return fmt.Errorf("open table %s: %w", storage.TableMeta, err)
	}
	db.notes = notes.New(meta, opened.Sync)
	db.aliases, err = aliases.Open(ctx, aliases.Options{Store: opened, Max: c.aliasesMax, Now: c.clock()})
	if err != nil {
		return err
	}
	return db.openKeyviz(ctx, c, meta, log, r)
}

// watchClock notes the time of the server, which tells a jump of the clock from time that has passed. Servers in mode direct,
// whose clocks may differ, do not.
func (db *database) watchClock(c *serveConfig, log *slog.Logger) {
	if c.direct() {
		return
	}
	db.jobs.Add(retention.ClockInterval, nil, func(ctx context.Context) {
		if err := db.clock.Tick(ctx); err != nil && ctx.Err() == nil {
			log.Warn("cannot store the time that the server has seen; the server tries again", "err", err)
		}
	})
}

// sweepNotes deletes annotations once a day when they are older than hourly rollups of their metric.
func (db *database) sweepNotes(c *serveConfig, log *slog.Logger) {
	db.jobs.AddNow(24*time.Hour, func(ctx context.Context) {
		deleted, err := db.deleteOldNotes(ctx, c)
		if err != nil && ctx.Err() == nil {
			log.Error("cannot delete old annotations; the server tries again tomorrow", "err", err)
		} else if deleted > 0 {
			log.Info("deleted old annotations", "annotations", deleted)
		}
	})
}

// deleteOldNotes deletes annotations that are older than hourly rollups of their metric. Annotations of all series, and of
// metrics without series, have the age of metrics without a rule. If tenants keep a metric for different times, the longest one
// counts.
func (db *database) deleteOldNotes(ctx context.Context, c *serveConfig) (deleted int, err error) {
	nowMs, kept, metrics := db.clock.Now().UnixMilli(), db.retention.Load(), []string(nil)
	if len(kept.Rules()) > 1 {
		if metrics, err = db.index.LabelValues(ctx, "__name__", 0, keyschema.TimeMaxMs, 0); err != nil {
			return 0, fmt.Errorf("list the metrics: %w", err)
		}
	}
	cutoffs := map[string]int64{} // by the UID of the metric
	for _, stored := range metrics {
		_, name := keyschema.SplitTenant(stored)
		uid, cutoffMs := tsuid.Derive(tsuid.Metric, name).String(), kept.ForMetric(stored)[keyschema.Hours].CutoffMs(nowMs)
		if earlierMs, several := cutoffs[uid]; several {
			cutoffMs = min(cutoffMs, earlierMs)
		}
		cutoffs[uid] = cutoffMs
	}
	restMs := c.ages()[keyschema.Hours].CutoffMs(nowMs)
	return db.notes.Sweep(ctx, func(series string) int64 {
		if cutoffMs, ruled := cutoffs[series[:min(2*tsuid.Width, len(series))]]; ruled {
			return cutoffMs
		}
		return restMs
	})
}

// ages returns the retention of metrics without a rule.
func (c *serveConfig) ages() keyschema.RetentionByTier {
	raw := time.Duration(c.retentionRaw)
	hours, days := c.rollups.retention(raw)
	ages := keyschema.NewRetentionByTier(raw, hours, days)
	ages[keyschema.NativeHistograms] = keyschema.Age(c.histogramRetention) // 0 is raw
	return ages
}

// retentionOf returns the retention of each metric, by rule or by flag.
func retentionOf(c *serveConfig, schema *keyschema.Schema) (*keyschema.RetentionByMetric, error) {
	kept, err := schema.Retention(c.ages())
	if err != nil {
		return nil, fmt.Errorf("retention rules: %w", err)
	}
	return kept, nil
}

// changeRetention calls apply, which applies the rules of a configuration, and then applies their retention. If the
// retention is refused, it does not call apply.
func (db *database) changeRetention(
	ctx context.Context, c *serveConfig, wanted []keyschema.Rule, apply func() error,
) error {
	if wanted == nil {
		return apply()
	}
	schema, err := keyschema.NewSchema(db.schema.Begin(wanted, c.lastHour()))
	if err != nil {
		return fmt.Errorf("%s: %w", c.configFile, err)
	}
	next, err := retentionOf(c, schema)
	if err != nil {
		return fmt.Errorf("%s: %w", c.configFile, err)
	}
	if slices.Equal(next.Rules(), db.retention.Load().Rules()) {
		return apply()
	}
	return db.sweeper.Change(ctx, next, func() error {
		if err := apply(); err != nil {
			return err
		}
		err := db.index.ChangeRetention(ctx, next.Longest()[db.seriesTier(c)], func() { db.replaceRetention(next) })
		if err != nil {
			return fmt.Errorf("the retention stays as it was; reload again: %w", err)
		}
		return nil
	})
}

// replaceRetention applies another retention. It invalidates all caches, because a new retention hides or shows samples.
func (db *database) replaceRetention(next *keyschema.RetentionByMetric) {
	_ = db.changingSamples(0, keyschema.TimeMaxMs, func() error {
		db.retention.Replace(next)
		return nil
	})
	db.ingester.ChangedTimes(0, keyschema.TimeMaxMs)
}

// seriesTier is the tier whose retention the index has: it keeps each series as long as its samples or rollups are kept.
func (db *database) seriesTier(c *serveConfig) keyschema.Tier {
	if db.rollups(c) {
		return keyschema.Days
	}
	return keyschema.Raw
}

// sharedRollups returns the options for rollups that servers in mode direct share; nil in other modes.
func (db *database) sharedRollups(c *serveConfig) *rollupstore.Shared {
	if !c.direct() {
		return nil
	}
	return &rollupstore.Shared{
		HoldsLease: func() bool { return db.rollupLease != nil && db.rollupLease.Held() },
		Margin:     c.directMode.packDelay, Fresh: db.deleted.Refresh,
	}
}

// metricBytes estimates the space of the samples of a metric on a day, without samples that only memory and log have.
func (db *database) metricBytes(ctx context.Context, metric string, day int64) (sizeBytes int64, err error) {
	table, err := db.tables.Table(ctx, storage.TableData)
	if err != nil {
		return 0, err
	}
	spans, ok := table.(storage.SpanTable)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	var rows storage.RowRange
	rows.Start, rows.End = keyschema.MetricRows(metric)
	return spans.SpanBytes(ctx, storage.CellSpan{
		Family: storage.FamilySamples, Rows: []storage.RowRange{rows}, FromDay: day, ToDay: day + 1,
	})
}
