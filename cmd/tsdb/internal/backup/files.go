package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// partialSuffix ends the names of unfinished files and directories.
	partialSuffix = ".partial"
	// tablesPart and logPart are the directories of a data directory that a backup copies.
	tablesPart = "tables"
	logPart    = "wal"
	// copyBytes is the size of one read.
	copyBytes = 1 << 20
)

// listFiles lists the files of a data directory that a backup needs, in order. Locks, unfinished files and files set aside are
// not needed.
func listFiles(dir string) ([]File, error) {
	var files []File
	for _, part := range []string{tablesPart, logPart} {
		err := filepath.WalkDir(filepath.Join(dir, part), func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, os.ErrNotExist) && part == tablesPart {
				return nil // the tables are in Bigtable
			}
			if err != nil {
				return err
			}
			if entry.IsDir() {
				if entry.Name() == "staged" || entry.Name() == "damaged" {
					return filepath.SkipDir
				}
				return nil
			}
			relative, err := filepath.Rel(dir, path)
			if err != nil || !needed(filepath.ToSlash(relative)) {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			if !info.Mode().IsRegular() {
				return fmt.Errorf("%s is not a regular file", path)
			}
			files = append(files, File{Path: filepath.ToSlash(relative), SizeBytes: info.Size(), ModTimeNs: info.ModTime().UnixNano()})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list the files to back up: %w", err)
		}
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

// needed reports whether a file of a data directory belongs in a backup.
func needed(path string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	if strings.HasPrefix(path, "tables/lost/") {
		return path == "tables/lost/pending.json"
	}
	return name != "LOCK" && !strings.HasSuffix(name, ".tmp") && !strings.HasSuffix(name, ".new")
}

// copyFile copies in to a new file, durably. It returns the SHA-256 in hexadecimal and the number of copied bytes.
func copyFile(ctx context.Context, in io.Reader, to string, progress *Progress) (sum string, sizeBytes int64, err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", 0, err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", 0, err
	}
	sum, sizeBytes, err = readAll(ctx, in, out, progress)
	return sum, sizeBytes, errors.Join(err, out.Sync(), out.Close())
}

// readAll copies in to w and returns the SHA-256 and the size.
func readAll(ctx context.Context, in io.Reader, w io.Writer, progress *Progress) (sum string, sizeBytes int64, err error) {
	h := sha256.New()
	sizeBytes, err = pump(ctx, in, w, h, progress)
	return hex.EncodeToString(h.Sum(nil)), sizeBytes, err
}

func pump(ctx context.Context, in io.Reader, w io.Writer, h hash.Hash, progress *Progress) (sizeBytes int64, err error) {
	buffer := make([]byte, copyBytes)
	for {
		if err := context.Cause(ctx); err != nil {
			return sizeBytes, err
		}
		n, err := in.Read(buffer)
		h.Write(buffer[:n])
		if _, err := w.Write(buffer[:n]); err != nil {
			return sizeBytes, err
		}
		sizeBytes += int64(n)
		progress.Add(int64(n))
		if errors.Is(err, io.EOF) {
			return sizeBytes, nil
		}
		if err != nil {
			return sizeBytes, err
		}
	}
}

// writeFile writes a new file durably.
func writeFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// changed is the error of a file that has another size after its copy than before.
func (f *File) changed(sizeBytes int64) error {
	return fmt.Errorf("its size changed from %d to %d bytes during the copy: is it in use?", f.SizeBytes, sizeBytes)
}

// syncTree makes the names in a directory and below durable.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return syncDir(path)
	})
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// publish gives a finished directory its final name, durably.
func publish(partial, final string) error {
	if err := syncTree(partial); err != nil {
		return err
	}
	if err := os.Rename(partial, final); err != nil {
		return err
	}
	return syncDir(filepath.Dir(final))
}

// removePartial removes the unfinished entries that an interrupted command has left in a directory. The directory need not exist.
// ours reports whether a final name is one that these commands make.
func removePartial(dir string, ours func(path string) bool) error {
	left, err := filepath.Glob(filepath.Join(dir, "*"+partialSuffix))
	for _, path := range left {
		if ours(strings.TrimSuffix(path, partialSuffix)) {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}
