package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
)

// Source is what Create copies: a data directory that no server uses, or a snapshot.
type Source struct {
	Dir string
	// Snapshot reports that Dir is a snapshot that nobody needs afterwards. If Create is killed, the next command on the
	// repository removes it.
	Snapshot bool
}

// Created describes a new backup.
type Created struct {
	Manifest *Manifest
	// SharedBytes is the size of the files shared with older backups, CopiedBytes the size of the copied files.
	SharedBytes, CopiedBytes int64
}

// Create makes a backup. After an error it is not listed.
func (r *Repository) Create(ctx context.Context, source Source, progress *Progress) (_ *Created, err error) {
	ctx, release, err := r.backend.Lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	m := &Manifest{Version: manifestVersion, Name: r.opts.Now().UTC().Format(nameLayout), Source: source.Dir}
	snapshot := ""
	if source.Snapshot {
		snapshot = source.Dir
	}
	if err := r.backend.Begin(ctx, m.Name, snapshot); err != nil { // first, so that a killed command leaves the name of the snapshot
		return nil, err
	}
	if m.Files, err = listFiles(source.Dir); err != nil {
		return nil, err
	}
	if len(m.Files) == 0 {
		return nil, fmt.Errorf("%s has no files of a database", source.Dir)
	}
	if m.Host, err = os.Hostname(); err != nil {
		return nil, err
	}
	_, err = os.Stat(filepath.Join(source.Dir, tablesPart))
	m.Tables = err == nil
	known, err := r.known(ctx)
	if err != nil {
		return nil, err
	}
	created, err := r.fill(ctx, m, known, progress)
	if err != nil {
		return nil, err
	}
	src, err := m.append(nil)
	if err != nil {
		return nil, err
	}
	return created, r.backend.Publish(ctx, m.Name, src)
}

// fill copies the files of a manifest into its backup.
func (r *Repository) fill(ctx context.Context, m *Manifest, known knownFiles, progress *Progress) (*Created, error) {
	progress.Begin(m.SizeBytes())
	var sharedBytes atomic.Int64
	err := r.forEach(ctx, len(m.Files), func(ctx context.Context, at int) error {
		f := &m.Files[at]
		shared, err := r.backend.Add(ctx, addition{backup: m.Name, file: f, from: filepath.Join(m.Source, filepath.FromSlash(f.Path)),
			older: known[knownFile{f.Path, f.SizeBytes, f.ModTimeNs}], progress: progress})
		if shared {
			sharedBytes.Add(f.SizeBytes)
			progress.Skip(f.SizeBytes)
		}
		if err != nil {
			return fmt.Errorf("back up %s: %w", f.Path, err)
		}
		return nil
	})
	return &Created{Manifest: m, SharedBytes: sharedBytes.Load(), CopiedBytes: m.SizeBytes() - sharedBytes.Load()}, err
}

// knownFile identifies a file of a data directory. Its files either never change, or change with their modification time.
type knownFile struct {
	path                 string
	sizeBytes, modTimeNs int64
}

// knownFiles are the files in the backups of a repository.
type knownFiles map[knownFile]origin

// known returns the files of all backups that can be read. Files of newer backups come first.
func (r *Repository) known(ctx context.Context) (knownFiles, error) {
	backups, _, err := r.List(ctx)
	if err != nil {
		return nil, err
	}
	known := knownFiles{}
	for _, e := range backups {
		if e.Err != nil {
			continue // list and verify report this backup
		}
		for _, f := range e.Manifest.Files {
			known[knownFile{f.Path, f.SizeBytes, f.ModTimeNs}] = origin{e.Name, f.SHA256}
		}
	}
	return known, nil
}
