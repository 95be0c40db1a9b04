package pebble

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage"
)

// Beginnings of file names in the tree's directory. Markers are empty files; one of them says which manifest counts.
const (
	markerPrefix   = "marker."
	manifestPrefix = "MANIFEST-"
)

// treeFS is the file system as the tree sees it. It watches the manifest and repairs three habits of the tree.
//
// The tree takes every failure to write its manifest for the end: it cannot tell what the file holds. A write that lacks
// disk space leaves nothing behind that a sync could have lost. So treeFS repeats it until there is space, and the tree
// sees a slow write. Reads go on meanwhile, and health.writable refuses writes.
type treeFS struct {
	vfs.FS
	h     *health
	watch *manifestWatch
}

// Create slows down while flushes fail: the tree retries at once and for ever, and would spin until space is back.
//
// It also makes a directory's names durable before a marker joins them. The tree creates a manifest, then the marker
// that names it, and syncs the directory once after both. Power lost in between could keep the marker and lose the
// manifest, and the store would never open again; at its first Open as at any later one.
func (fs treeFS) Create(name string, category vfs.DiskWriteCategory) (f vfs.File, err error) {
	base := fs.PathBase(name)
	marker, manifest := strings.HasPrefix(base, markerPrefix), strings.HasPrefix(base, manifestPrefix)
	if !marker && !manifest {
		if fs.h.flushFailing.Load() {
			time.Sleep(backgroundBackoff)
		}
		if err := fs.h.fatal(); err != nil {
			return nil, err // no manifest will ever name the file
		}
		return fs.FS.Create(name, category)
	}
	err = fs.h.retry(func() error {
		if marker {
			if err := syncDir(fs.FS, fs.PathDir(name)); err != nil {
				return err
			}
		}
		f, err = fs.FS.Create(name, category)
		return err
	})
	if manifest && err == nil {
		f = &watchedManifest{File: manifestFile{f, fs.h}, watch: fs.watch, name: base}
	}
	return f, err
}

// Unwrap is part of vfs.FS.
func (fs treeFS) Unwrap() vfs.FS { return fs.FS }

// manifestFile is a manifest that waits for disk space.
type manifestFile struct {
	vfs.File
	h *health
}

// Write is part of vfs.File. A repeated write goes on behind the bytes that are written.
func (f manifestFile) Write(b []byte) (n int, err error) {
	err = f.h.retry(func() error {
		written, err := f.File.Write(b[n:])
		n += max(0, written)
		return err
	})
	return n, err
}

// errStopped ends the wait for disk space when the store is closed.
var errStopped = errors.New("the store is being closed")

// retry repeats an operation while the machine lacks disk space, descriptors or memory.
func (h *health) retry(operation func() error) error {
	for waited := false; ; {
		err := operation()
		if err == nil || !storage.Exhausted(err) {
			if waited {
				h.endWait()
			}
			return err
		}
		if !waited {
			waited = true
			h.beginWait(err)
		}
		select {
		case <-h.stop:
			h.endWait()
			return errors.Join(err, errStopped)
		case <-time.After(backgroundBackoff):
		}
	}
}

// readFS is a file system that changes nothing.
type readFS struct{ vfs.FS }

var errReadOnly = errors.New("the store is open for reading only")

// Lock is part of vfs.FS. A lock file that does not exist is nobody's, and is not created.
func (fs readFS) Lock(name string) (io.Closer, error) {
	if _, err := fs.Stat(name); errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(nil), nil
	}
	return fs.FS.Lock(name)
}

// Create is part of vfs.FS.
func (fs readFS) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errReadOnly }

// Link is part of vfs.FS.
func (fs readFS) Link(string, string) error { return errReadOnly }

// OpenReadWrite is part of vfs.FS.
func (fs readFS) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errReadOnly
}

// Remove is part of vfs.FS.
func (fs readFS) Remove(string) error { return errReadOnly }

// RemoveAll is part of vfs.FS.
func (fs readFS) RemoveAll(string) error { return errReadOnly }

// Rename is part of vfs.FS.
func (fs readFS) Rename(string, string) error { return errReadOnly }

// ReuseForWrite is part of vfs.FS.
func (fs readFS) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnly
}

// MkdirAll is part of vfs.FS.
func (fs readFS) MkdirAll(string, os.FileMode) error { return errReadOnly }
