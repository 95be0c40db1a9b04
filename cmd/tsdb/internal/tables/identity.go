package tables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/cmd/tsdb/internal/datadir"
	"halite/ingest/identity"
	"halite/ingest/wal"
	"halite/storage"
	"halite/storage/pebble"
)

// Identity names tables and log that must belong together, and the accepted losses of them.
type Identity struct {
	Engine, StoragePath string
	// TakeOver lets tables in Bigtable belong to another log.
	TakeOver      bool
	AcceptWALLoss bool
	// AcceptTableLoss names the lost files of tables that are accepted, or AcceptAll.
	AcceptTableLoss []string
}

// AcceptsTableLoss reports whether tables may lack rows: because the loss of tables is accepted, or because an accepted loss has
// removed rows of table meta.
func (c *Identity) AcceptsTableLoss(tables storage.Store) bool {
	if s, ok := tables.(*pebble.Store); ok && LostFrom(s.Lost(), storage.TableMeta) {
		return true
	}
	return slices.Contains(c.AcceptTableLoss, AcceptAll)
}

// TakesOver reports whether the tables may have belonged to another log.
func (c *Identity) TakesOver() bool { return c.Engine == EngineBigtable && c.TakeOver }

// Check compares the tables, nil if there are none, with the log in the directory. It changes nothing.
func (c *Identity) Check(ctx context.Context, tables storage.Store, log *slog.Logger) (pebble.Admission, error) {
	verdict, err := identity.Check(ctx, identity.Options{
		Store: tables, FS: vfs.Default, Dir: datadir.WALDir(c.StoragePath), AcceptWALLoss: c.AcceptWALLoss,
		AcceptTableLoss: c.AcceptsTableLoss(tables), TakeOver: c.TakesOver(), Logger: log,
	})
	switch {
	case err != nil && c.Engine == EngineBigtable:
		return 0, onBigtable{err}
	case verdict == identity.SetTablesAside && c.Engine == EngineBigtable:
		return 0, errors.New("tables in Bigtable cannot be set aside: start with another --bigtable.table-prefix")
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

// WithAdvice adds to an error what an operator can do about damaged or missing data.
func WithAdvice(err error) error {
	if advice := AdviceFor(err); advice != "" {
		return fmt.Errorf("%w\n%s See docs/operations.md", err, advice)
	}
	return err
}

func AdviceFor(err error) string {
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
	return "Restore the log or the tables of this store, whichever is foreign. Or give up one of them: " +
		"--storage.accept-wal-loss keeps the tables and " +
		"moves the log to wal/damaged; --storage.accept-table-loss=all keeps the log and moves the tables to tables/lost."
}
