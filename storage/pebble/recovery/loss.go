package recovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
	"halite/storage/pebble/catalog"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/health"
)

// pendingLosses reads the losses that earlier starts accepted.
func (t *Tree) pendingLosses() (lost []fault.Damage, err error) {
	fs := t.FS
	path := fs.PathJoin(t.Dir, lostName, pendingName)
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap("open "+path, err)
	}
	defer f.Close()
	src, err := io.ReadAll(f)
	if err != nil {
		return nil, fault.Wrap("read "+path, err)
	}
	if err := json.Unmarshal(src, &lost); err != nil {
		return nil, fmt.Errorf("%w: %s: %w; remove it, then rebuild index and rollups", storage.ErrCorrupt, path, err)
	}
	return lost, nil
}

// acceptLosses removes the damaged files that AcceptLoss names from the tree. It returns all losses that ConfirmLosses has not
// confirmed.
func (t *Tree) acceptLosses() (lost []fault.Damage, err error) {
	if lost, err = t.pendingLosses(); err != nil || t.AcceptLoss == nil {
		return lost, err
	}
	tree := t.Path()
	m, err := readManifest(t.FS, tree)
	if err != nil || m.name == "" {
		return lost, err
	}
	files, names, err := t.files()
	if err != nil {
		return nil, err
	}
	var gone []*treeFile
	for _, f := range files {
		if !t.AcceptLoss(f.name()) {
			continue
		}
		c := fileCheck{fs: t.FS, tree: tree, names: names, readers: t.Options.MakeReaderOptions()}
		d := c.check(f)
		if d == nil {
			continue
		}
		if _, err := catalog.ReadCopy(t.FS, t.Dir); d.Table == catalogName && err != nil {
			return nil, fmt.Errorf("%w, and the copy of its records too: %w; restore the directory of the tables from a copy", d, err)
		}
		first, last := f.bounds()
		whole := names.newDamage(f.name(), d.Reason, first, last)
		t.Logger.Warn("a table file is lost, and the loss is accepted; moved it to lost/", "file", f.name(), "reason",
			whole.Reason, "table",
			whole.Table, "first_day", fault.DayText(whole.FirstDay), "last_day", fault.DayText(whole.LastDay), "first_row",
			whole.FirstRow,
			"last_row", whole.LastRow)
		gone, lost = append(gone, f), append(lost, whole)
	}
	if len(gone) == 0 {
		return lost, nil
	}
	return lost, t.setAside(m, gone, lost)
}

// CheckOptions returns the damage of the tree's options file. It returns nil if the file is intact or does not exist.
func (t *Tree) CheckOptions() *fault.Damage {
	fs, tree := t.FS, t.Path()
	desc, err := pebble.Peek(tree, fs)
	if err != nil || desc.OptionsFilename == "" {
		return nil
	}
	if err := t.checkOptionsFile(desc.OptionsFilename); err != nil {
		return &fault.Damage{File: fs.PathBase(desc.OptionsFilename), Reason: err.Error()}
	}
	return nil
}

func (t *Tree) checkOptionsFile(path string) error {
	f, err := t.FS.Open(path)
	if err != nil {
		return err
	}
	src, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return t.Options.CheckCompatibility(t.Path(), string(src))
}

// files lists the files and tables of a tree. It changes nothing.
func (t *Tree) files() (files []*treeFile, names tableNames, err error) {
	o := *t.Options
	o.ReadOnly, o.DisableConsistencyCheck = true, true
	db, err := pebble.Open(t.Path(), &o)
	if err != nil {
		return nil, nil, fault.Wrap("open store", err)
	}
	defer func() { err = errors.Join(err, fault.Wrap("close", db.Close())) }()
	names = tableNames{}
	recs, err := catalog.ReadRecords(db, t.FS, t.Dir, health.New(slog.New(slog.DiscardHandler), t.Now))
	if errors.Is(err, storage.ErrCorrupt) {
		err = nil // reports then have table numbers in place of names
	}
	for _, rec := range recs.All() {
		names[rec.ID] = rec
	}
	return TreeFiles(db), names, err
}

// Refusal explains why a tree does not open: its options are damaged, or files of the manifest are missing or have another
// length.
func (t *Tree) Refusal(cause error) error {
	tree := t.Path()
	if _, err := t.Exists(); errors.Is(err, storage.ErrCorrupt) {
		return fault.Wrap("open store", err)
	}
	if d := t.CheckOptions(); d != nil {
		return fault.Wrap("open store", d)
	}
	files, names, err := t.files()
	if err != nil {
		return cause
	}
	var errs []error
	for _, f := range files {
		c := fileCheck{fs: t.FS, tree: tree, names: names}
		if d := c.checkSize(f); d != nil {
			errs = append(errs, d)
		}
	}
	if len(errs) == 0 {
		return cause
	}
	return fault.Wrap("open store", errors.Join(errs...))
}
