package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"halite/ingest/flush"
	"halite/storage"
	"halite/storage/pebble"
	"halite/storage/pebble/fault"
)

// acceptTableLossFlag is the flag that accepts the loss of tables or of parts of them.
const acceptTableLossFlag = "storage.accept-table-loss"

// acceptAll is the value of acceptTableLossFlag that accepts every loss of tables.
const acceptAll = "all"

// normalArgs gives acceptTableLossFlag its default value where it stands alone: kingpin knows no flags with an optional value.
func normalArgs(args []string) []string {
	normal := make([]string, 0, len(args))
	for _, arg := range args {
		if arg == "--"+acceptTableLossFlag {
			arg += "=" + acceptAll
		}
		normal = append(normal, arg)
	}
	return normal
}

// acceptsLoss returns which table files may be left out, nil if none may.
func (c *serveConfig) acceptsLoss() func(file string) bool {
	if len(c.acceptTableLoss) == 0 {
		return nil
	}
	return func(file string) bool {
		return slices.Contains(c.acceptTableLoss, file) || slices.Contains(c.acceptTableLoss, acceptAll)
	}
}

// adviseOnDamage adds to an error about damaged tables, which keeps the server from starting, how to go on.
func adviseOnDamage(err error) error {
	if !errors.Is(err, storage.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w\ntsdb verify lists all damage; --%s=FILE starts without a damaged table file and says what is lost",
		err, acceptTableLossFlag)
}

// lostTables are the losses that the tables have given up and nobody has settled yet.
func (db *database) lostTables() []fault.Damage {
	if s, ok := db.tables.(*pebble.Store); ok {
		return s.Lost()
	}
	return nil
}

// lostFrom tells whether rows of one of the tables are among the losses.
func (db *database) lostFrom(tables ...string) bool {
	return lostFrom(db.lostTables(), tables...)
}

func lostFrom(lost []fault.Damage, tables ...string) bool {
	return slices.ContainsFunc(lost, func(d fault.Damage) bool { return slices.Contains(tables, d.Table) })
}

// restoreSequence makes run numbers go on above those in use, if the row that says so may be lost.
func (db *database) restoreSequence(ctx context.Context) error {
	if !db.lostFrom(storage.TableMeta) {
		return nil
	}
	return flush.RestoreSequence(ctx, db.tables)
}

// settleLosses makes again what can be made from the tables that are left: the series index of the days that have lost a part of
// theirs. openTiers has put the rollups that may have lost some on the list of their job.
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
		log.Warn("table meta has lost rows: give the schema rules again with --storage.schema-rules; deletions that waited for " +
			"their cleaning are forgotten; metadata of metrics comes again from senders")
	}
	if err := db.tables.Sync(ctx); err != nil {
		return err
	}
	return db.tables.(*pebble.Store).ForgetLosses()
}
