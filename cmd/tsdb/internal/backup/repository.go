package backup

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"halite/cmd/tsdb/internal/datadir"
)

const (
	nameLayout = "20060102T150405.000Z"
	dataName   = "data"
	// sourceName is the file of an unfinished backup with the path of the snapshot to remove.
	sourceName = "snapshot"
)

// Options configure a Repository. Zero values mean the defaults.
type Options struct {
	// ManifestBytesMax bounds the size of a manifest (256 MiB).
	ManifestBytesMax int64
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Repository is a directory of backups. Several processes may use it. A change does not wait for another change: it fails with
// storage.ErrLocked.
type Repository struct {
	dir  string
	opts Options
}

// Open returns the repository in a directory, which Create makes.
func Open(dir string, opts Options) *Repository {
	opts.ManifestBytesMax = cmp.Or(opts.ManifestBytesMax, ManifestBytesMaxDefault)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Repository{dir: dir, opts: opts}
}

// Entry is a backup in a list.
type Entry struct {
	Name     string
	Manifest *Manifest // nil if it cannot be read
	Err      error     // the reason; nil if it can be read
}

// List lists the backups, oldest first, and the names of unfinished ones.
func (r *Repository) List() (backups []Entry, partial []string, err error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list the backups: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		if final, cut := strings.CutSuffix(name, partialSuffix); cut && isName(final) {
			partial = append(partial, name)
		}
		if !e.IsDir() || !isName(name) {
			continue
		}
		m, err := r.readManifest(name)
		backups = append(backups, Entry{Name: name, Manifest: m, Err: err})
	}
	return backups, partial, nil
}

// Find returns the backup with a name, the newest one if name is empty.
func (r *Repository) Find(name string) (*Manifest, error) {
	backups, _, err := r.List()
	if err != nil {
		return nil, err
	}
	at := len(backups) - 1
	if name != "" {
		at = slices.IndexFunc(backups, func(e Entry) bool { return e.Name == name })
	}
	if at < 0 {
		return nil, fmt.Errorf("%s has no backup %s (tsdb backup list shows them)", r.dir, name)
	}
	if backups[at].Err != nil {
		return nil, fmt.Errorf("backup %s: %w", backups[at].Name, backups[at].Err)
	}
	return backups[at].Manifest, nil
}

// lock keeps other commands from changing the repository. It removes what interrupted commands have left.
func (r *Repository) lock() (io.Closer, error) {
	lock, err := datadir.Lock(r.dir)
	if err != nil {
		return nil, err
	}
	left, err := filepath.Glob(filepath.Join(r.dir, "*"+partialSuffix, sourceName))
	for _, note := range left {
		path, readErr := os.ReadFile(note)
		if readErr == nil && isSnapshot(string(path)) {
			err = errors.Join(err, RemoveSnapshot(string(path)))
		}
	}
	if err = errors.Join(err, removePartial(r.dir, isName)); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// Prune removes all but the newest keep backups. It returns the names of those it removed. Files that a kept backup shares with
// a removed one stay.
func (r *Repository) Prune(keep int) (removed []string, err error) {
	if keep < 1 {
		return nil, fmt.Errorf("--keep is %d: keep at least one backup, for example --keep=7", keep)
	}
	backups, _, err := r.List()
	if err != nil {
		return nil, err
	}
	lock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	// Damaged backups do not count. Otherwise they would displace complete ones.
	whole := slices.DeleteFunc(backups, func(e Entry) bool { return e.Err != nil })
	for _, e := range whole[:max(0, len(whole)-keep)] {
		path := filepath.Join(r.dir, e.Name)
		// From here on List omits the backup, even if the removal is interrupted.
		if err := os.Rename(path, path+partialSuffix); err != nil {
			return removed, err
		}
		if err := os.RemoveAll(path + partialSuffix); err != nil {
			return removed, err
		}
		removed = append(removed, e.Name)
	}
	return removed, syncDir(r.dir)
}

// isName reports whether the last element of a path is the name of a backup.
func isName(path string) bool {
	name := filepath.Base(path)
	at, err := time.Parse(nameLayout, name)
	return err == nil && at.Format(nameLayout) == name
}
