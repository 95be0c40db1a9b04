package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"halite/keyschema"
	"halite/query"
	"halite/rollup"
	"halite/rollup/job"
	rollupstore "halite/rollup/store"
	"halite/storage"
	"halite/storage/tombstone"
)

// hoursDefault is the retention of hourly states, unless samples are kept longer.
const hoursDefault = 400 * 24 * time.Hour

// Values of the flag --query.tiers.
const (
	tiersAuto = "auto"
	tiersRaw  = "raw"
)

// tiersSwitch converts --query.tiers for the query engine.
func (c *serveConfig) tiersSwitch() query.Switch {
	if c.queryTiers == tiersRaw {
		return query.Off
	}
	return query.Default
}

// rollupConfig holds the flags of `tsdb serve` about rollups.
type rollupConfig struct {
	hours    model.Duration
	hoursSet bool
	days     model.Duration
	on, set  bool // set: the flag was given
}

func (c *rollupConfig) addFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("storage.retention.hours", "Retention of hourly rollups, not shorter than raw samples; 0 is for ever. Default: "+
		"400d, or the retention of raw samples if that is longer.").IsSetByUser(&c.hoursSet).SetValue(&c.hours)
	cmd.Flag("storage.retention.days", "Retention of daily rollups, not shorter than hourly rollups; 0 is for ever.").
		Default("0s").SetValue(&c.days)
	cmd.Flag("storage.rollups", "Compute rollups of closed days, including past ones, and answer long windows from them. On by "+
		"default with the embedded engine, off with Bigtable.").Default("true").IsSetByUser(&c.set).BoolVar(&c.on)
}

// rollupsOn reports whether the server computes and reads rollups.
func (c *serveConfig) rollupsOn() bool {
	return c.rollups.on && (c.rollups.set || c.engine == enginePebble)
}

// retention returns the retention of hours and days, for a retention of raw samples.
func (c *rollupConfig) retention(raw time.Duration) (hours, days time.Duration) {
	if c.hoursSet {
		return time.Duration(c.hours), time.Duration(c.days)
	}
	if raw == 0 {
		return 0, time.Duration(c.days)
	}
	return max(hoursDefault, raw), time.Duration(c.days)
}

// Validate returns an error about contradicting flags.
func (c *rollupConfig) Validate(raw time.Duration) error {
	hours, days := c.retention(raw)
	if err := rollupstore.CheckRetention(raw, hours, days); err != nil {
		return fmt.Errorf("--storage.retention.hours, --storage.retention.days: %w", err)
	}
	return nil
}

// openTiers opens the rollups beside the data table. It returns nil if there are none. The job does not run yet.
//
// In Bigtable, finding the days with samples may read the whole table. So rollups exist there only after a server has asked
// for them, and then stay consistent. Servers that share tables keep them consistent from the beginning, because any of
// these servers may ask for them. With reset, the job computes all days with samples again, because the table has lost rows.
func openTiers(
	ctx context.Context, c *serveConfig, store storage.Store, deleted *tombstone.Set, retention *keyschema.Retention,
	log *slog.Logger, r prometheus.Registerer, shared *rollupstore.Shared, reset bool,
) (*job.Rollups, error) {
	if c.engine == engineBigtable && !c.rollupsOn() && shared == nil {
		schemas, err := store.Tables(ctx)
		exists := slices.ContainsFunc(schemas, func(s storage.TableSchema) bool { return s.Name == storage.TableRollup })
		if err != nil || !exists {
			return nil, err
		}
	}
	longest, interval := retention.Longest(), time.Duration(0)
	if shared != nil {
		interval = c.directMode.packEvery
	}
	return job.Open(ctx, rollupstore.Options{
		Tables: store, Raw: time.Duration(longest[keyschema.Raw]), Hours: time.Duration(longest[keyschema.Hours]),
		Days: time.Duration(longest[keyschema.Days]), RetentionByMetric: retention, Deletions: deleted, Shared: shared,
		Logger: log, Registerer: r, Now: c.clock(), Reset: reset,
	}, job.Options{Interval: interval, Registerer: r})
}

// rollupCommands verify and rebuild the rollups of a stopped server.
type rollupCommands struct {
	verify, rebuild *kingpin.CmdClause
	tables          offlineConfig
	packDelay       time.Duration
	from, to        string
	reset           bool
}

func addRollupCommands(cmd *kingpin.CmdClause) *rollupCommands {
	c := &rollupCommands{}
	c.verify = cmd.Command("verify", "Compute rollups from raw samples again and report each bucket that differs. After a crash, "+
		"start and stop the server once first, so that its log is in the tables.")
	c.rebuild = cmd.Command("rebuild", "Compute rollups from raw samples again and store them.")
	for _, sub := range []*kingpin.CmdClause{c.verify, c.rebuild} {
		c.tables.addFlags(sub)
		sub.Flag("bigtable.pack-delay", "The --bigtable.pack-delay of servers in mode direct, which need not stop.").Default("15m").
			DurationVar(&c.packDelay)
		sub.Flag("from", "First day, as 2006-01-02 in UTC; default: the first day with samples.").StringVar(&c.from)
		sub.Flag("to", "Last day; default: the last closed day.").StringVar(&c.to)
	}
	c.rebuild.Flag("reset", "Discard the manifest of rollups, which may be damaged, and compute all days with samples.").
		BoolVar(&c.reset)
	return c
}

