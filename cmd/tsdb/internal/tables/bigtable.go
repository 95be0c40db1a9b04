//go:build !nobigtable

package tables

import (
	"context"
	"errors"
	"fmt"
	"os"

	"halite/storage"
	"halite/storage/bigtable"
)

// Engines lists the engines of this build.
func Engines() []string { return []string{EnginePebble, EngineBigtable} }

// Open opens the instance that the flags name.
func (c *BigtableFlags) Open(ctx context.Context, o OpenOptions) (storage.Store, error) {
	opts := c.options()
	opts.Now, opts.Logger, opts.Registerer = o.Now, o.Logger, o.Registerer
	return openBigtable(ctx, opts)
}

func (c *BigtableFlags) options() bigtable.Options {
	return bigtable.Options{Project: c.Project, Instance: c.Instance, AppProfile: c.AppProfile, TablePrefix: c.TablePrefix,
		CheckTablesOnly: c.CheckTablesOnly, Cluster: c.Cluster}
}

// HotTablets returns the function that lists the hot tablets of store; nil if its engine reports none.
func HotTablets(store storage.Store) HotTabletsFunc {
	if s, ok := store.(*bigtable.Store); ok && s.ListsHotTablets() {
		return s.HotTablets
	}
	return nil
}

func (c *BigtableFlags) validateNames() error {
	opts := c.options()
	if err := opts.Validate(); err != nil {
		return fmt.Errorf("--bigtable.*: %w", err)
	}
	return nil
}

// openBigtable opens an instance, and asks about the emulator if nobody answers.
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
