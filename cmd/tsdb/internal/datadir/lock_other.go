//go:build !unix

package datadir

import (
	"io"
	"math"
	"os"
)

// PrivateFiles does nothing: the system has no file modes.
func PrivateFiles() {}

// lockDir only opens the directory: the LOCK files in it keep a second process out.
func lockDir(path string) (io.Closer, error) { return os.Open(path) }

// DescriptorLimit returns no limit: this system has none that Go reports.
func DescriptorLimit() uint64 { return math.MaxUint64 }
