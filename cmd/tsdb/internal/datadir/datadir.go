package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"halite/storage"
)

// TablesDir returns the directory of the tables in a data directory.
func TablesDir(path string) string { return filepath.Join(path, "tables") }

// WALDir returns the directory of the log in a data directory.
func WALDir(path string) string { return filepath.Join(path, "wal") }

// Lock makes a data directory and keeps other processes out of it until the result is closed. The error names the path; the
// caller knows the flag.
func Lock(path string) (io.Closer, error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, err
	}
	lock, err := lockDir(path)
	if errors.Is(err, storage.ErrLocked) {
		return nil, fmt.Errorf("%s: another process holds the lock of this directory; stop it first: %w", path, err)
	}
	return lock, err
}

// WriteFile replaces a file. After a power loss, the file is either the old or the new one.
func WriteFile(name string, content []byte) error {
	temporary := name + ".new"
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(temporary, name); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
