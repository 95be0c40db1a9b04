package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"halite/cmd/tsdb/internal/backup"
	"halite/cmd/tsdb/internal/program"
	"halite/cmd/tsdb/internal/tables"
	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/job"
	rollupstore "halite/rollup/store"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/lease"
	"halite/storage/tombstone"
)

// rollupCommands verify and rebuild rollups.
type rollupCommands struct {
	snapshot  snapshotFlags
	source    tables.OfflineFlags
	packDelay time.Duration
	from, to  string
	reset     bool
}

// rollupTask verifies or rebuilds rollups.
type rollupTask struct {
	rebuild bool
	// reset discards the manifest of rollups before a rebuild.
	reset bool
	// first and last are days since 1970.
	first, last int64
	out         io.Writer
}

// AddRollup declares `tsdb rollup` and its sub-commands.
func AddRollup(app *kingpin.Application) program.Commands {
	cmd := app.Command("rollup", "Check or compute rollups.")
	c := &rollupCommands{}
	verify := cmd.Command("verify", "Recompute the rollups of a stopped server, or with --url of a running one, from raw samples. "+
		"Report each bucket that differs. After a crash, start and stop the server once first, so that its log is in the tables.")
	rebuild := cmd.Command("rebuild", "Recompute the rollups of a stopped server from raw samples and store them.")
	for _, sub := range []*kingpin.CmdClause{verify, rebuild} {
		c.source.AddFlags(sub)
		sub.Flag("bigtable.pack-delay", "The --bigtable.pack-delay of servers in mode direct, which need not stop.").Default("15m").
			DurationVar(&c.packDelay)
		sub.Flag("from", "First day: "+program.TimeForms+". Default: the first day with samples.").StringVar(&c.from)
		sub.Flag("to", "Last day, in the same form. Default: the last closed day.").StringVar(&c.to)
	}
	c.snapshot.addFlags(verify)
	rebuild.Flag("reset", "Discard the manifest of rollups, which may be damaged, and compute all days with samples.").
		BoolVar(&c.reset)
	return program.Commands{
		verify.FullCommand():  c.verify,
		rebuild.FullCommand(): c.rebuild,
	}
}

// verify runs `tsdb rollup verify`.
func (c *rollupCommands) verify(ctx context.Context, w io.Writer) error {
	first, last, err := c.days()
	if err != nil {
		return err
	}
	task := &rollupTask{first: first, last: last, out: w}
	return c.snapshot.readTables(ctx, c.source, func(source tables.OfflineFlags) error { return c.run(ctx, source, task) })
}

// rebuild runs `tsdb rollup rebuild`.
func (c *rollupCommands) rebuild(ctx context.Context, w io.Writer) error {
	first, last, err := c.days()
	if err != nil {
		return err
	}
	return c.run(ctx, c.source, &rollupTask{rebuild: true, reset: c.reset, first: first, last: last, out: w})
}

// run runs a task on the tables of source.
func (c *rollupCommands) run(ctx context.Context, source tables.OfflineFlags, task *rollupTask) error {
	store, shared, err := c.open(ctx, source)
	if err != nil {
		return err
	}
	if shared {
		err = task.runShared(ctx, store, c.packDelay)
	} else {
		err = task.runAlone(ctx, store)
	}
	return errors.Join(err, store.Close())
}

// runAlone works on tables that no server uses.
func (t *rollupTask) runAlone(ctx context.Context, store storage.Store) error {
	deleted, undeleted, err := tables.OpenTombstones(ctx, tombstone.Options{Store: store})
	if err != nil {
		return err
	}
	opts := rollupstore.Options{Tables: undeleted, Deletions: deleted, Reset: t.reset}
	return t.run(ctx, store, opts, job.Options{Share: 1, Settle: -1})
}

// run opens rollups with the retention of their server, and rebuilds or verifies them.
func (t *rollupTask) run(ctx context.Context, store storage.Store, opts rollupstore.Options, jobOpts job.Options) error {
	if err := storedRetention(ctx, store, &opts); err != nil {
		return err
	}
	jobOpts.Progress = daysProgress(os.Stderr, time.Now)
	rollups, err := job.Open(ctx, opts, jobOpts)
	if err != nil {
		return err
	}
	if !t.rebuild {
		return t.verify(ctx, rollups)
	}
	if err := rollups.Rebuild(ctx, t.first, t.last); err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.out, "rebuilt")
	return err
}

// daysProgress returns a function that prints the progress of work on days, and the estimated time left.
func daysProgress(w io.Writer, now func() time.Time) func(done, total int) {
	progress, last := backup.NewProgressOf(w, now, "days and months"), 0
	return func(done, total int) {
		if done == 0 {
			progress.Begin(int64(total))
			last = 0
		}
		progress.Add(int64(done - last))
		last = done
	}
}

