package treefs

import (
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage/pebble/health"
)

// Prefixes of file names in the tree's directory. Markers are empty files. One of them names the current manifest.
const (
	MarkerPrefix   = "marker."
	ManifestPrefix = "MANIFEST-"
)

// treeFS is the file system of the tree. It watches the manifest and corrects three habits of the tree.
//
// The tree stops permanently when a write of its manifest fails, because it cannot know the content of the file. But a
// write that fails for lack of disk space leaves nothing behind that a sync could lose. So treeFS repeats this write until
// there is space, and the tree only sees a slow write. During this time reads continue, and the health monitor refuses
// writes.
//
// It does not affect files of other directories. A checkpoint of the tree makes such files, and must fail if the disk is
// full.
type treeFS struct {
	vfs.FS
	dir   string
	h     *health.Monitor
	watch *ManifestWatch
}

// Create waits while flushes fail. Otherwise the tree would retry without a pause until there is space.
//
// Create also makes the names in a directory durable before it creates a marker. The tree creates a manifest, then the
// marker that names it, and syncs the directory once after both. Power loss in between could keep the marker and lose the
// manifest. Then the store would never open again.
func (fs treeFS) Create(name string, category vfs.DiskWriteCategory) (f vfs.File, err error) {
	if fs.PathDir(name) != fs.dir {
		return fs.FS.Create(name, category)
	}
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

// manifestFile is a manifest whose writes wait for disk space.
type manifestFile struct {
	vfs.File
	h *health.Monitor
}

// Write is part of vfs.File. A repeated write continues after the bytes that are already written.
func (f manifestFile) Write(b []byte) (n int, err error) {
	err = f.h.Retry(func() error {
		written, err := f.File.Write(b[n:])
		n += max(0, written)
		return err
	})
	return n, err
}

// New returns the file system for the tree in dir. Writes of the manifest wait for disk space, and watch records what is durable.
func New(fs vfs.FS, dir string, h *health.Monitor, watch *ManifestWatch) vfs.FS {
	return treeFS{FS: fs, dir: dir, h: h, watch: watch}
}
