package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/ingest/identity"
	"halite/ingest/wal"
	"halite/storage"
	"halite/storage/pebble"
)

// acceptsTableLoss tells whether tables may lack rows: because that is accepted, or because they have lost some of table meta, as
// accepted.
func (c *serveConfig) acceptsTableLoss(tables storage.Store) bool {
	if s, ok := tables.(*pebble.Store); ok && lostFrom(s.Lost(), storage.TableMeta) {
		return true
	}
	return slices.Contains(c.acceptTableLoss, acceptAll)
}

// takesOver tells whether the tables may have belonged to another log.
func (c *serveConfig) takesOver() bool { return c.engine == engineBigtable && c.takeOver }

// checkIdentity compares the tables, nil if there are none, with the log in the directory. It changes nothing.
func (c *serveConfig) checkIdentity(ctx context.Context, tables storage.Store, log *slog.Logger) (pebble.Admission, error) {
	verdict, err := identity.Check(ctx, identity.Options{
		Store: tables, FS: vfs.Default, Dir: walDir(c.storagePath), AcceptWALLoss: c.acceptWALLoss,
		AcceptTableLoss: c.acceptsTableLoss(tables), TakeOver: c.takesOver(), Logger: log,
	})
	switch {
	case err != nil && c.engine == engineBigtable:
		return 0, onBigtable{err}
	case verdict == identity.SetTablesAside && c.engine == engineBigtable:
		return 0, errors.New("tables in Bigtable are not set aside: start with another --bigtable.table-prefix")
	case verdict == identity.SetTablesAside:
		return pebble.AdmitNone, err
	case verdict == identity.KeepOlderTables:
		return pebble.AdmitOlder, err
	}
	return pebble.AdmitTables, err
}

// onBigtable is an error about tables in Bigtable.
type onBigtable struct{ error }

// Unwrap returns the error itself.
func (e onBigtable) Unwrap() error { return e.error }

// withAdvice says what an operator can do about data that is damaged or missing.
func withAdvice(err error) error {
	if advice := adviceFor(err); advice != "" {
		return fmt.Errorf("%w\n%s See docs/operations.md", err, advice)
	}
	return err
}

func adviceFor(err error) string {
	var damage *wal.DamageError
	var mismatch *identity.Error
	switch {
	case errors.As(err, &mismatch):
		return identityAdvice(mismatch.Lost, errors.As(err, new(onBigtable)))
	case errors.As(err, &damage):
		return "Restore the whole directory from a backup. Or start with --storage.accept-wal-loss: it keeps every record that can " +
			"be read, names the rest and moves damaged files to wal/damaged."
	}
	return ""
}

func identityAdvice(lost string, bigtable bool) string {
	const (
		logLost = "Put the missing log back. Or start with --storage.accept-wal-loss: it keeps the tables, moves a log " +
			"that they do not need to wal/damaged and gives up the samples named above."
		tablesLost = "Put the missing tables back, for instance mount their volume. Or start with --storage.accept-table-loss=all: " +
			"it keeps the log and those tables that are there, and gives up the samples named above."
	)
	switch {
	case lost == identity.LostIdentity:
		return "This build cannot read the data of the build that wrote it. Start that build, or start this one on an empty " +
			"directory."
	case bigtable && lost != identity.LostTables:
		return "The tables were last written by a server with a newer or another log: start that server. If it has stopped for good, " +
			"start this one with --bigtable.take-over: it gives up the samples named above."
	case lost == identity.LostLog:
		return logLost
	case lost == identity.LostTables:
		return tablesLost
	}
	return "Put back the side that is not of this store. Or give up one side: --storage.accept-wal-loss keeps the tables and " +
		"moves the log to wal/damaged; --storage.accept-table-loss=all keeps the log and moves the tables to tables/lost."
}
