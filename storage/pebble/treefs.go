package pebble

import (
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markerPrefix begins the names of the empty files by which the tree says which manifest counts.
const markerPrefix = "marker."

// treeFS is the file system as the tree sees it. It repairs two habits of the tree.
type treeFS struct {
	vfs.FS
	h *health
}

// Create slows down while flushes fail: the tree retries at once and for ever, and would spin until space is back.
//
// It also makes a directory's names durable before a marker joins them. The tree creates a manifest, then the marker
// that names it, and syncs the directory once after both. Power lost in between could keep the marker and lose the
// manifest, and the store would never open again; at its first Open as at any later one.
func (fs treeFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if fs.h.flushFailing.Load() {
		time.Sleep(backgroundBackoff)
	}
	if strings.HasPrefix(fs.PathBase(name), markerPrefix) {
		if err := syncDir(fs.FS, fs.PathDir(name)); err != nil {
			return nil, err
		}
	}
	return fs.FS.Create(name, category)
}

// Unwrap is part of vfs.FS.
func (fs treeFS) Unwrap() vfs.FS { return fs.FS }