// days returns the first and last wanted day, since 1970.
func (c *rollupCommands) days() (first, last int64, err error) {
	fromMs, toMs := int64(0), int64(math.MaxInt32*keyschema.DayMs)
	if err := program.ParseRange(c.from, c.to, time.Now(), &fromMs, &toMs); err != nil {
		return 0, 0, err
	}
	if fromMs < 0 {
		return 0, 0, fmt.Errorf("--from: %s is before 1970", c.from)
	}
	if toMs < 0 {
		return 0, 0, fmt.Errorf("--to: %s is before 1970", c.to)
	}
	first, last = fromMs/keyschema.DayMs, toMs/keyschema.DayMs
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
	var raw, hours, days time.Duration
	for _, schema := range schemas {
		for _, f := range schema.Families {
			switch {
			case schema.Name == storage.TableData && f.Name == storage.FamilySamples:
				raw = f.GC.MaxAge
			case schema.Name == storage.TableRollup && f.Name == storage.FamilyHours:
				hours = f.GC.MaxAge
			case schema.Name == storage.TableRollup && f.Name == storage.FamilyDays:
				days = f.GC.MaxAge
			}
		}
	}
	opts.Retention = keyschema.NewRetention(keyschema.Uniform(keyschema.NewRetentionByTier(raw, hours, days)))
	return nil
}

// verify prints each difference and fails if there is one.
func (t *rollupTask) verify(ctx context.Context, rollups *job.Rollups) error {
	v, err := rollups.Verify(ctx, t.first, t.last, func(d job.Difference) error {
		at, unit := time.UnixMilli(d.Bucket*d.Unit.Ms()).UTC().Format(time.RFC3339), "hour"
		if d.Unit == rollupstore.Days {
			unit = "day"
		}
		if d.Err != nil {
			_, err := fmt.Fprintf(t.out, "%s from %s of %s: %v\n", unit, at, d.Prefix, d.Err)
			return err
		}
		_, err := fmt.Fprintf(t.out, "%s %s of %s: stored %s, computed %s\n", unit, at, d.Prefix, stateText(d.Stored),
			stateText(d.Computed))
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "compared %d hours and %d days, %d differ; skipped %d dirty hours, %d series without a cell, "+
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

// open opens the tables. It opens the tables of a single server exclusively, so the server must have stopped. It shares the
// tables of servers in mode direct, and creates and changes nothing in them.
func (c *rollupCommands) open(
	ctx context.Context, source tables.OfflineFlags,
) (store storage.Store, shared bool, err error) {
	if c.packDelay <= 0 {
		return nil, false, errors.New("--bigtable.pack-delay must be above 0")
	}
	if source.Engine != tables.EngineBigtable {
		store, err = source.OpenExclusive(ctx)
		return store, false, err
	}
	checked := source
	checked.Bigtable.CheckTablesOnly = true
	if store, err = checked.Open(ctx); err != nil {
		return nil, false, err
	}
	if shared, err = isShared(ctx, store); err == nil && shared {
		return store, true, nil
	}
	if err = errors.Join(err, store.Close()); err != nil {
		return nil, false, err
	}
	store, err = source.OpenExclusive(ctx)
	return store, false, err
}

// isShared reports whether the tables belong to servers in mode direct.
func isShared(ctx context.Context, store storage.Store) (bool, error) {
	meta, err := store.Table(ctx, storage.TableMeta)
	if err != nil {
		return false, err
	}
	owner, err := tables.ReadOwner(ctx, meta)
	if err != nil {
		return false, fmt.Errorf("read the owner of the tables: %w", err)
	}
	return owner.Mode == tables.ModeDirect, nil
}

// runShared works on tables while servers use them, whose --bigtable.pack-delay is packDelay.
func (t *rollupTask) runShared(ctx context.Context, store storage.Store, packDelay time.Duration) (err error) {
	schemas, err := store.Tables(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(schemas, func(s storage.TableSchema) bool { return s.Name == storage.TableRollup }) {
		return fmt.Errorf("there is no table %s: these servers have no rollups (--storage.rollups)", storage.TableRollup)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	deleted, undeleted, err := tables.OpenTombstones(ctx, tombstone.Options{Store: store, Shared: true, Logger: log})
	if err != nil {
		return err
	}
	meta, err := store.Table(ctx, storage.TableMeta)
	if err != nil {
		return err
	}
	keeper, err := lease.NewKeeper(lease.Options{Meta: meta, Name: tables.RollupLease, Holder: index.NewWriter()}, log)
	if err != nil {
		return err
	}
	if t.rebuild {
		keeper.Start()
		defer func() { err = errors.Join(err, keeper.Close(context.WithoutCancel(ctx))) }()
	}
	return t.run(ctx, store, rollupstore.Options{
		Tables: undeleted, Deletions: deleted, Reset: t.reset, Logger: log,
		Shared: &rollupstore.Shared{HoldsLease: keeper.Held, Margin: packDelay, Fresh: deleted.Refresh},
	}, job.Options{Share: 1, Settle: -1, Interval: min(10*time.Second, packDelay/4)})
}
