package pebble

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
)

// Admission says how Open goes on.
type Admission int

// Admissions.
const (
	// AdmitTables opens the tables, or creates them if there are none.
	AdmitTables Admission = iota
	// AdmitOlder opens the tables and sets the files aside that they do not know.
	AdmitOlder
	// AdmitNone sets the tables aside and creates new ones.
	AdmitNone
)

// Parts of the names of markers and table files.
const (
	manifestMarker = markerPrefix + "manifest."
	formatMarker   = markerPrefix + "format-version."
	tableSuffix    = ".sst"
)

// asideName begins the names of directories in lost/ with a whole tree, or with files that the tree does not know.
const asideName = "tree-"

// treeExists says whether Dir holds tables, and names the file if one is missing or damaged without which they do not open. A
// tree whose creation was cut off before it held a table file does not count: it is created again.
func treeExists(opts *Options) (exists bool, err error) {
	fs, tree := opts.FS, opts.FS.PathJoin(opts.Dir, treeName)
	names, err := fs.List(tree)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, engineError("list the tree's directory", err)
	}
	newest := func(prefix string) (newest string, count int) {
		for _, name := range names {
			if strings.HasPrefix(name, prefix) {
				newest, count = max(newest, name), count+1 // their numbers have leading zeros
			}
		}
		return newest, count
	}
	marker, _ := newest(manifestMarker)
	format, _ := newest(formatMarker)
	manifest, manifests := newest(manifestPrefix)
	tables := slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, tableSuffix) })
	const missing = "it is missing, but table files are there"
	switch {
	case marker == "" && !tables:
		return false, nil
	case marker == "" && manifests == 1:
		return false, &Damage{File: manifestMarker + "*", Reason: fmt.Sprintf("%s; if %s is the newest manifest, create the empty "+
			"file %s000001.%[2]s", missing, manifest, manifestMarker)}
	case marker == "":
		return false, &Damage{File: manifestMarker + "*", Reason: missing}
	case format == "" && tables:
		return false, &Damage{File: formatMarker + "*", Reason: fmt.Sprintf("%s; create the empty file %s000001.%03d", missing,
			formatMarker, formatVersion)}
	}
	_, manifest, _ = strings.Cut(strings.TrimPrefix(marker, manifestMarker), ".")
	if !slices.Contains(names, manifest) {
		return false, &Damage{File: manifest, Reason: "it is missing, but " + marker + " names it"}
	}
	return true, checkManifest(fs, opts.Dir)
}

// admit decides whether the tree is opened (exists) or created. It changes Dir only if a loss was accepted.
func (s *Store) admit(to *pebble.Options) (exists bool, err error) {
	exists, err = treeExists(&s.opts)
	accepted := func(d *Damage) bool { return s.opts.AcceptLoss != nil && s.opts.AcceptLoss(d.File) }
	if damage := (*Damage)(nil); errors.As(err, &damage) && accepted(damage) {
		exists, err = false, s.setTreeAside(damage.Error())
	}
	if err == nil && exists {
		err = s.admitFiles(to, accepted)
	}
	if err != nil || s.opts.Admit == nil {
		return exists, err
	}
	if !exists {
		_, err := s.opts.Admit(nil)
		return false, err
	}
	how, err := s.ask()
	if err != nil {
		return false, err
	}
	switch how {
	case AdmitOlder:
		files, _, err := peekTree(&s.opts, to)
		if err != nil {
			return false, err
		}
		return true, s.setUnknownAside(files)
	case AdmitNone:
		return false, s.setTreeAside("the tables belong to another log")
	}
	return true, nil
}

