//go:build !unix

package loadtest

import "io/fs"

// fileID names a file whatever its path; here there is no such name.
type fileID struct{}

// allocated returns the length of a file.
func allocated(info fs.FileInfo) (bytes int64, id fileID, linked bool) {
	return info.Size(), fileID{}, false
}
