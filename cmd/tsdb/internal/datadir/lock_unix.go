//go:build unix

package datadir

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"syscall"

	"halite/storage"
)

// PrivateFiles makes the files and directories of the process readable by its owner only.
func PrivateFiles() { syscall.Umask(0o077) }

// lockDir locks a directory itself, for as long as the result is open. The lock outlives every file in the directory: removing
// a file named LOCK does not let a second process in.
func lockDir(path string) (io.Closer, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(storage.ErrLocked, dir.Close())
	case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS):
		return dir, nil // the file system does not support this; the LOCK files still protect the directory
	case err == nil:
		return dirLock{dir}, nil
	default:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), dir.Close())
	}
}

// dirLock is the lock of a directory that is open.
type dirLock struct{ dir *os.File }

// Close unlocks the directory before it closes it. A process that this one is about to start shares the descriptor for a moment;
// closing alone would leave the directory locked until then.
func (l dirLock) Close() error {
	return errors.Join(syscall.Flock(int(l.dir.Fd()), syscall.LOCK_UN), l.dir.Close())
}

// DescriptorLimit returns the number of files and connections that the process may have open. Go raises the soft limit to the
// hard limit at the start.
func DescriptorLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur)
}
