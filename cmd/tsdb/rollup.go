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

// hoursDefault is how long the states of hours are kept, unless samples are kept longer.
const hoursDefault = 400 * 24 * time.Hour

// Values of the flag --query.tiers.
const (
	tiersAuto = "auto"
	tiersRaw  = "raw"
)

// tiersSwitch is the flag for the engine.
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
	on, set  bool // set tells that on was asked for, either way
}

func (c *rollupConfig) addFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("storage.retention.hours", "How long rollups of hours are kept, at least as long as raw samples; 0 keeps them for "+
		"ever. Default: 400d, or as long as raw samples if that is longer.").IsSetByUser(&c.hoursSet).SetValue(&c.hours)
	cmd.Flag("storage.retention.days", "How long rollups of days are kept, at least as long as those of hours; 0 keeps them "+
		"for ever.").Default("0s").SetValue(&c.days)
	cmd.Flag("storage.rollups", "Compute rollups of closed days, past ones too, and answer long windows from them. The default on "+
		"the embedded engine; in Bigtable they have to be asked for.").Default("true").IsSetByUser(&c.set).BoolVar(&c.on)
}

// rollupsOn tells whether rollups are computed and read.
func (c *serveConfig) rollupsOn() bool {
	return c.rollups.on && (c.rollups.set || c.engine == enginePebble)
}

// retention is how long hours and days are kept beside raw samples.
func (c *rollupConfig) retention(raw time.Duration) (hours, days time.Duration) {
	if c.hoursSet {
		return time.Duration(c.hours), time.Duration(c.days)
	}
	if raw == 0 {
		return 0, time.Duration(c.days)
	}
	return max(hoursDefault, raw), time.Duration(c.days)
}

// Validate names flags that contradict each other.
func (c *rollupConfig) Validate(raw time.Duration) error {
	hours, days := c.retention(raw)
	if err := rollupstore.CheckRetention(raw, hours, days); err != nil {
		return fmt.Errorf("--storage.retention.hours, --storage.retention.days: %w", err)
	}
	return nil
}

// openTiers opens the rollups beside the data table; nil if nobody needs them. The job does not run yet. In Bigtable, where
// to look for days with samples may mean to read the whole table, rollups exist once they were asked for; from then on
// they are kept true; servers that share the tables keep them true from the beginning, for any of them may be asked. With reset
// all days with samples are computed again, because the table has lost some of its rows.
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
		interval = c.throughMode.packEvery
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
	c.verify = cmd.Command("verify", "Compute rollups from raw samples once more and name each bucket that differs. After a crash, "+
		"start and stop the server once before, so that its log is in the tables.")
	c.rebuild = cmd.Command("rebuild", "Compute rollups from raw samples once more and store them.")
	for _, sub := range []*kingpin.CmdClause{c.verify, c.rebuild} {
		c.tables.addFlags(sub)
		sub.Flag("bigtable.pack-delay", "That of the servers in mode through, which need not stop.").Default("15m").
			DurationVar(&c.packDelay)
		sub.Flag("from", "First day, as 2006-01-02 in UTC; default: the first with samples.").StringVar(&c.from)
		sub.Flag("to", "Last day; default: the last that has closed.").StringVar(&c.to)
	}
	c.rebuild.Flag("reset", "Forget which days are valid, as after damage to that record, and compute all days with samples.").
		BoolVar(&c.reset)
	return c
}

// run runs one of the commands until it is done or interrupted.
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

// runAlone works on tables that nobody else uses.
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

// days are the first and last day asked for, since 1970.
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
			return 0, 0, fmt.Errorf("%s: %q is no day since 1970 in the form 2006-01-02", flag.name, flag.text)
		}
		*flag.day = at.UnixMilli() / (keyschema.DayHours * keyschema.HourMs)
	}
	if last < first {
		return 0, 0, fmt.Errorf("--to %s is before --from %s", c.to, c.from)
	}
	return first, last, nil
}

// storedRetention keeps the retention that the server last ran with.
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
	fmt.Fprintf(w, "%d hours and %d days compared, %d differ; %d hours marked as stale, %d series without a cell, "+
		"%d days and %d months yet to compute; the samples of %d hours are gone\n",
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
