package treefs

import (
	"errors"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ReadOnly returns fs with changing operations that fail.
func ReadOnly(fs vfs.FS) vfs.FS { return readOnly{fs} }

type readOnly struct{ vfs.FS }

var errReadOnly = errors.New("the store is open for reading only")

// Lock is part of vfs.FS. It does not create a lock file: without one, no process has the store open.
func (fs readOnly) Lock(name string) (io.Closer, error) {
	if _, err := fs.Stat(name); errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(nil), nil
	}
	return fs.FS.Lock(name)
}

// Create is part of vfs.FS.
func (fs readOnly) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errReadOnly }

// Link is part of vfs.FS.
func (fs readOnly) Link(string, string) error { return errReadOnly }

// OpenReadWrite is part of vfs.FS.
func (fs readOnly) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errReadOnly
}

// Remove is part of vfs.FS.
func (fs readOnly) Remove(string) error { return errReadOnly }

// RemoveAll is part of vfs.FS.
func (fs readOnly) RemoveAll(string) error { return errReadOnly }

// Rename is part of vfs.FS.
func (fs readOnly) Rename(string, string) error { return errReadOnly }

// ReuseForWrite is part of vfs.FS.
func (fs readOnly) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnly
}

// MkdirAll is part of vfs.FS.
func (fs readOnly) MkdirAll(string, os.FileMode) error { return errReadOnly }
