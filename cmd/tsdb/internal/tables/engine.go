package tables

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kingpin/v2"

	"halite/storage"
	"halite/storage/bigtable"
)

// Modes of a server on Bigtable: the values of --bigtable.mode.
const (
	ModeBuffered = "buffered"
	ModeDirect   = "direct"
)

// Names of the engines: the values of --storage.engine.
const (
	EnginePebble   = "pebble"
	EngineBigtable = "bigtable"
)

// emulatorEnv is the environment variable with the address of an emulator, which replaces the service.
const emulatorEnv = "BIGTABLE_EMULATOR_HOST"

// BigtableFlags holds the flags that name a Bigtable instance.
type BigtableFlags struct {
	Project, Instance, AppProfile, TablePrefix string
	CheckTablesOnly                            bool
}

func (c *BigtableFlags) AddFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("bigtable.project", "Google Cloud project. Credentials come from the standard environment; "+
		"BIGTABLE_EMULATOR_HOST names an emulator instead.").StringVar(&c.Project)
	cmd.Flag("bigtable.instance", "Bigtable instance of the project.").StringVar(&c.Instance)
	cmd.Flag("bigtable.app-profile", "App profile; it must route to a single cluster. Default: the instance's default profile.").
		StringVar(&c.AppProfile)
	cmd.Flag("bigtable.table-prefix", "Prefix of the names of all tables, so that databases can share an instance.").
		StringVar(&c.TablePrefix)
	cmd.Flag("bigtable.check-tables-only", "Create no tables and change no policies; print the commands that do it.").
		BoolVar(&c.CheckTablesOnly)
}

func (c *BigtableFlags) Options() bigtable.Options {
	return bigtable.Options{Project: c.Project, Instance: c.Instance, AppProfile: c.AppProfile, TablePrefix: c.TablePrefix,
		CheckTablesOnly: c.CheckTablesOnly}
}

// Name is the name of the database in messages and checkpoints.
func (c *BigtableFlags) Name() string {
	return fmt.Sprintf("%s:%s/%s/%s", EngineBigtable, c.Project, c.Instance, c.TablePrefix)
}

// Validate reports missing and malformed names, by their flags.
func (c *BigtableFlags) Validate() error {
	var faults []error
	if c.Project == "" {
		faults = append(faults, errors.New("--bigtable.project is missing: --storage.engine=bigtable needs the project's name"))
	}
	if c.Instance == "" {
		faults = append(faults, errors.New("--bigtable.instance is missing: --storage.engine=bigtable needs the instance's name"))
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	opts := c.Options()
	if err := opts.Validate(); err != nil {
		return fmt.Errorf("--bigtable.*: %w", err)
	}
	return nil
}

// OpenBigtable opens the instance. If an emulator does not answer, the error names its address.
func OpenBigtable(ctx context.Context, opts bigtable.Options) (storage.Store, error) {
	store, err := bigtable.Open(ctx, opts)
	if addr := os.Getenv(emulatorEnv); addr != "" && errors.Is(err, storage.ErrUnavailable) {
		return nil, fmt.Errorf("is an emulator running at %s=%s? %w", emulatorEnv, addr, err)
	}
	if err != nil {
		return nil, err // not store, which would be an interface that is not nil
	}
	return store, nil
}
