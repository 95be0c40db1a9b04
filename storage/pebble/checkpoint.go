package pebble

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage"
	"halite/storage/pebble/catalog"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/recovery"
	"halite/storage/pebble/treefs"
)

// Checkpoint makes a store in dir with every write that returned before the call. Writes continue during the call. Table
// files are hard links if the file system supports them, otherwise copies. dir must not exist; after an error the caller
// removes it. Errors: storage.ErrUnavailable without disk space or descriptors.
func (s *Store) Checkpoint(ctx context.Context, dir string) error {
	if len(s.lost) > 0 {
		return fmt.Errorf("%w: tables have accepted losses, and the index and rollups do not reflect them yet",
			storage.ErrUnavailable)
	}
	if err := s.Sync(ctx); err != nil {
		return err
	}
	fs := s.opts.FS
	if _, err := fs.Stat(dir); err == nil {
		return fmt.Errorf("the directory of the checkpoint already exists: %s", dir)
	}
	if err := treefs.MakeDir(fs, dir); err != nil {
		return fault.Wrap("create directory", err)
	}
	tree := fs.PathJoin(dir, recovery.TreeName)
	if err := s.db.Checkpoint(tree); err != nil {
		return fault.Wrap("checkpoint", err)
	}
	// The copy of the records may have more tables than the tree, but never fewer. So read it after the tree.
	if err := copyRecords(fs, s.opts.Dir, dir); err != nil {
		return fault.Wrap("copy the table records", err)
	}
	return treefs.NoteManifest(fs, dir, tree)
}

// copyRecords copies the file with the records of all tables.
func copyRecords(fs vfs.FS, from, to string) error {
	f, err := fs.Open(fs.PathJoin(from, catalog.CopyName))
	if err != nil {
		return err
	}
	records, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return treefs.WriteDurably(fs, to, catalog.CopyName, records)
}
