package pebble

import (
	"bytes"
	"context"
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

	"halite/storage"
)

// Without the records of the tables no row can be found. They lie in one block of the tree, so the store keeps a copy of them
// in a file of its own. It writes the copy first, so the copy never says less than the tree.
const (
	recordsName     = "TABLES"
	recordsBytesMax = 64 << 20
	recordsSumBytes = 9 // eight hexadecimal digits and the end of the line
)

// storeRecords writes the copy, in which rec takes the place of its table's record.
func (s *Store) storeRecords(rec tableRecord) error {
	recs := []tableRecord{rec}
	for _, t := range s.tablesByName() {
		if t.id != rec.ID {
			recs = append(recs, *t.record())
		}
	}
	src, err := appendRecords(nil, recs)
	if err != nil {
		return err
	}
	return engineError("write the copy of table records", writeDurably(s.opts.FS, s.opts.Dir, recordsName, src))
}

// appendRecords appends the copy's bytes: a JSON list in a line, and the line's checksum.
func appendRecords(dst []byte, recs []tableRecord) ([]byte, error) {
	slices.SortFunc(recs, func(a, b tableRecord) int { return strings.Compare(a.Name, b.Name) })
	src, err := json.Marshal(recs)
	if err != nil {
		return nil, fmt.Errorf("encode table records: %w", err)
	}
	src = append(src, '\n')
	return fmt.Appendf(append(dst, src...), "%08x\n", crc32.Checksum(src, crc32.MakeTable(crc32.Castagnoli))), nil
}

// parseRecords is the inverse of appendRecords.
func parseRecords(src []byte) (recs []tableRecord, err error) {
	at := len(src) - recordsSumBytes
	if at < 0 {
		return nil, errors.New("it is too short")
	}
	list, sum := src[:at], fmt.Appendf(nil, "%08x\n", crc32.Checksum(src[:at], crc32.MakeTable(crc32.Castagnoli)))
	if !bytes.Equal(sum, src[at:]) {
		return nil, errors.New("its checksum is wrong")
	}
	if err := json.Unmarshal(list, &recs); err != nil {
		return nil, err
	}
	for _, rec := range recs {
		if rec.ID == catalogTable || rec.Name == "" {
			return nil, fmt.Errorf("table %d has the name %q", rec.ID, rec.Name)
		}
	}
	return recs, nil
}

// copiedRecords reads the copy; there is none before the first table.
func copiedRecords(opts *Options) ([]tableRecord, error) {
	f, err := opts.FS.Open(opts.FS.PathJoin(opts.Dir, recordsName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, engineError("read the copy of table records", err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, recordsBytesMax))
	if err != nil {
		return nil, engineError("read the copy of table records", err)
	}
	recs, err := parseRecords(src)
	if err != nil {
		return nil, &Damage{File: recordsName, Reason: err.Error()}
	}
	return recs, nil
}

// tableRecords are the records of all tables as the tree and as the copy have them. Either is nil if it is damaged.
type tableRecords struct{ inTree, copied []tableRecord }

// readRecords reads the records of all tables. It fails if both places are damaged.
func readRecords(db *pebble.DB, opts *Options, h *health) (r tableRecords, err error) {
	treeErr := readCatalog(db, catalogTables, func(name string, value []byte) error {
		var rec tableRecord
		if err := json.Unmarshal(value, &rec); err != nil || rec.Name != name || rec.ID == catalogTable {
			return fmt.Errorf("%w: record of table %q: %v", storage.ErrCorrupt, name, err)
		}
		r.inTree = append(r.inTree, rec)
		return nil
	})
	if treeErr != nil && !errors.Is(treeErr, storage.ErrCorrupt) {
		return r, treeErr
	}
	var copyErr error
	r.copied, copyErr = copiedRecords(opts)
	switch {
	case copyErr != nil && !errors.Is(copyErr, storage.ErrCorrupt):
		return r, copyErr
	case treeErr != nil && len(r.copied) == 0:
		return r, errors.Join(treeErr, copyErr)
	case treeErr != nil:
		r.inTree = nil
		h.report("table records are damaged, their copy is used", slog.LevelError, "err", treeErr)
	case copyErr != nil:
		h.report("the copy of table records is damaged and written again", slog.LevelError, "err", copyErr)
	}
	return r, nil
}

// all are the records in force. The copy says as much as the tree or more, also after the loss of a file of the tree.
func (r *tableRecords) all() []tableRecord {
	recs := slices.Clone(r.copied)
	for _, rec := range r.inTree {
		if !slices.ContainsFunc(recs, func(other tableRecord) bool { return other.ID == rec.ID || other.Name == rec.Name }) {
			recs = append(recs, rec)
		}
	}
	return recs
}

// alignRecords writes the records in force to the copy and the tree, where these have others.
func (s *Store) alignRecords(r *tableRecords) error {
	same := func(a, b tableRecord) bool { return reflect.DeepEqual(a, b) }
	for _, t := range s.tablesByName() {
		rec := *t.record()
		in := func(list []tableRecord) bool {
			return slices.ContainsFunc(list, func(other tableRecord) bool { return same(rec, other) })
		}
		if in(r.inTree) && in(r.copied) {
			continue
		}
		if err := s.putRecord(context.Background(), catalogTables, rec.Name, rec); err != nil {
			return err
		}
	}
	return nil
}
