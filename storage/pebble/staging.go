package pebble

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage/pebble/fault"
	"halite/storage/pebble/treefs"
)

const stagedSuffix = ".load"

// stagingDir holds sorted files until the tree ingests them.
type stagingDir struct {
	fs     vfs.FS
	dir    string
	serial atomic.Uint64 // numbers the files
}

// newStagingDir makes the directory. It removes leftovers of a crash, which were never part of the store.
func newStagingDir(fs vfs.FS, dir string) (*stagingDir, error) {
	if err := treefs.MakeDir(fs, dir); err != nil {
		return nil, fault.Wrap("create directory for loads", err)
	}
	names, err := fs.List(dir)
	if err != nil {
		return nil, fault.Wrap("list directory for loads", err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, stagedSuffix) {
			continue
		}
		if err := fs.Remove(fs.PathJoin(dir, name)); err != nil {
			return nil, fault.Wrap("remove an unfinished load", err)
		}
	}
	return &stagingDir{fs: fs, dir: dir}, nil
}

// create creates a file and returns its path and a writer, which the caller closes.
func (d *stagingDir) create(options sstable.WriterOptions) (path string, w *sstable.Writer, err error) {
	path = d.fs.PathJoin(d.dir, fmt.Sprintf("%d%s", d.serial.Add(1), stagedSuffix))
	f, err := d.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return "", nil, err
	}
	return path, sstable.NewWriter(objstorageprovider.NewFileWritable(f), options), nil
}

// remove removes files. The tree has linked or copied the ingested ones. The next Open removes leftovers.
func (d *stagingDir) remove(paths ...string) {
	for _, path := range paths {
		_ = d.fs.Remove(path)
	}
}

// loadWriterOptions are the tree's options for its last level. Day chunks go to that level at once. Loaded files stay
// unchanged until their day is packed. Good compression costs only 1 % of the CPU time for ingesting their samples.
func loadWriterOptions(db *pebble.DB, to *pebble.Options) sstable.WriterOptions {
	o := to.MakeWriterOptions(len(to.Levels)-1, db.TableFormat())
	o.DisableValueBlocks = true
	return o
}

// thoroughOptions returns o with another level of compression. For day chunks, a high level costs 1 % of the CPU of
// ingesting their samples. Keys are 2.5 % to 10 % of a day's bytes, and equal neighbouring series cost almost nothing.
func thoroughOptions(o sstable.WriterOptions, level uint8) sstable.WriterOptions {
	profile := *o.Compression
	profile.DataBlocks.Level = level
	o.Compression = &profile
	return o
}
