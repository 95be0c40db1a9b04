package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/health"
	"halite/storage/pebble/treefs"
)

// Without its table's record, no row is readable. These records lie in one block of the tree, so the store also keeps a copy
// in a file. It writes the copy first, so the copy never has fewer records than the tree.
const (
	CopyName        = "TABLES"
	recordsBytesMax = 64 << 20
	recordsSumBytes = 9 // eight hexadecimal digits and a newline
)

// StoreCopy writes the copy durably.
func StoreCopy(fs vfs.FS, dir string, recs []Table) error {
	src, err := appendRecords(nil, recs)
	if err != nil {
		return err
	}
	return fault.Wrap("write the copy of table records", treefs.WriteDurably(fs, dir, CopyName, src))
}

// appendRecords appends the bytes of the copy: a JSON list in one line, then the checksum of that line.
func appendRecords(dst []byte, recs []Table) ([]byte, error) {
	slices.SortFunc(recs, func(a, b Table) int { return strings.Compare(a.Name, b.Name) })
	src, err := json.Marshal(recs)
	if err != nil {
		return nil, fmt.Errorf("encode table records: %w", err)
	}
	src = append(src, '\n')
	return fmt.Appendf(append(dst, src...), "%08x\n", crc32.Checksum(src, crc32.MakeTable(crc32.Castagnoli))), nil
}

// parseRecords is the inverse of appendRecords.
func parseRecords(src []byte) (recs []Table, err error) {
	at := len(src) - recordsSumBytes
	if at < 0 {
		return nil, errors.New("it is too short")
	}
	list, sum := src[:at], fmt.Appendf(nil, "%08x\n", crc32.Checksum(src[:at], crc32.MakeTable(crc32.Castagnoli)))
	if !bytes.Equal(sum, src[at:]) {
		return nil, errors.New("checksum mismatch")
	}
	if err := json.Unmarshal(list, &recs); err != nil {
		return nil, err
	}
	for _, rec := range recs {
		if rec.ID == TableID || rec.Name == "" {
			return nil, fmt.Errorf("table %d has the name %q", rec.ID, rec.Name)
		}
	}
	return recs, nil
}

// ReadCopy reads the copy. It returns no records if the file does not exist, as before the first table.
func ReadCopy(fs vfs.FS, dir string) ([]Table, error) {
	f, err := fs.Open(fs.PathJoin(dir, CopyName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap("read the copy of table records", err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, recordsBytesMax))
	if err != nil {
		return nil, fault.Wrap("read the copy of table records", err)
	}
	recs, err := parseRecords(src)
	if err != nil {
		return nil, &fault.Damage{File: CopyName, Reason: err.Error()}
	}
	return recs, nil
}

// Records are the records of all tables in the tree and in the copy. A damaged list is nil.
type Records struct{ inTree, copied []Table }

// ReadRecords reads the records of all tables. It fails only if both tree and copy are damaged.
func ReadRecords(db *pebble.DB, fs vfs.FS, dir string, h *health.Monitor) (r Records, err error) {
	treeErr := Read(db, Tables, func(name string, value []byte) error {
		var rec Table
		if err := json.Unmarshal(value, &rec); err != nil {
			return fmt.Errorf("%w: record of table %q: %w", storage.ErrCorrupt, name, err)
		}
		if rec.Name != name || rec.ID == TableID {
			return fmt.Errorf("%w: record of table %q: it names table %q with number %d", storage.ErrCorrupt, name, rec.Name, rec.ID)
		}
		r.inTree = append(r.inTree, rec)
		return nil
	})
	if treeErr != nil && !errors.Is(treeErr, storage.ErrCorrupt) {
		return r, treeErr
	}
	var copyErr error
	r.copied, copyErr = ReadCopy(fs, dir)
	switch {
	case copyErr != nil && !errors.Is(copyErr, storage.ErrCorrupt):
		return r, copyErr
	case treeErr != nil && len(r.copied) == 0:
		return r, errors.Join(treeErr, copyErr)
	case treeErr != nil:
		r.inTree = nil
		h.Report("table records are damaged; the server uses their copy", slog.LevelError, "err", treeErr)
	case copyErr != nil:
		h.Report("the copy of table records is damaged; the server rewrites it", slog.LevelError, "err", copyErr)
	}
	return r, nil
}

// All returns the current records. The copy has all records of the tree, even after the tree loses a file.
func (r *Records) All() []Table {
	recs := slices.Clone(r.copied)
	for _, rec := range r.inTree {
		if !slices.ContainsFunc(recs, func(other Table) bool { return other.ID == rec.ID || other.Name == rec.Name }) {
			recs = append(recs, rec)
		}
	}
	return recs
}

// Stored reports whether tree and copy both have the record unchanged.
func (r *Records) Stored(rec Table) bool {
	same := func(other Table) bool { return reflect.DeepEqual(rec, other) }
	return slices.ContainsFunc(r.inTree, same) && slices.ContainsFunc(r.copied, same)
}
