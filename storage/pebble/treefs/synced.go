package treefs

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage/pebble/fault"
)

// After a crash, the tree uses its manifest up to the first unreadable record, because a crash may cut off the last record.
// At damage, it would also drop every later record and the files that those records name. So the store records how many
// bytes of the manifest the last Sync made durable. It refuses a manifest with fewer readable bytes. The caller truncates
// its log only after a Sync, so the log still has all samples beyond that length.
const SyncedName = "SYNCED"

// SyncedNote says how many bytes of a manifest are durable.
type SyncedNote struct {
	Name      string
	SizeBytes int64
}

// ReadNote reads the note. Without the file the note is empty, as before the first sync of a store.
func ReadNote(fs vfs.FS, path string) (n SyncedNote, err error) {
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return n, fault.Wrap("open "+path, err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, noteBytesMax))
	if err != nil {
		return n, fault.Wrap("read "+path, err)
	}
	if n, err = parseNote(src); err != nil {
		return n, &fault.Damage{File: SyncedName, Reason: err.Error()}
	}
	return n, nil
}

const noteBytesMax = 256

// parseNote parses a note: one line with name, size, and the checksum of both.
func parseNote(src []byte) (n SyncedNote, err error) {
	var sum uint32
	if _, err := fmt.Sscanf(string(src), "%s %d %x\n", &n.Name, &n.SizeBytes, &sum); err != nil {
		return SyncedNote{}, fmt.Errorf("it does not describe a manifest: %w", err)
	}
	if !bytes.Equal(n.append(nil), src) {
		return SyncedNote{}, errors.New("its checksum does not match")
	}
	return n, nil
}

func (n SyncedNote) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, "%s %d", n.Name, n.SizeBytes)
	return fmt.Appendf(dst, " %08x\n", crc32.Checksum(dst, crc32.MakeTable(crc32.Castagnoli)))
}

// ManifestWatch follows the manifest that the tree writes.
type ManifestWatch struct {
	mu     sync.Mutex
	synced SyncedNote
	noted  SyncedNote
}

// Store writes the note if it has changed.
func (w *ManifestWatch) Store(fs vfs.FS, dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.synced == w.noted {
		return nil
	}
	if err := WriteDurably(fs, dir, SyncedName, w.synced.append(nil)); err != nil {
		return fault.Wrap("record the manifest", err)
	}
	w.noted = w.synced
	return nil
}

// NoteManifest writes the note of a tree that no process writes, such as a checkpoint: its whole manifest is durable.
func NoteManifest(fs vfs.FS, dir, treeDir string) error {
	names, err := fs.List(treeDir)
	if err != nil {
		return fault.Wrap("list "+treeDir, err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, ManifestPrefix) {
			continue
		}
		info, err := fs.Stat(fs.PathJoin(treeDir, name))
		if err != nil {
			return fault.Wrap("read the size of the manifest", err)
		}
		note := SyncedNote{Name: name, SizeBytes: info.Size()}
		return fault.Wrap("record the manifest", WriteDurably(fs, dir, SyncedName, note.append(nil)))
	}
	return &fault.Damage{File: treeDir, Reason: "it has no manifest"}
}

// watchedManifest counts the bytes that are written and synced. The tree writes whole records before it syncs, one at a time.
type watchedManifest struct {
	vfs.File
	watch   *ManifestWatch
	name    string
	written int64
}

// Write is part of vfs.File.
func (f *watchedManifest) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.written += int64(n)
	return n, err
}

// Sync is part of vfs.File.
func (f *watchedManifest) Sync() error { return f.synced(f.File.Sync()) }

// SyncData is part of vfs.File.
func (f *watchedManifest) SyncData() error { return f.synced(f.File.SyncData()) }

func (f *watchedManifest) synced(err error) error {
	if err == nil {
		f.watch.mu.Lock()
		f.watch.synced = SyncedNote{f.name, f.written}
		f.watch.mu.Unlock()
	}
	return err
}
