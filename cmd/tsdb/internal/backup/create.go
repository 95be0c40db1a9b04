package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	// LinkedBytes is the size of the files shared with an older backup, CopiedBytes the size of the copied files.
	LinkedBytes, CopiedBytes int64
}

// Create makes a backup. After an error nothing of it is left.
func (r *Repository) Create(ctx context.Context, source Source, progress *Progress) (_ *Created, err error) {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	lock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	name := r.opts.Now().UTC().Format(nameLayout)
	final := filepath.Join(r.dir, name)
	if _, err := os.Lstat(final); err == nil {
		return nil, fmt.Errorf("%s exists already", final)
	}
	partial := final + partialSuffix
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	if err := os.Mkdir(partial, 0o700); err != nil {
		return nil, err
	}
	if source.Snapshot {
		if err := os.WriteFile(filepath.Join(partial, sourceName), []byte(source.Dir), 0o600); err != nil {
			return nil, err
		}
	}
	created, err := r.fill(ctx, name, partial, source.Dir, progress)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(partial, sourceName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return created, publish(partial, final)
}

// fill copies the files into an unfinished backup and writes its manifest.
func (r *Repository) fill(ctx context.Context, name, partial, dir string, progress *Progress) (*Created, error) {
	files, err := listFiles(dir)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no files of a database", dir)
	}
	known, err := r.known()
	if err != nil {
		return nil, err
	}
	m := &Manifest{Version: manifestVersion, Name: name, Source: dir, Files: files}
	if m.Host, err = os.Hostname(); err != nil {
		return nil, err
	}
	_, err = os.Stat(filepath.Join(dir, "tables"))
	m.Tables = err == nil
	progress.Begin(m.SizeBytes())
	c := &Created{Manifest: m}
	for i := range files {
		f := &files[i]
		target := filepath.Join(partial, dataName, filepath.FromSlash(f.Path))
		if linked := known.link(f, target); linked {
			c.LinkedBytes += f.SizeBytes
			progress.Skip(f.SizeBytes)
			continue
		}
		sum, sizeBytes, err := copyFile(ctx, filepath.Join(dir, filepath.FromSlash(f.Path)), target, progress)
		if err != nil {
			return nil, fmt.Errorf("back up %s: %w", f.Path, err)
		}
		if sizeBytes != f.SizeBytes {
			return nil, fmt.Errorf("back up %s: its size changed from %d to %d bytes during the copy: is it in use?", f.Path, f.SizeBytes,
				sizeBytes)
		}
		f.SHA256 = sum
		c.CopiedBytes += sizeBytes
	}
	src, err := m.append(nil)
	if err != nil {
		return nil, err
	}
	return c, writeFile(filepath.Join(partial, manifestName), src)
}

// knownFile identifies a file of a data directory. Its files either never change, or change with their modification time.
type knownFile struct {
	path                 string
	sizeBytes, modTimeNs int64
}

// knownFiles are the files in the backups of a repository.
type knownFiles map[knownFile]struct{ path, sha256 string }

// known returns the files of all backups that can be read. Files of newer backups come first.
func (r *Repository) known() (knownFiles, error) {
	backups, _, err := r.List()
	if err != nil {
		return nil, err
	}
	known := knownFiles{}
	for _, e := range backups {
		if e.Err != nil {
			continue // list and verify report this backup
		}
		for _, f := range e.Manifest.Files {
			path := filepath.Join(r.dir, e.Name, dataName, filepath.FromSlash(f.Path))
			known[knownFile{f.Path, f.SizeBytes, f.ModTimeNs}] = struct{ path, sha256 string }{path, f.SHA256}
		}
	}
	return known, nil
}

// link makes target a hard link to the copy of f in an older backup. It returns false if there is none, or if the file system has
// no hard links.
func (k knownFiles) link(f *File, target string) bool {
	have, ok := k[knownFile{f.Path, f.SizeBytes, f.ModTimeNs}]
	if !ok {
		return false
	}
	info, err := os.Lstat(have.path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.SizeBytes {
		return false
	}
	if os.MkdirAll(filepath.Dir(target), 0o700) != nil || os.Link(have.path, target) != nil {
		return false
	}
	f.SHA256 = have.sha256
	return true
}

// writeFile writes a file durably.
func writeFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}
