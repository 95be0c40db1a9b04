package wal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	segmentSuffix    = ".wal"
	checkpointSuffix = ".ckpt"
	tempSuffix       = ".tmp"
	nextName         = "next" + tempSuffix
	watermarkName    = "watermark"
	lockName         = "LOCK"
	damagedName      = "damaged"
	nameDigits       = 8
)

func segmentName(number uint64) string {
	return fmt.Sprintf("%0*d%s", nameDigits, number, segmentSuffix)
}
func checkpointName(number uint64) string {
	return fmt.Sprintf("%0*d%s", nameDigits, number, checkpointSuffix)
}

// parseName returns the number in the name of a segment or checkpoint. It accepts only the spelling of segmentName and
// checkpointName, so no two files have the same number.
func parseName(name, suffix string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n == 0 || fmt.Sprintf("%0*d", nameDigits, n) != digits {
		return 0, false
	}
	return n, true
}

// layout lists the files in a log's directory.
type layout struct {
	// checkpoint is the number of the newest checkpoint, 0 if there is none. segments holds the numbers of the segments from the
	// checkpoint on, ascending.
	checkpoint uint64
	segments   []uint64
	// watermark reports whether the watermark file exists.
	watermark bool
	// obsolete files are unfinished, or replaced by the checkpoint and not yet removed.
	obsolete []string
}

func (l *layout) empty() bool { return l.checkpoint == 0 && len(l.segments) == 0 }

func readLayout(fs vfs.FS, dir string) (layout, error) {
	names, err := fs.List(dir)
	if err != nil {
		return layout{}, fmt.Errorf("list the log's directory: %w", err)
	}
	slices.Sort(names)
	var l layout
	for _, name := range names {
		if n, ok := parseName(name, checkpointSuffix); ok {
			l.checkpoint = max(l.checkpoint, n)
		}
	}
	for _, name := range names {
		if n, ok := parseName(name, segmentSuffix); ok && n >= l.checkpoint {
			l.segments = append(l.segments, n)
		} else if c, isCheckpoint := parseName(name, checkpointSuffix); ok || isCheckpoint && c < l.checkpoint {
			l.obsolete = append(l.obsolete, name)
		} else if strings.HasSuffix(name, tempSuffix) {
			l.obsolete = append(l.obsolete, name)
		} else if name == watermarkName {
			l.watermark = true
		}
	}
	slices.Sort(l.segments)
	return l, nil
}

// makeDir creates dir and its missing parents, and syncs the parent of each.
func makeDir(fs vfs.FS, dir string) error {
	var created []string
	for d := dir; ; d = fs.PathDir(d) {
		if _, err := fs.Stat(d); err == nil || d == fs.PathDir(d) {
			break
		} else if !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("stat the log's directory: %w", err)
		}
		created = append(created, d)
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the log's directory: %w", err)
	}
	for _, d := range slices.Backward(created) {
		if err := syncDir(fs, fs.PathDir(d)); err != nil {
			return err
		}
	}
	return nil
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("open directory %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// removeAll removes the named files of dir; a missing file is not an error. The caller syncs the directory.
func removeAll(fs vfs.FS, dir string, names []string) error {
	for _, name := range names {
		if err := fs.Remove(fs.PathJoin(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}

// writeNamed creates a file atomically and durably: write to a temporary name, sync, rename, sync the directory. It returns the
// file, open at its end.
func writeNamed(fs vfs.FS, dir, name string, contents []byte) (vfs.File, error) {
	temp := name + tempSuffix
	f, err := fs.Create(fs.PathJoin(dir, temp), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	if err = fillNamed(fs, f, dir, temp, name, contents); err == nil {
		err = syncDir(fs, dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// fillNamed writes the contents to an empty temporary file, syncs it and renames it. The caller syncs the directory.
func fillNamed(fs vfs.FS, f vfs.File, dir, temp, name string, contents []byte) error {
	if _, err := f.Write(contents); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", name, err)
	}
	if err := fs.Rename(fs.PathJoin(dir, temp), fs.PathJoin(dir, name)); err != nil {
		return fmt.Errorf("rename %s: %w", name, err)
	}
	return nil
}
