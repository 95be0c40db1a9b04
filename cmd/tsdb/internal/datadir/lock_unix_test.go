//go:build unix

package datadir

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/storage"
)

// TestCloseUnlocksSharedDescriptor keeps a copy of the lock's descriptor open, as a process does between fork and exec.
func TestCloseUnlocksSharedDescriptor(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	lock, err := lockDir(path)
	require.NoError(t, err)
	copied, err := syscall.Dup(int(lock.(dirLock).dir.Fd()))
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Close(copied)) }()

	_, err = lockDir(path)
	require.ErrorIs(t, err, storage.ErrLocked)
	require.NoError(t, lock.Close())
	again, err := lockDir(path)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}
