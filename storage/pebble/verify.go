package pebble

import (
	"context"
	"errors"

	"halite/storage"
	"halite/storage/pebble/health"
	"halite/storage/pebble/recovery"
	"halite/storage/pebble/treefs"
)

// Verify verifies a store that no process has open, see recovery.Tree.Verify.
func Verify(ctx context.Context, opts Options, visit func(table string, row storage.Row) error) (v recovery.Verified, err error) {
	if err := opts.Validate(); err != nil {
		return v, err
	}
	opts = opts.withDefaults()
	opts.FS, opts.ReadOnly = treefs.ReadOnly(treefs.OrDisk(opts.FS)), true
	lock, err := lockDir(opts)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	s := &Store{opts: opts, health: health.New(opts.Logger, opts.Now), watch: &treefs.ManifestWatch{}}
	tree := s.treeOnDisk(treeOptions(opts, s.health, s.spanEnd, s.watch))
	return tree.Verify(ctx, opts.DayChunks, visit)
}
