//go:build nobigtable

package tables

import (
	"context"

	"halite/storage"
)

// Engines lists the engines of this build.
func Engines() []string { return []string{EnginePebble} }

// Open refuses, because this build has no Bigtable.
func (c *BigtableFlags) Open(context.Context, OpenOptions) (storage.Store, error) {
	return nil, ErrNoBigtable
}

func (c *BigtableFlags) validateNames() error { return ErrNoBigtable }

// HotTablets returns nil, because this build has no Bigtable.
func HotTablets(storage.Store) HotTabletsFunc { return nil }
