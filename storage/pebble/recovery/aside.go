package recovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"halite/storage/pebble/catalog"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/treefs"
)

// makeAsideDir makes a new directory in lost/.
func (t *Tree) makeAsideDir() (string, error) {
	fs := t.FS
	for n := 1; ; n++ {
		dir := fs.PathJoin(t.Dir, lostName, fmt.Sprintf("%s%04d", asideName, n))
		if _, err := fs.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return dir, fault.Wrap("create directory", treefs.MakeDir(fs, dir))
		} else if err != nil {
			return "", fault.Wrap("look for a free name", err)
		}
	}
}

// SetAside moves the whole tree into a new directory in lost/. It first moves the store's records about the tree, which must
// not apply to a new tree.
func (t *Tree) SetAside(why string) error {
	fs, dir := t.FS, t.Dir
	aside, err := t.makeAsideDir()
	if err != nil {
		return err
	}
	t.Logger.Error("the loss of all tables was accepted; they are set aside", "why", why, "to", aside)
	for _, name := range []string{treefs.SyncedName, catalog.CopyName, TreeName} {
		err := fs.Rename(fs.PathJoin(dir, name), fs.PathJoin(aside, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fault.Wrap("set the tables aside", err)
		}
		if err := errors.Join(treefs.SyncDir(fs, aside), treefs.SyncDir(fs, dir)); err != nil {
			return fault.Wrap("set the tables aside", err)
		}
	}
	return nil
}

// SetUnknownAside moves table files that the manifest does not name into a new directory in lost/. Otherwise the tree deletes
// them.
func (t *Tree) SetUnknownAside() error {
	known, _, err := t.files()
	if err != nil {
		return err
	}
	fs, tree := t.FS, t.Path()
	names, err := fs.List(tree)
	if err != nil {
		return fault.Wrap("list the tree's directory", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasSuffix(name, tableSuffix) || slices.ContainsFunc(known, func(f *treeFile) bool { return f.name() == name })
	})
	if len(names) == 0 {
		return nil
	}
	aside, err := t.makeAsideDir()
	if err != nil {
		return err
	}
	t.Logger.Error("the tables are older than the log, and the loss is accepted; moving unknown table files to lost/", "to",
		aside,
		"files", len(names))
	for _, name := range names {
		if err := fs.Rename(fs.PathJoin(tree, name), fs.PathJoin(aside, name)); err != nil {
			return fault.Wrap("set "+name+" aside", err)
		}
	}
	return fault.Wrap("set files aside", errors.Join(treefs.SyncDir(fs, aside), treefs.SyncDir(fs, tree)))
}

// setAside records losses, moves the files to lost/ and removes them from the manifest.
func (t *Tree) setAside(m manifestRecords, gone []*treeFile, lost []fault.Damage) error {
	fs := t.FS
	dir := fs.PathJoin(t.Dir, lostName)
	src, err := json.Marshal(lost)
	if err != nil {
		return fmt.Errorf("record losses: %w", err)
	}
	if err := errors.Join(treefs.MakeDir(fs, dir), treefs.WriteDurably(fs, dir, pendingName, src)); err != nil {
		return fault.Wrap("record losses", err)
	}
	names := make([]string, 0, len(gone))
	for _, f := range gone {
		names = append(names, f.name())
	}
	if err := t.moveToLost(names...); err != nil {
		return err
	}
	return dropFromManifest(fs, t.Path(), m, gone)
}

// moveToLost moves those files of the tree that exist to lost/.
func (t *Tree) moveToLost(names ...string) error {
	fs := t.FS
	tree, dir := t.Path(), fs.PathJoin(t.Dir, lostName)
	if err := treefs.MakeDir(fs, dir); err != nil {
		return fault.Wrap("set aside lost files", err)
	}
	for _, name := range names {
		err := fs.Rename(fs.PathJoin(tree, name), fs.PathJoin(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fault.Wrap("set aside lost files", err)
		}
	}
	return fault.Wrap("set aside lost files", errors.Join(treefs.SyncDir(fs, dir), treefs.SyncDir(fs, tree)))
}

// ConfirmLosses removes the note of losses.
func (t *Tree) ConfirmLosses() error {
	dir := t.FS.PathJoin(t.Dir, lostName)
	if err := t.FS.Remove(t.FS.PathJoin(dir, pendingName)); err != nil {
		return fault.Wrap("confirm losses", err)
	}
	return fault.Wrap("confirm losses", treefs.SyncDir(t.FS, dir))
}
