package treefs

import (
	"errors"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SyncDir makes the names in a directory durable.
func SyncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

const dirMode = 0o755

// MakeDir creates a directory and its parents, and makes their names durable.
func MakeDir(fs vfs.FS, dir string) error {
	var missing []string
	for at := dir; ; at = fs.PathDir(at) {
		if _, err := fs.Stat(at); err == nil {
			break
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		missing = append(missing, at)
		if fs.PathDir(at) == at {
			break
		}
	}
	if err := fs.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	for _, at := range missing {
		if err := SyncDir(fs, fs.PathDir(at)); err != nil {
			return err
		}
	}
	return nil
}

// WriteDurably replaces a file. After power loss, the file has the old or the new content.
func WriteDurably(fs vfs.FS, dir, name string, content []byte) error {
	path := fs.PathJoin(dir, name)
	f, err := fs.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(path+".new", path); err != nil {
		return err
	}
	return SyncDir(fs, dir)
}

// OrDisk returns fs, or the machine's file system if fs is nil.
func OrDisk(fs vfs.FS) vfs.FS {
	if fs == nil {
		return vfs.Default
	}
	return fs
}
