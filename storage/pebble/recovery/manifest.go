package recovery

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/treefs"
)

// manifestRecords is the content of the current manifest.
type manifestRecords struct {
	name    string // empty if there is none
	records [][]byte
	// wholeBytes is the end of the last readable record. broken is the error of the next record.
	wholeBytes int64
	broken     error
}

// readManifest reads the current manifest. If it is missing, the result is empty and the tree reports that when it opens.
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
		return m, fault.Wrap("open manifest", err)
	}
	defer f.Close()
	m.name = fs.PathBase(desc.ManifestFilename)
	records := record.NewReader(f, 0)
	for {
		m.wholeBytes = records.Offset()
		src, err := nextRecord(records)
		switch {
		case err == nil:
			m.records = append(m.records, src)
		case errors.Is(err, io.EOF):
			return m, nil
		case record.IsInvalidRecord(err):
			m.broken = err
			return m, nil
		default:
			return m, fault.Wrap("read manifest", err)
		}
	}
}

func nextRecord(records *record.Reader) ([]byte, error) {
	r, err := records.Next()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// CheckManifest fails if the manifest has lost records.
func (t *Tree) CheckManifest() error {
	fs, dir := t.FS, t.Dir
	m, err := readManifest(fs, t.Path())
	if err != nil || m.name == "" {
		return err
	}
	note, err := treefs.ReadNote(fs, fs.PathJoin(dir, treefs.SyncedName))
	if err != nil && (m.broken != nil || !errors.Is(err, storage.ErrCorrupt)) {
		return err
	}
	reason := ""
	switch {
	case len(m.records) == 0:
		reason = "it has no readable record" // a manifest comes into force with its first record
	case note.Name == m.name && m.wholeBytes < note.SizeBytes:
		reason = fmt.Sprintf("it is readable up to byte %d, but %d bytes were synced", m.wholeBytes, note.SizeBytes)
	default:
		return nil
	}
	if m.broken != nil {
		reason += ": " + m.broken.Error()
	}
	return &fault.Damage{File: m.name, Reason: reason + "; restore the directory of the tables from a copy"}
}

// Tags of fields in the tree's manifest records.
const (
	tagDeletedTable   = 6
	tagRemovedBacking = 106
)

// dropFromManifest removes files from the tree. The tree has no call for this: its excises read the files, and remove keys
// from all levels. So dropFromManifest appends a record to the manifest, like the record of a compaction that has read the
// files. It changes nothing else, so older versions of cells that the files hid become visible again.
func dropFromManifest(fs vfs.FS, tree string, m manifestRecords, files []*treeFile) error {
	var edit []byte
	for _, f := range files {
		if f.virtual {
			edit = binary.AppendUvarint(binary.AppendUvarint(edit, tagRemovedBacking), f.num)
		}
		for _, p := range f.Parts {
			edit = binary.AppendUvarint(edit, tagDeletedTable)
			edit = binary.AppendUvarint(binary.AppendUvarint(edit, uint64(p.level)), p.num)
		}
	}
	var out bytes.Buffer
	w := record.NewWriter(&out)
	for _, r := range append(m.records, edit) {
		if _, err := w.WriteRecord(r); err != nil {
			return fault.Wrap("write manifest", err)
		}
	}
	if err := w.Close(); err != nil {
		return fault.Wrap("write manifest", err)
	}
	return fault.Wrap("write manifest", treefs.WriteDurably(fs, tree, m.name, out.Bytes()))
}
