package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"

	"halite/storage"
	"halite/storage/bigtable"
	"halite/storage/pebble"
)

// Names of the engines, as --storage.engine takes them.
const (
	enginePebble   = "pebble"
	engineBigtable = "bigtable"
)

// emulatorEnv names the variable with the address of an emulator, which is asked instead of the service.
const emulatorEnv = "BIGTABLE_EMULATOR_HOST"

// bigtableConfig holds the flags that name a Bigtable instance.
type bigtableConfig struct {
	project, instance, appProfile, tablePrefix string
	checkTablesOnly                            bool
}

func (c *bigtableConfig) addFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("bigtable.project", "Google Cloud project. Credentials come from the standard environment; "+
		"BIGTABLE_EMULATOR_HOST names an emulator instead.").StringVar(&c.project)
	cmd.Flag("bigtable.instance", "Bigtable instance of the project.").StringVar(&c.instance)
	cmd.Flag("bigtable.app-profile", "App profile; it must route to a single cluster. Default: the instance's default profile.").
		StringVar(&c.appProfile)
	cmd.Flag("bigtable.table-prefix", "Begins the names of all tables, so that databases can share an instance.").
		StringVar(&c.tablePrefix)
	cmd.Flag("bigtable.check-tables-only", "Create no tables and change no policies; say which commands would.").
		BoolVar(&c.checkTablesOnly)
}

func (c *bigtableConfig) options() bigtable.Options {
	return bigtable.Options{Project: c.project, Instance: c.instance, AppProfile: c.appProfile, TablePrefix: c.tablePrefix,
		CheckTablesOnly: c.checkTablesOnly}
}

// name is how messages and checkpoints call the database.
func (c *bigtableConfig) name() string {
	return fmt.Sprintf("%s:%s/%s/%s", engineBigtable, c.project, c.instance, c.tablePrefix)
}

// Validate reports missing and malformed names, by their flags.
func (c *bigtableConfig) Validate() error {
	var faults []error
	if c.project == "" {
		faults = append(faults, errors.New("--bigtable.project is missing: --storage.engine=bigtable needs the project's name"))
	}
	if c.instance == "" {
		faults = append(faults, errors.New("--bigtable.instance is missing: --storage.engine=bigtable needs the instance's name"))
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	opts := c.options()
	if err := opts.Validate(); err != nil {
		return fmt.Errorf("--bigtable.*: %w", err)
	}
	return nil
}

// bigtableBatchRows is the number of rows that a query reads together from Bigtable, where a request costs milliseconds.
const bigtableBatchRows = 4096

// batchRowsMax is the number of rows that a query reads together; 0 is the default.
func (c *serveConfig) batchRowsMax() int {
	if c.engine == engineBigtable {
		return bigtableBatchRows
	}
	return 0
}

// openStore opens the engine that the flags pick.
func openStore(ctx context.Context, c *serveConfig, log *slog.Logger, r prometheus.Registerer) (storage.Store, error) {
	if c.engine == engineBigtable {
		opts := c.bigtable.options()
		opts.Logger, opts.Registerer = log, r
		store, err := openBigtable(ctx, opts)
		if err != nil {
			return nil, err
		}
		if c.direct() {
			err = share(ctx, store, c.takeOver, time.Now())
		} else {
			err = claim(ctx, store, c.storagePath, c.takeOver, time.Now())
			if err == nil {
				_, err = c.checkIdentity(ctx, store, log)
			}
		}
		if err != nil {
			return nil, errors.Join(err, store.Close())
		}
		return store, nil
	}
	store, err := pebble.Open(pebble.Options{
		Dir: tablesDir(c.storagePath), CacheBytes: c.cacheBytes, MemtableBytes: c.memtableBytes, TabletBytesMax: c.tabletBytes,
		TabletRowsHot: c.tabletRows, OpenFilesMax: c.openTablesMax, Logger: log, Registerer: r,
		DayChunks: dayChunkCodec(), Now: c.clock(), AcceptLoss: c.acceptsLoss(), Waiting: c.waiting,
		Admit: func(tables storage.Store) (pebble.Admission, error) { return c.checkIdentity(ctx, tables, log) },
	})
	if errors.Is(err, storage.ErrLocked) {
		return nil, fmt.Errorf("%s: another process holds the lock of this directory: %w", c.storagePath, err)
	}
	if err != nil {
		return nil, err
	}
	if err := disown(ctx, store); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// openBigtable opens the instance, and thinks of the emulator if nobody answers.
func openBigtable(ctx context.Context, opts bigtable.Options) (storage.Store, error) {
	store, err := bigtable.Open(ctx, opts)
	if addr := os.Getenv(emulatorEnv); addr != "" && errors.Is(err, storage.ErrUnavailable) {
		return nil, fmt.Errorf("is an emulator running at %s=%s? %w", emulatorEnv, addr, err)
	}
	if err != nil {
		return nil, err // not store, which would be an interface that is not nil
	}
	return store, nil
}
