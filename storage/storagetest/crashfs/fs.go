package crashfs

import (
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS keeps clones of a vfs.MemFS apart from operations that take its lock twice for reading. A clone that requests the lock
// for writing in between would deadlock. Hold Clones for writing while CrashClone runs.
type FS struct {
	vfs.FS
	Clones *sync.RWMutex
}

// Link implements vfs.FS.
func (fs FS) Link(oldname, newname string) error {
	fs.Clones.RLock()
	defer fs.Clones.RUnlock()
	return fs.FS.Link(oldname, newname)
}

// Lock implements vfs.FS.
func (fs FS) Lock(name string) (io.Closer, error) {
	fs.Clones.RLock()
	defer fs.Clones.RUnlock()
	return fs.FS.Lock(name)
}
