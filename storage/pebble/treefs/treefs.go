package treefs

import (
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage/pebble/health"
)

// Beginnings of file names in the tree's directory. Markers are empty files; one of them says which manifest counts.
const (
	MarkerPrefix   = "marker."
	ManifestPrefix = "MANIFEST-"
)

// treeFS is the file system as the tree sees it. It watches the manifest and repairs three habits of the tree.
//
// The tree takes every failure to write its manifest for the end: it cannot tell what the file holds. A write that lacks
// disk space leaves nothing behind that a sync could have lost. So treeFS repeats it until there is space, and the tree
// sees a slow write. Reads go on meanwhile, and health.writable refuses writes.
type treeFS struct {
	vfs.FS
	h     *health.Monitor
	watch *ManifestWatch
}

// Create slows down while flushes fail: the tree retries at once and for ever, and would spin until space is back.
//
// It also makes a directory's names durable before a marker joins them. The tree creates a manifest, then the marker
// that names it, and syncs the directory once after both. Power lost in between could keep the marker and lose the
// manifest, and the store would never open again; at its first Open as at any later one.
func (fs treeFS) Create(name string, category vfs.DiskWriteCategory) (f vfs.File, err error) {
	base := fs.PathBase(name)
	marker, manifest := strings.HasPrefix(base, MarkerPrefix), strings.HasPrefix(base, ManifestPrefix)
	if !marker && !manifest {
		if fs.h.FlushFailing.Load() {
			time.Sleep(health.BackgroundBackoff)
		}
		if err := fs.h.Fatal(); err != nil {
			return nil, err // no manifest will ever name the file
		}
		return fs.FS.Create(name, category)
	}
	err = fs.h.Retry(func() error {
		if marker {
			if err := SyncDir(fs.FS, fs.PathDir(name)); err != nil {
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
	h *health.Monitor
}

// Write is part of vfs.File. A repeated write goes on behind the bytes that are written.
func (f manifestFile) Write(b []byte) (n int, err error) {
	err = f.h.Retry(func() error {
		written, err := f.File.Write(b[n:])
		n += max(0, written)
		return err
	})
	return n, err
}

// New returns the file system that the tree gets.
func New(fs vfs.FS, h *health.Monitor, watch *ManifestWatch) vfs.FS {
	return treeFS{FS: fs, h: h, watch: watch}
}
