//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"halite/storage"
)

// privateFiles lets nobody but the owner of the process read the files and directories that it makes.
func privateFiles() { syscall.Umask(0o077) }

// lockDir locks a directory itself, for as long as the result is open. The lock outlives every file in the directory: removing
// a file named LOCK does not let a second process in.
func lockDir(path string) (io.Closer, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(fmt.Errorf("%w: %s", storage.ErrLocked, path), dir.Close())
	case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS), err == nil:
		return dir, nil // without the support of the file system the LOCK files remain
	default:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), dir.Close())
	}
}
