package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage"
)

// reserveName is the file of the reserve in the directory.
const reserveName = "reserve"

// Reserve is a file that keeps disk space for a start on a full disk. A start writes a few files before it can serve reads. If
// the disk has no room for them, the start removes the reserve. Writes are refused until the reserve is back.
type Reserve struct {
	fs        vfs.FS
	dir       string
	sizeBytes int64 // 0 means no reserve
}

// NewReserve returns the reserve of sizeBytes in a data directory; 0 means none.
func NewReserve(dir string, sizeBytes int64) *Reserve {
	return &Reserve{fs: vfs.Default, dir: dir, sizeBytes: sizeBytes}
}

func (r *Reserve) path() string { return filepath.Join(r.dir, reserveName) }

// Release frees the space if the file system has less free space than the reserve, or if the reserve is switched off.
func (r *Reserve) Release() error {
	usage, err := r.fs.GetDiskUsage(r.dir)
	if err != nil {
		return fmt.Errorf("--storage.path: %w", err)
	}
	if r.sizeBytes > 0 && usage.AvailBytes >= uint64(r.sizeBytes) {
		return nil
	}
	if err := r.fs.Remove(r.path()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("release the reserve of disk space: %w", err)
	}
	return nil
}

// Restore makes the reserve unless it exists. After an error, try again later.
func (r *Reserve) Restore() error {
	if r.sizeBytes == 0 {
		return nil
	}
	if _, err := r.fs.Stat(r.path()); err == nil {
		return nil
	}
	usage, err := r.fs.GetDiskUsage(r.dir)
	if err != nil {
		return fmt.Errorf("restore the reserve of disk space: %w", err)
	}
	if least := 2 * uint64(r.sizeBytes); usage.AvailBytes < least {
		return fmt.Errorf("%w: the reserve of disk space needs %d free bytes, there are %d", storage.ErrUnavailable, least,
			usage.AvailBytes)
	}
	f, err := r.fs.Create(r.path(), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("restore the reserve of disk space: %w", err)
	}
	err = f.Preallocate(0, r.sizeBytes)
	if errors.Is(err, errors.ErrUnsupported) {
		err = fillZeros(f, r.sizeBytes)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("restore the reserve of disk space: %w", err), r.fs.Remove(r.path()))
	}
	return nil
}

// fillZeros allocates disk space on file systems that cannot preallocate.
func fillZeros(f vfs.File, sizeBytes int64) error {
	zeros := make([]byte, 1<<20)
	for sizeBytes > 0 {
		n, err := f.Write(zeros[:min(sizeBytes, int64(len(zeros)))])
		if err != nil {
			return err
		}
		sizeBytes -= int64(n)
	}
	return nil
}

// DiskSpace returns the free and the total space of the file system of a directory.
func DiskSpace(dir string) (freeBytes, totalBytes int64, err error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	if err != nil {
		return 0, 0, fmt.Errorf("measure the disk of %s: %w", dir, err)
	}
	return int64(usage.AvailBytes), int64(usage.TotalBytes), nil
}