// admitFiles refuses damaged options, and leaves out the files whose loss is accepted.
func (s *Store) admitFiles(to *pebble.Options, accepted func(*Damage) bool) (err error) {
	d := checkOptions(s.opts.FS, s.opts.FS.PathJoin(s.opts.Dir, treeName), to)
	switch {
	case d != nil && !accepted(d):
		return engineError("open store", d)
	case d != nil:
		s.opts.Logger.Warn("the tree's options are set aside, as accepted; they hold no rows", "file", d.File, "reason", d.Reason)
		if err := moveToLost(&s.opts, d.File); err != nil {
			return err
		}
	}
	s.lost, err = acceptLosses(&s.opts, to)
	return err
}

// ask has Options.Admit look at the tables.
func (s *Store) ask() (how Admission, err error) {
	opts := s.opts
	opts.ReadOnly, opts.Registerer, opts.Admit, opts.FS = true, nil, nil, readFS{s.opts.FS}
	opts.Logger = slog.New(slog.DiscardHandler) // what there is to say, Open says again
	view, err := openLocked(opts, newHealth(opts.Logger, opts.Now), io.NopCloser(nil))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	view.lost = s.lost
	return s.opts.Admit(view)
}

// makeAsideDir makes a new directory in lost/.
func (s *Store) makeAsideDir() (string, error) {
	fs := s.opts.FS
	for n := 1; ; n++ {
		dir := fs.PathJoin(s.opts.Dir, lostName, fmt.Sprintf("%s%04d", asideName, n))
		if _, err := fs.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return dir, engineError("create directory", makeDir(fs, dir))
		} else if err != nil {
			return "", engineError("look for a free name", err)
		}
	}
}

// setTreeAside moves the whole tree into a new directory in lost/. What the store notes about the tree goes first: a new tree
// must not be judged by it.
func (s *Store) setTreeAside(why string) error {
	fs, dir := s.opts.FS, s.opts.Dir
	aside, err := s.makeAsideDir()
	if err != nil {
		return err
	}
	s.opts.Logger.Error("the loss of all tables was accepted; they are set aside", "why", why, "to", aside)
	for _, name := range []string{noteName, recordsName, treeName} {
		err := fs.Rename(fs.PathJoin(dir, name), fs.PathJoin(aside, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return engineError("set the tables aside", err)
		}
		if err := errors.Join(syncDir(fs, aside), syncDir(fs, dir)); err != nil {
			return engineError("set the tables aside", err)
		}
	}
	return nil
}

// setUnknownAside moves table files that the tree does not name into a new directory in lost/. Otherwise the tree deletes them.
func (s *Store) setUnknownAside(known []*treeFile) error {
	fs, tree := s.opts.FS, s.opts.FS.PathJoin(s.opts.Dir, treeName)
	names, err := fs.List(tree)
	if err != nil {
		return engineError("list the tree's directory", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasSuffix(name, tableSuffix) || slices.ContainsFunc(known, func(f *treeFile) bool { return f.name() == name })
	})
	if len(names) == 0 {
		return nil
	}
	aside, err := s.makeAsideDir()
	if err != nil {
		return err
	}
	s.opts.Logger.Error("the tables are older than the log, as accepted; files that they do not know are set aside", "to", aside,
		"files", len(names))
	for _, name := range names {
		if err := fs.Rename(fs.PathJoin(tree, name), fs.PathJoin(aside, name)); err != nil {
			return engineError("set "+name+" aside", err)
		}
	}
	return engineError("set files aside", errors.Join(syncDir(fs, aside), syncDir(fs, tree)))
}

// admitNew asks about a store without a directory, before that is made.
func admitNew(opts *Options) error {
	_, err := opts.FS.Stat(opts.FS.PathJoin(opts.Dir, treeName))
	switch {
	case errors.Is(err, os.ErrNotExist) && opts.ReadOnly:
		return fmt.Errorf("%w: %s holds no tables", storage.ErrNoTable, opts.Dir)
	case errors.Is(err, os.ErrNotExist) && opts.Admit != nil:
		_, err := opts.Admit(nil)
		return err
	case errors.Is(err, os.ErrNotExist):
		return nil
	}
	return engineError("look for the tables", err)
}
