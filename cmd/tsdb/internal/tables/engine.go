package tables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"

	"halite/storage"
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

// ErrNoBigtable: the build tag nobigtable left Bigtable out.
var ErrNoBigtable = errors.New("this build has no Bigtable: install a build without the tag nobigtable (docs/install.md)")

// OpenOptions configure an engine that flags name. Zero fields take the defaults of the engine.
type OpenOptions struct {
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// HotTabletsFunc lists the hot tablets whose load begins from fromMs to before toMs, milliseconds since 1970.
type HotTabletsFunc = func(ctx context.Context, fromMs, toMs int64) ([]storage.HotTablet, error)

// BigtableFlags holds the flags that name a Bigtable instance.
type BigtableFlags struct {
	Project, Instance, AppProfile, TablePrefix string
	CheckTablesOnly                            bool
	// Cluster names the cluster whose hot tablets the server lists; only the server has a flag for it.
	Cluster string
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
	return c.validateNames()
}
