package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"halite/cmd/tsdb/internal/datadir"
	"halite/cmd/tsdb/internal/program"
	"halite/cmd/tsdb/internal/tables"
	"halite/storage"
	"halite/storage/pebble"
)

// migrateConfig holds the flags of `tsdb migrate`.
type migrateConfig struct {
	to, storagePath, checkpoint string
	bigtable                    tables.BigtableFlags
	verifyOnly                  bool
	batchBytes                  int64
}

// AddMigrate declares `tsdb migrate`.
func AddMigrate(app *kingpin.Application) program.Commands {
	cmd := app.Command("migrate", "Copy all tables between --storage.path and Bigtable, row by row, and compare them at the end.")
	c := &migrateConfig{}
	cmd.Flag("to", "Destination of the tables: bigtable or pebble. The source is the other one.").Required().
		EnumVar(&c.to, tables.EngineBigtable, tables.EnginePebble)
	cmd.Flag("storage.path", "Directory of the data on this machine. Its server must have stopped.").Default("./data").
		StringVar(&c.storagePath)
	cmd.Flag("checkpoint", "File with the progress of the copy. Default: migrate.json in --storage.path.").
		StringVar(&c.checkpoint)
	cmd.Flag("verify-only", "Only compare, copy nothing.").BoolVar(&c.verifyOnly)
	cmd.Flag("batch-bytes", "Size of rows that are written at once.").Default("16MB").SetValue(program.Bytes(&c.batchBytes))
	c.bigtable.AddFlags(cmd)
	return program.Commands{cmd.FullCommand(): func(ctx context.Context, w io.Writer) error { return migrate(ctx, c, w) }}
}

// migrate runs the migration. If ctx ends, it stops at a checkpoint.
func migrate(ctx context.Context, c *migrateConfig, w io.Writer) error {
	err := runMigration(ctx, c, w)
	if ctx.Err() != nil {
		return fmt.Errorf("stopped; the same command continues the copy: %w", err)
	}
	return err
}

func runMigration(ctx context.Context, c *migrateConfig, w io.Writer) (err error) {
	if err := c.bigtable.Validate(); err != nil {
		return err
	}
	if c.batchBytes <= 0 {
		return errors.New("--batch-bytes must be above 0")
	}
	if _, err := os.Stat(datadir.TablesDir(c.storagePath)); c.to == tables.EngineBigtable && err != nil {
		return fmt.Errorf("--storage.path: %s holds no tables: %w", c.storagePath, err)
	}
	if c.checkpoint == "" {
		c.checkpoint = filepath.Join(c.storagePath, "migrate.json")
	}
	// Both stores use the same time to decide which cells have expired.
	began := time.Now()
	now := func() time.Time { return began }
	local, err := tables.OpenExclusive(c.storagePath, pebble.Options{Now: now, ReadOnly: c.to == tables.EngineBigtable})
	if errors.Is(err, storage.ErrLocked) {
		return fmt.Errorf("%s is in use: stop its server first: %w", c.storagePath, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	cloud, err := c.bigtable.Open(ctx, tables.OpenOptions{Now: now})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cloud.Close()) }()

	m := &migration{from: local, to: cloud, out: w, batchBytes: int(c.batchBytes), file: c.checkpoint,
		state: migrationState{Version: migrationVersion, From: c.storagePath, To: c.bigtable.Name()}}
	if c.to == tables.EnginePebble {
		m.from, m.to, m.state.From, m.state.To = cloud, local, m.state.To, m.state.From
	}
	if !c.verifyOnly {
		if err := m.copyAll(ctx); err != nil {
			return err
		}
	}
	if err := m.verifyAll(ctx); err != nil {
		return err
	}
	if err := os.Remove(c.checkpoint); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fmt.Fprintf(w, "All tables of %s and %s are equal, after %s.\n", m.state.From, m.state.To,
		time.Since(began).Round(time.Millisecond))
	return nil
}
