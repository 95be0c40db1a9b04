package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"halite/cmd/tsdb/internal/datadir"
)

// Verify reads every file of a backup and compares it with the manifest.
func (r *Repository) Verify(ctx context.Context, m *Manifest, progress *Progress) (faults []Fault, err error) {
	progress.Begin(m.SizeBytes())
	reasons := make([]string, len(m.Files))
	err = r.forEach(ctx, len(m.Files), func(ctx context.Context, at int) error {
		err := r.read(ctx, m.Name, &m.Files[at], func(in io.Reader) (string, int64, error) {
			return readAll(ctx, in, io.Discard, progress)
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist):
			reasons[at] = "the file is missing"
		case err != nil:
			reasons[at] = err.Error()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, reason := range reasons {
		if reason != "" {
			faults = append(faults, Fault{m.Files[i].Path, reason})
		}
	}
	unknown, err := r.backend.Unknown(ctx, m)
	return append(faults, unknown...), err
}

// read opens a file of a backup for consume, which returns its SHA-256 and size. It compares them with the manifest.
func (r *Repository) read(ctx context.Context, backup string, f *File, consume func(io.Reader) (string, int64, error)) error {
	in, err := r.backend.Open(ctx, backup, f)
	if err != nil {
		return err
	}
	sum, sizeBytes, err := consume(in)
	if err = errors.Join(err, in.Close()); err != nil {
		return err
	}
	if sizeBytes != f.SizeBytes || sum != f.SHA256 {
		return errors.New(f.differs(sizeBytes, sum))
	}
	return nil
}

// Restore copies a backup into a new data directory and checks every file. After an error no part of the directory remains.
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
	lock, err := claim(partial)
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
		err = errors.Join(err, lock.Close())
	}()
	progress.Begin(m.SizeBytes())
	err = r.forEach(ctx, len(m.Files), func(ctx context.Context, at int) error {
		f := &m.Files[at]
		target := filepath.Join(partial, filepath.FromSlash(f.Path))
		err := r.read(ctx, m.Name, f, func(in io.Reader) (string, int64, error) { return copyFile(ctx, in, target, progress) })
		if err != nil {
			return fmt.Errorf("restore %s: %w", f.Path, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--to: %w", err)
	}
	return publish(partial, to)
}

// claim makes the directory of an unfinished restore, and keeps other restores out of it until the result is closed. It removes
// what a killed restore has left, and nothing else.
func claim(partial string) (lock io.Closer, err error) {
	if err := os.MkdirAll(partial, 0o700); err != nil {
		return nil, err
	}
	if lock, err = datadir.Lock(partial); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(partial)
	for _, e := range entries {
		if path := filepath.Join(partial, e.Name()); e.Name() == tablesPart || e.Name() == logPart {
			err = errors.Join(err, os.RemoveAll(path))
		} else {
			err = errors.Join(err, fmt.Errorf("%s is not from a restore: move it away first", path))
		}
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}
