package pebble

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage"
)

// A file that is damaged for good keeps all reads of its keys from succeeding, and a file that is missing keeps the tree from
// opening. Options.AcceptLoss lets the store go on without them:
//
//	1  lost/pending.json says what is lost
//	2  the files move to lost/
//	3  the manifest no longer names them
//
// After a crash in between, the next Open with AcceptLoss finds the files missing and goes on at 3. The note stays until
// Settled, because an index or a rollup of the lost rows must be made again, and a crash must not leave that out.
const (
	lostName    = "lost"
	pendingName = "pending.json"
)

// Lost returns what Open has given up, now or before a crash, and Settled has not confirmed yet.
func (s *Store) Lost() []Damage { return s.lost }

// Settled says that all that follows from Lost has been done.
func (s *Store) Settled() error {
	if len(s.lost) == 0 {
		return nil
	}
	fs, dir := s.opts.FS, s.opts.FS.PathJoin(s.opts.Dir, lostName)
	if err := fs.Remove(fs.PathJoin(dir, pendingName)); err != nil {
		return engineError("forget a settled loss", err)
	}
	s.lost = nil
	return engineError("forget a settled loss", syncDir(fs, dir))
}

// pendingLosses reads what an earlier Open has given up.
func pendingLosses(opts *Options) (lost []Damage, err error) {
	fs := opts.FS
	path := fs.PathJoin(opts.Dir, lostName, pendingName)
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, engineError("open "+path, err)
	}
	defer f.Close()
	src, err := io.ReadAll(f)
	if err != nil {
		return nil, engineError("read "+path, err)
	}
	if err := json.Unmarshal(src, &lost); err != nil {
		return nil, fmt.Errorf("%w: %s: %w; remove it, then rebuild index and rollups", storage.ErrCorrupt, path, err)
	}
	return lost, nil
}

// acceptLosses takes those damaged files out of the tree that Options.AcceptLoss names, and returns all losses that are not
// settled.
func acceptLosses(opts *Options, to *pebble.Options) (lost []Damage, err error) {
	if lost, err = pendingLosses(opts); err != nil || opts.AcceptLoss == nil {
		return lost, err
	}
	tree := opts.FS.PathJoin(opts.Dir, treeName)
	m, err := readManifest(opts.FS, tree)
	if err != nil || m.name == "" {
		return lost, err
	}
	files, names, err := peekTree(opts, to)
	if err != nil {
		return nil, err
	}
	var gone []*treeFile
	for _, f := range files {
		if !opts.AcceptLoss(f.name()) {
			continue
		}
		c := fileCheck{fs: opts.FS, tree: tree, names: names, readers: to.MakeReaderOptions()}
		d := c.check(f)
		if d == nil {
			continue
		}
		if _, err := copiedRecords(opts); d.Table == catalogName && err != nil {
			return nil, fmt.Errorf("%w, and the copy of its records too: %w; restore the directory of the tables from a copy", d, err)
		}
		first, last := f.bounds()
		whole := names.newDamage(f.name(), d.Reason, first, last)
		opts.Logger.Warn("a table file is lost, as accepted; it is set aside", "file", f.name(), "reason", whole.Reason, "table",
			whole.Table, "first_day", DayText(whole.FirstDay), "last_day", DayText(whole.LastDay), "first_row", whole.FirstRow,
			"last_row", whole.LastRow)
		gone, lost = append(gone, f), append(lost, whole)
	}
	if len(gone) == 0 {
		return lost, nil
	}
	return lost, setAside(opts, m, gone, lost)
}

// setAside moves files out of the tree.
func setAside(opts *Options, m manifestRecords, gone []*treeFile, lost []Damage) error {
	fs := opts.FS
	dir := fs.PathJoin(opts.Dir, lostName)
	src, err := json.Marshal(lost)
	if err != nil {
		return fmt.Errorf("note losses: %w", err)
	}
	if err := errors.Join(makeDir(fs, dir), writeDurably(fs, dir, pendingName, src)); err != nil {
		return engineError("note losses", err)
	}
	names := make([]string, 0, len(gone))
	for _, f := range gone {
		names = append(names, f.name())
	}
	if err := moveToLost(opts, names...); err != nil {
		return err
	}
	return dropFromManifest(fs, fs.PathJoin(opts.Dir, treeName), m, gone)
}

// moveToLost moves files of the tree, as far as they exist, to the folder lost.
func moveToLost(opts *Options, names ...string) error {
	fs := opts.FS
	tree, dir := fs.PathJoin(opts.Dir, treeName), fs.PathJoin(opts.Dir, lostName)
	err := makeDir(fs, dir)
	for _, name := range names {
		if err == nil {
			err = fs.Rename(fs.PathJoin(tree, name), fs.PathJoin(dir, name))
		}
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = errors.Join(syncDir(fs, dir), syncDir(fs, tree))
	}
	return engineError("set aside lost files", err)
}

// checkOptions returns what is wrong with the options that the tree has written, nil if nothing is or there are none.
func checkOptions(fs vfs.FS, tree string, to *pebble.Options) *Damage {
	desc, err := pebble.Peek(tree, fs)
	if err != nil || desc.OptionsFilename == "" {
		return nil
	}
	f, err := fs.Open(desc.OptionsFilename)
	if err == nil {
		var src []byte
		if src, err = io.ReadAll(f); err == nil {
			err = to.CheckCompatibility(tree, string(src))
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		return nil
	}
	return &Damage{File: fs.PathBase(desc.OptionsFilename), Reason: err.Error()}
}

// peekTree lists the files and tables of a tree and changes nothing.
func peekTree(opts *Options, to *pebble.Options) (files []*treeFile, names tableNames, err error) {
	o := *to
	o.ReadOnly, o.DisableConsistencyCheck = true, true
	db, err := pebble.Open(opts.FS.PathJoin(opts.Dir, treeName), &o)
	if err != nil {
		return nil, nil, engineError("open store", err)
	}
	defer func() { err = errors.Join(err, engineError("close", db.Close())) }()
	names = tableNames{}
	recs, err := readRecords(db, opts, newHealth(slog.New(slog.DiscardHandler), opts.Now))
	if errors.Is(err, storage.ErrCorrupt) {
		err = nil // reports then have the tables' numbers
	}
	for _, rec := range recs.all() {
		names[rec.ID] = rec
	}
	return treeFiles(db), names, err
}

// refusal explains why a tree does not open: its options are damaged, or files that the manifest names are missing, or not as
// long as it says.
func refusal(opts *Options, to *pebble.Options, cause error) error {
	tree := opts.FS.PathJoin(opts.Dir, treeName)
	if _, err := treeExists(opts); errors.Is(err, storage.ErrCorrupt) {
		return engineError("open store", err)
	}
	if d := checkOptions(opts.FS, tree, to); d != nil {
		return engineError("open store", d)
	}
	files, names, err := peekTree(opts, to)
	if err != nil {
		return cause
	}
	var errs []error
	for _, f := range files {
		c := fileCheck{fs: opts.FS, tree: tree, names: names}
		if d := c.checkSize(f); d != nil {
			errs = append(errs, d)
		}
	}
	if len(errs) == 0 {
		return cause
	}
	return engineError("open store", errors.Join(errs...))
}

// logLosses says once more what an earlier start has given up.
func (s *Store) logLosses() {
	for i := range s.lost {
		s.health.report("rows are lost, as accepted: "+s.lost[i].File, slog.LevelWarn, "loss", s.lost[i].Error())
	}
}