// run runs one of the commands until it ends or is interrupted.
func (c *rollupCommands) run(command string, w io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	first, last, err := c.days()
	if err != nil {
		return err
	}
	rebuild := command == c.rebuild.FullCommand()
	store, shared, err := c.open(ctx)
	if err != nil {
		return err
	}
	if shared {
		err = c.runShared(ctx, store, rebuild, first, last, w)
	} else {
		err = c.runAlone(ctx, store, rebuild, first, last, w)
	}
	return errors.Join(err, store.Close())
}

// runAlone works on tables that no server uses.
func (c *rollupCommands) runAlone(
	ctx context.Context, store storage.Store, rebuild bool, first, last int64, w io.Writer,
) error {
	deleted, undeleted, err := openTombstones(ctx, &serveConfig{}, store, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	opts := rollupstore.Options{Tables: undeleted, Deletions: deleted, Reset: c.reset && rebuild}
	return runRollupJob(ctx, store, opts, job.Options{Share: 1, Settle: -1}, rebuild, first, last, w)
}

// runRollupJob opens rollups with the retention of their server, and rebuilds or verifies them.
func runRollupJob(
	ctx context.Context, store storage.Store, opts rollupstore.Options, jobOpts job.Options, rebuild bool, first, last int64,
	w io.Writer,
) error {
	if err := storedRetention(ctx, store, &opts); err != nil {
		return err
	}
	t, err := job.Open(ctx, opts, jobOpts)
	if err != nil {
		return err
	}
	if !rebuild {
		return verifyRollups(ctx, t, first, last, w)
	}
	if err := t.Rebuild(ctx, first, last); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, "rebuilt")
	return err
}

// days returns the first and last wanted day, since 1970.
func (c *rollupCommands) days() (first, last int64, err error) {
	first, last = 0, math.MaxInt32
	for _, flag := range []struct {
		name, text string
		day        *int64
	}{{"--from", c.from, &first}, {"--to", c.to, &last}} {
		if flag.text == "" {
			continue
		}
		at, err := time.Parse(time.DateOnly, flag.text)
		if err != nil || at.Unix() < 0 {
			return 0, 0, fmt.Errorf("%s: %q is not a day since 1970 in the form 2006-01-02", flag.name, flag.text)
		}
		*flag.day = at.UnixMilli() / keyschema.DayMs
	}
	if last < first {
		return 0, 0, fmt.Errorf("--to %s is before --from %s", c.to, c.from)
	}
	return first, last, nil
}

// storedRetention sets the retention that the server last ran with.
func storedRetention(ctx context.Context, store storage.Store, opts *rollupstore.Options) error {
	schemas, err := store.Tables(ctx)
	if err != nil {
		return err
	}
	for _, schema := range schemas {
		for _, f := range schema.Families {
			switch {
			case schema.Name == storage.TableData && f.Name == storage.FamilySamples:
				opts.Raw = f.GC.MaxAge
			case schema.Name == storage.TableRollup && f.Name == storage.FamilyHours:
				opts.Hours = f.GC.MaxAge
			case schema.Name == storage.TableRollup && f.Name == storage.FamilyDays:
				opts.Days = f.GC.MaxAge
			}
		}
	}
	return nil
}

// verifyRollups prints each difference and fails if there is one.
func verifyRollups(ctx context.Context, t *job.Rollups, first, last int64, w io.Writer) error {
	v, err := t.Verify(ctx, first, last, func(d job.Difference) error {
		at, unit := time.UnixMilli(d.Bucket*d.Unit.Ms()).UTC().Format(time.RFC3339), "hour"
		if d.Unit == rollupstore.Days {
			unit = "day"
		}
		if d.Err != nil {
			_, err := fmt.Fprintf(w, "%s from %s of %s: %v\n", unit, at, d.Prefix, d.Err)
			return err
		}
		_, err := fmt.Fprintf(w, "%s %s of %s: stored %s, computed %s\n", unit, at, d.Prefix, stateText(d.Stored),
			stateText(d.Computed))
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "compared %d hours and %d days, %d differ; skipped %d dirty hours, %d series without a cell, "+
		"%d pending days and %d pending months, and %d hours whose samples have expired\n",
		v.Hours, v.Days, v.Different, v.Stale, v.Missing, v.PendingDays, v.PendingMonths, v.Orphans)
	if v.Different > 0 {
		return errors.New("rollups differ from raw samples: tsdb rollup rebuild repairs them")
	}
	return nil
}

func stateText(s rollup.State) string {
	return fmt.Sprintf("{count %d, first %g, last %g, sum %g, min %g, max %g, resets %d, changes %d}",
		s.Count, s.First, s.Last, s.Total(), s.Min, s.Max, s.Resets, s.Changes)
}
