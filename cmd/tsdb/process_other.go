//go:build !unix

package main

import (
	"io"
	"os"
)

// privateFiles does nothing: the system has no file modes.
func privateFiles() {}

// lockDir only opens the directory: the LOCK files in it keep a second process out.
func lockDir(path string) (io.Closer, error) { return os.Open(path) }
