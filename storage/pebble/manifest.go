package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage"
)

// The tree takes the readable start of its manifest for the whole one: a crash may cut off the last record. It would also drop
// every later record behind a damaged one, and the files that these name. So the store notes how much of the manifest the last
// Sync has made durable, and refuses a manifest that is readable up to less. The caller cuts its log only after a Sync, so what
// a crash cuts off behind that place is still in the log.
const noteName = "SYNCED"

// manifestRecords is the manifest in force.
type manifestRecords struct {
	name    string // empty if there is none
	records [][]byte
	// wholeBytes is where the last readable record ends; broken says why the next one is none.
	wholeBytes int64
	broken     error
}

// readManifest reads the manifest in force. If the tree has none, or has lost it, the tree itself says so when it opens.
func readManifest(fs vfs.FS, tree string) (m manifestRecords, err error) {
	desc, err := pebble.Peek(tree, fs)
	if err != nil || !desc.Exists {
		return m, nil //nolint:nilerr // see above
	}
	f, err := fs.Open(desc.ManifestFilename)
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, engineError("open manifest", err)
	}
	defer f.Close()
	m.name = fs.PathBase(desc.ManifestFilename)
	records := record.NewReader(f, 0)
	for {
		m.wholeBytes = records.Offset()
		var src []byte
		r, err := records.Next()
		if err == nil {
			src, err = io.ReadAll(r)
		}
		switch {
		case err == nil:
			m.records = append(m.records, src)
		case errors.Is(err, io.EOF):
			return m, nil
		case record.IsInvalidRecord(err):
			m.broken = err
			return m, nil
		default:
			return m, engineError("read manifest", err)
		}
	}
}

// manifestNote is how much of which manifest is durable.
type manifestNote struct {
	name      string
	sizeBytes int64
}

// checkManifest refuses a manifest that has lost something.
func checkManifest(fs vfs.FS, dir string) error {
	m, err := readManifest(fs, fs.PathJoin(dir, treeName))
	if err != nil || m.name == "" {
		return err
	}
	note, err := readNote(fs, fs.PathJoin(dir, noteName))
	if err != nil && (m.broken != nil || !errors.Is(err, storage.ErrCorrupt)) {
		return err
	}
	reason := ""
	switch {
	case len(m.records) == 0:
		reason = "it has no readable record" // a manifest is put in force with its first record
	case note.name == m.name && m.wholeBytes < note.sizeBytes:
		reason = fmt.Sprintf("it is readable up to byte %d, but %d bytes were synced", m.wholeBytes, note.sizeBytes)
	default:
		return nil
	}
	if m.broken != nil {
		reason += ": " + m.broken.Error()
	}
	return &Damage{File: m.name, Reason: reason + "; restore the directory of the tables from a copy"}
}

// readNote reads the note; a missing one is empty, as is that of a store that was never synced.
func readNote(fs vfs.FS, path string) (n manifestNote, err error) {
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return n, engineError("open "+path, err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, noteBytesMax))
	if err != nil {
		return n, engineError("read "+path, err)
	}
	if n, err = parseNote(src); err != nil {
		return n, &Damage{File: noteName, Reason: err.Error()}
	}
	return n, nil
}

const noteBytesMax = 256

// parseNote reads a note. Its form is one line: name, size, and their checksum.
func parseNote(src []byte) (n manifestNote, err error) {
	var sum uint32
	if _, err := fmt.Sscanf(string(src), "%s %d %x\n", &n.name, &n.sizeBytes, &sum); err != nil {
		return manifestNote{}, fmt.Errorf("it is no note of a manifest: %w", err)
	}
	if !bytes.Equal(n.append(nil), src) {
		return manifestNote{}, errors.New("its checksum is wrong")
	}
	return n, nil
}

func (n manifestNote) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, "%s %d", n.name, n.sizeBytes)
	return fmt.Appendf(dst, " %08x\n", crc32.Checksum(dst, crc32.MakeTable(crc32.Castagnoli)))
}

// manifestWatch follows the manifest that the tree writes.
type manifestWatch struct {
	mu     sync.Mutex
	synced manifestNote
	noted  manifestNote
}

// note stores how much of the manifest is durable, unless that is stored already.
func (w *manifestWatch) note(fs vfs.FS, dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.synced == w.noted {
		return nil
	}
	if err := writeDurably(fs, dir, noteName, w.synced.append(nil)); err != nil {
		return engineError("note the manifest", err)
	}
	w.noted = w.synced
	return nil
}

// writeDurably replaces a file so that it has the old or the new content, also after power loss.
func writeDurably(fs vfs.FS, dir, name string, content []byte) error {
	path := fs.PathJoin(dir, name)
	f, err := fs.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

// watchedManifest counts what is written and synced. The tree writes whole records before it syncs, and one at a time.
type watchedManifest struct {
	vfs.File
	watch   *manifestWatch
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
		f.watch.synced = manifestNote{f.name, f.written}
		f.watch.mu.Unlock()
	}
	return err
}

// Tags of the fields of a manifest's records, as the tree numbers them.
const (
	tagDeletedTable   = 6
	tagRemovedBacking = 106
)

// dropFromManifest takes files out of the tree. The tree has no call for that: its excises read the files, and take keys of all
// levels. So this appends a record to the manifest that says what a compaction says of the files it has read: that they are no
// longer part of the tree. Nothing else changes; older versions of their cells, which they hid, come to light again.
func dropFromManifest(fs vfs.FS, tree string, m manifestRecords, files []*treeFile) error {
	var edit []byte
	for _, f := range files {
		if f.virtual {
			edit = binary.AppendUvarint(binary.AppendUvarint(edit, tagRemovedBacking), f.num)
		}
		for _, p := range f.parts {
			edit = binary.AppendUvarint(edit, tagDeletedTable)
			edit = binary.AppendUvarint(binary.AppendUvarint(edit, uint64(p.level)), p.num)
		}
	}
	var out bytes.Buffer
	w := record.NewWriter(&out)
	for _, r := range append(m.records, edit) {
		if _, err := w.WriteRecord(r); err != nil {
			return engineError("write manifest", err)
		}
	}
	if err := w.Close(); err != nil {
		return engineError("write manifest", err)
	}
	return engineError("write manifest", writeDurably(fs, tree, m.name, out.Bytes()))
}
