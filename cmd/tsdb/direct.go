package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"halite/ingest"
	"halite/keyschema"
	"halite/query"
	"halite/query/promql"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/lease"
)

// Modes of a server on Bigtable, as --bigtable.mode takes them.
const (
	modeBuffered = "buffered"
	modeDirect   = "direct"
)

// directConfig holds the flags of mode direct.
type directConfig struct {
	mode      string
	refresh   time.Duration
	packDelay time.Duration
	packEvery time.Duration
	writeWait time.Duration
	lease     time.Duration
}

func (c *directConfig) addFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("bigtable.mode", "buffered: one server, with a log and the open hour on its disk. direct: each sample is stored "+
		"in Bigtable before it is acknowledged; any number of servers, without a disk, share the tables.").
		Default(modeBuffered).EnumVar(&c.mode, modeBuffered, modeDirect)
	cmd.Flag("bigtable.refresh", "Mode direct: how often to look for what other servers have written.").Default("2s").
		DurationVar(&c.refresh)
	cmd.Flag("bigtable.pack-delay", "Mode direct: how long after its end the rows of an hour are packed; the servers' clocks "+
		"may differ by two thirds of it.").Default("15m").DurationVar(&c.packDelay)
	cmd.Flag("bigtable.pack-interval", "Mode direct: how often the server that packs looks for hours that are due.").
		Default("1m").DurationVar(&c.packEvery)
	cmd.Flag("bigtable.write-timeout", "Mode direct: how long a write may take, repetitions of what Bigtable did not take "+
		"included, before it is answered 503.").Default("20s").DurationVar(&c.writeWait)
	cmd.Flag("bigtable.lease", "Mode direct: how long the others wait before they go on with the work of a server that has "+
		"died: packing, folding, sweeping, rollups.").Default("90s").DurationVar(&c.lease)
}

// Validate names flags that contradict each other.
func (c *directConfig) Validate(s *serveConfig) error {
	switch {
	case c.refresh <= 0 || c.packDelay <= 0 || c.packEvery <= 0 || c.writeWait <= 0 || c.lease <= 0:
		return errors.New("--bigtable.refresh, --bigtable.pack-delay, --bigtable.pack-interval, --bigtable.write-timeout and " +
			"--bigtable.lease must be above 0")
	case c.mode == modeDirect && s.engine != engineBigtable:
		return errors.New("--bigtable.mode=direct needs --storage.engine=bigtable")
	}
	return nil
}

func (c *serveConfig) direct() bool {
	return c.engine == engineBigtable && c.directMode.mode == modeDirect
}

// ingester is what takes samples in: *ingest.Ingester or *ingest.Through.
type ingester interface {
	sampleWriter
	promql.Head
	query.Changes
	WriteRemote(ctx context.Context, body []byte) (ingest.Result, error)
	Metadata(metric string, limit int) map[string][]ingest.Metadata
	Flush(ctx context.Context) error
	Stats() ingest.Stats
	SeriesLimits(most int) ingest.SeriesLimitStatus
	Close(ctx context.Context) error
}

func (c *serveConfig) ingestLimits() ingest.Limits {
	return ingest.Limits{
		BodyBytesMax: int(c.bodyBytesMax), DecodedBytesMax: int(c.bodyBytesMax), LabelsPerSeriesMax: c.labelsMax,
		SeriesMax: c.seriesMax, SeriesWarn: c.seriesWarn, SeriesDryRun: c.seriesDryRun, AheadMax: c.aheadMax,
		InFlightBytesMax: c.inFlightBytesMax,
	}
}

// openDirect opens the catalogue and what stores samples in the tables. Nothing that was read is kept for other queries,
// because other servers write.
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
	guard := tableGuard{meta: meta, schema: db.schema, ahead: c.aheadOrDefault(), now: opts.Now}
	if db.rollupTurn, err = lease.NewKeeper(lease.Options{
		Meta: meta, Name: rollupLease, Holder: opts.Writer, TTL: c.directMode.lease, Now: opts.Now,
	}, opts.Logger); err != nil {
		return err
	}
	ages := db.retention.Tier(keyschema.Raw) // the catalogue's may be longer
	t, err := ingest.OpenThrough(ctx, ingest.ThroughOptions{
		Tombstones: db.deleted, States: turnStates{db.tiers, db, db.rollups(c)}, Fresh: db.tiers.Refresh,
		Store: db.store, Index: db.index, Writer: opts.Writer, Schema: db.schema, Retention: time.Duration(ages.Longest()),
		Ages: ages, Limits: c.ingestLimits(), Refresh: c.directMode.refresh, PackDelay: c.directMode.packDelay,
		MarkAfter: c.directMode.packDelay / 3, PackInterval: c.directMode.packEvery,
		WriteTimeout: c.directMode.writeWait, LeaseTTL: c.directMode.lease,
		Guard: guard.check, Now: opts.Now, Logger: opts.Logger, Registerer: opts.Registerer,
	})
	if err != nil {
		return err
	}
	db.ingester, db.catalogue, db.deleter = t, t.Catalogue(), t
	c.resultCacheBytes, c.rowCacheBytes = 0, 0
	return nil
}

// share makes the tables those of servers in mode direct, or fails if they are one server's.
func share(ctx context.Context, store storage.Store, takeOver bool, now time.Time) error {
	meta, err := store.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return err
	}
	them, err := own(ctx, meta, owner{Mode: modeDirect, Since: now.UTC()}, takeOver)
	if err != nil && them.Since.IsZero() {
		return err
	}
	return them.checkShared()
}

// checkShared reports that the tables are one server's.
func (o *owner) checkShared() error {
	switch {
	case o.Mode == modeDirect:
		return nil
	case o.ID == "":
		return fmt.Errorf("%w: %s is not there, which says whose the tables are", storage.ErrUnavailable, ownerCell())
	}
	return o.taken()
}

// tableGuard sees to it that a server in mode direct writes only to tables that are still shared, by the rules in force.
type tableGuard struct {
	meta   storage.Table
	schema *keyschema.Schema
	ahead  time.Duration // how far samples may lie in the future
	now    func() time.Time
	rules  []byte // as they were last read
}

// check reads both from the tables. Rules that another server has put there begin in an hour to come and are taken.
func (g *tableGuard) check(ctx context.Context) error {
	them, err := readOwner(ctx, g.meta)
	if err == nil {
		err = them.checkShared()
	}
	if err != nil {
		return err
	}
	stored, err := readRules(ctx, g.meta)
	if err != nil {
		return err
	}
	text, err := json.Marshal(stored)
	if err != nil || len(stored) == 0 || bytes.Equal(text, g.rules) {
		return err
	}
	next, err := keyschema.NewSchema(stored)
	if err != nil {
		err = rulesCell().Corrupt(err)
	} else {
		err = g.schema.Replace(next, keyschema.HourOf(g.now().Add(g.ahead).UnixMilli()))
	}
	if err != nil {
		return fmt.Errorf("schema rules of another server: restart this one: %w", err)
	}
	g.rules = text
	return nil
}
