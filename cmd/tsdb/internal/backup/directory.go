package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"halite/cmd/tsdb/internal/datadir"
)

const (
	dataName = "data"
	// sourceName is the file of an unfinished backup with the path of the snapshot to remove.
	sourceName = "snapshot"
)

// directory keeps each backup in a directory of its own. A file that an older backup has too is a hard link to it.
type directory struct{ path string }

// Lock implements backend.
func (d directory) Lock(ctx context.Context) (context.Context, func() error, error) {
	lock, err := datadir.Lock(d.path)
	if err != nil {
		return nil, nil, err
	}
	release := func() error { return errors.Join(d.clean(), lock.Close()) }
	if err := d.clean(); err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	return ctx, release, nil
}

// clean removes unfinished backups and their snapshots.
func (d directory) clean() error {
	left, err := filepath.Glob(filepath.Join(d.path, "*"+partialSuffix, sourceName))
	for _, note := range left {
		path, readErr := os.ReadFile(note)
		if readErr == nil && isSnapshot(string(path)) {
			err = errors.Join(err, RemoveSnapshot(string(path)))
		}
	}
	return errors.Join(err, removePartial(d.path, isName))
}

// List implements backend.
func (d directory) List(context.Context) (names, unfinished []string, err error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, nil, fmt.Errorf("list the backups: %w", err)
	}
	for _, e := range entries {
		if final, cut := strings.CutSuffix(e.Name(), partialSuffix); cut && isName(final) {
			unfinished = append(unfinished, e.Name())
		}
		if e.IsDir() && isName(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, unfinished, nil
}

func (d directory) partial(name string) string { return filepath.Join(d.path, name+partialSuffix) }

func (d directory) file(name string, f *File) string {
	return filepath.Join(d.path, name, dataName, filepath.FromSlash(f.Path))
}

// Begin implements backend.
func (d directory) Begin(_ context.Context, name, snapshot string) error {
	final := filepath.Join(d.path, name)
	if _, err := os.Lstat(final); err == nil {
		return fmt.Errorf("%s exists already", final)
	}
	if err := os.Mkdir(d.partial(name), 0o700); err != nil || snapshot == "" {
		return err
	}
	return os.WriteFile(filepath.Join(d.partial(name), sourceName), []byte(snapshot), 0o600)
}

// Add implements backend.
func (d directory) Add(ctx context.Context, a addition) (shared bool, err error) {
	f := a.file
	target := filepath.Join(d.partial(a.backup), dataName, filepath.FromSlash(f.Path))
	if a.older.backup != "" && link(d.file(a.older.backup, f), target, f.SizeBytes) {
		f.SHA256 = a.older.sha256
		return true, nil
	}
	in, err := os.Open(a.from)
	if err != nil {
		return false, err
	}
	defer in.Close()
	sum, sizeBytes, err := copyFile(ctx, in, target, a.progress)
	if err == nil && sizeBytes != f.SizeBytes {
		err = f.changed(sizeBytes)
	}
	f.SHA256 = sum
	return false, err
}

// link makes target a hard link to a file. It returns false if the file has changed, or if the file system has no hard
// links.
func link(path, target string, sizeBytes int64) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != sizeBytes {
		return false
	}
	return os.MkdirAll(filepath.Dir(target), 0o700) == nil && os.Link(path, target) == nil
}

// Publish implements backend.
func (d directory) Publish(_ context.Context, name string, manifest []byte) error {
	partial := d.partial(name)
	if err := writeFile(filepath.Join(partial, manifestName), manifest); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(partial, sourceName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return publish(partial, filepath.Join(d.path, name))
}

// Open implements backend.
func (d directory) Open(_ context.Context, name string, f *File) (io.ReadCloser, error) {
	if f == nil {
		return os.Open(filepath.Join(d.path, name, manifestName))
	}
	return os.Open(d.file(name, f))
}

// Remove implements backend. The file system keeps shared files.
func (d directory) Remove(_ context.Context, names []string, _ []Entry) error {
	for _, name := range names {
		// After this point List omits the backup, even if the removal is interrupted.
		if err := os.Rename(filepath.Join(d.path, name), d.partial(name)); err != nil {
			return err
		}
		if err := os.RemoveAll(d.partial(name)); err != nil {
			return err
		}
	}
	return syncDir(d.path)
}

// Unknown implements backend.
func (d directory) Unknown(_ context.Context, m *Manifest) (faults []Fault, err error) {
	root := filepath.Join(d.path, m.Name, dataName)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // every file is reported as missing
		}
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		_, found := slices.BinarySearchFunc(m.Files, filepath.ToSlash(relative), func(f File, path string) int {
			return strings.Compare(f.Path, path)
		})
		if !found {
			faults = append(faults, Fault{filepath.ToSlash(relative), "the manifest does not name it"})
		}
		return nil
	})
	return faults, err
}
