package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Fault is a file of a backup that is missing, damaged or unknown.
type Fault struct {
	// Path is relative to the repository.
	Path, Reason string
}

// Verify reads every file of a backup and compares it with the manifest.
func (r *Repository) Verify(ctx context.Context, m *Manifest, progress *Progress) (faults []Fault, err error) {
	progress.Begin(m.SizeBytes())
	for i := range m.Files {
		f := &m.Files[i]
		path := filepath.Join(m.Name, dataName, filepath.FromSlash(f.Path))
		sum, sizeBytes, err := readFile(ctx, filepath.Join(r.dir, path), io.Discard, progress)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, os.ErrNotExist):
			faults = append(faults, Fault{path, "the file is missing"})
		case err != nil:
			faults = append(faults, Fault{path, err.Error()})
		case sizeBytes != f.SizeBytes || sum != f.SHA256:
			faults = append(faults, Fault{path, f.differs(sizeBytes, sum)})
		}
	}
	unknown, err := r.unknownFiles(m)
	return append(faults, unknown...), err
}

// differs says how a file differs from the manifest.
func (f *File) differs(sizeBytes int64, sum string) string {
	if sizeBytes != f.SizeBytes {
		return fmt.Sprintf("it has %d bytes instead of %d", sizeBytes, f.SizeBytes)
	}
	return fmt.Sprintf("it is damaged: its SHA-256 is %s instead of %s", sum, f.SHA256)
}

// unknownFiles finds files that the manifest does not name.
func (r *Repository) unknownFiles(m *Manifest) (faults []Fault, err error) {
	root := filepath.Join(r.dir, m.Name, dataName)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // every file is reported as missing
		}
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		_, found := slices.BinarySearchFunc(m.Files, filepath.ToSlash(relative), func(f File, path string) int {
			return strings.Compare(f.Path, path)
		})
		if !found {
			faults = append(faults, Fault{filepath.Join(m.Name, dataName, relative), "the manifest does not name it"})
		}
		return nil
	})
	return faults, err
}

// Restore copies a backup into a new data directory. It checks every file meanwhile. After an error nothing of the directory is
// left.
func (r *Repository) Restore(ctx context.Context, m *Manifest, to string, progress *Progress) (err error) {
	to, err = filepath.Abs(to)
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	if entries, err := os.ReadDir(to); err == nil && len(entries) > 0 {
		return fmt.Errorf("--to: %s is not empty: name a directory that does not exist yet", to)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--to: %w", err)
	}
	partial := to + partialSuffix
	if _, err := os.Lstat(partial); err == nil {
		return fmt.Errorf("--to: %s exists: a restore was interrupted or still runs; remove it first", partial)
	}
	if err := os.MkdirAll(partial, 0o700); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	progress.Begin(m.SizeBytes())
	for i := range m.Files {
		f := &m.Files[i]
		from := filepath.Join(m.Name, dataName, filepath.FromSlash(f.Path))
		target := filepath.Join(partial, filepath.FromSlash(f.Path))
		sum, sizeBytes, err := copyFile(ctx, filepath.Join(r.dir, from), target, progress)
		if err != nil {
			return fmt.Errorf("restore %s: %w", from, err)
		}
		if sizeBytes != f.SizeBytes || sum != f.SHA256 {
			return fmt.Errorf("restore %s: %s", from, f.differs(sizeBytes, sum))
		}
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--to: %w", err)
	}
	return publish(partial, to)
}
