package recovery

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage/pebble/catalog"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/fault"
)

// catalogName names the table records in reports.
const catalogName = "(list of tables)"

// tableNames are the tables by the number in keys.
type tableNames map[uint16]catalog.Table

// newDamage describes the keys from first to last in a file.
func (n tableNames) newDamage(file, reason string, first, last []byte) fault.Damage {
	d := fault.Damage{File: file, Reason: reason}
	if len(first) < cellkey.HeaderBytes || len(last) < cellkey.HeaderBytes {
		return d
	}
	var from, to cellkey.Header
	copy(from[:], first)
	copy(to[:], last)
	id := binary.BigEndian.Uint16(first)
	rec, known := n[id]
	switch {
	case id == catalog.TableID:
		d.Table = catalogName
	case known:
		d.Table = rec.Name
	default:
		d.Table = fmt.Sprintf("number %d", id)
	}
	// Newer days sort first. A range over several families may have any day in between.
	d.FirstDay, d.LastDay = to.Day(), from.Day()
	if from[cellkey.TableIDBytes] != to[cellkey.TableIDBytes] {
		d.FirstDay, d.LastDay = 0, max(from.Day(), to.Day())
	}
	layout := cellkey.Layout{HourKeys: rec.HourKeys}
	d.FirstRow, d.LastRow = rowText(layout, first), rowText(layout, last)
	if from != to {
		// The range covers several partitions, so it may contain any row.
		d.FirstRow, d.LastRow = min(d.FirstRow, d.LastRow), max(d.FirstRow, d.LastRow)
	}
	return d
}

// rowText returns the row key in a key of the tree, or the part of it that the key has.
func rowText(layout cellkey.Layout, key []byte) string {
	if k, ok := layout.Parse(key); ok {
		return string(layout.AppendRowKey(nil, &k))
	}
	row := key[cellkey.HeaderBytes:cellkey.Split(key)]
	if len(row) > 0 && row[len(row)-1] == cellkey.Sentinel {
		row = row[:len(row)-1]
	}
	return string(row)
}

// treeFile is a table file and the parts of it that the manifest lists. A file has several parts if the tree excised keys
// from it.
type treeFile struct {
	num       uint64
	sizeBytes uint64
	virtual   bool
	Parts     []filePart
}

// filePart is a part of a file in the manifest: level, number, first and last user key.
type filePart struct {
	level       int
	num         uint64
	First, Last []byte
}

func (f *treeFile) name() string { return fmt.Sprintf("%06d.sst", f.num) }

// bounds returns the first and the last key of all parts.
func (f *treeFile) bounds() (first, last []byte) {
	first, last = f.Parts[0].First, f.Parts[0].Last
	for _, p := range f.Parts[1:] {
		if cellkey.Compare(p.First, first) < 0 {
			first = p.First
		}
		if cellkey.Compare(p.Last, last) > 0 {
			last = p.Last
		}
	}
	return first, last
}

// TreeFiles lists the files in the manifest by number. It does not read them.
func TreeFiles(db *pebble.DB) []*treeFile {
	byNum := map[uint64]*treeFile{}
	v := db.DebugCurrentVersion()
	for level := range v.Levels {
		for m := range v.Levels[level].All() {
			num := uint64(m.TableBacking.DiskFileNum)
			f := byNum[num]
			if f == nil {
				f = &treeFile{num: num, sizeBytes: m.TableBacking.Size, virtual: m.Virtual}
				byNum[num] = f
			}
			bounds := m.UserKeyBounds()
			f.Parts = append(f.Parts, filePart{level: level, num: uint64(m.TableNum), First: bytes.Clone(bounds.Start),
				Last: bytes.Clone(bounds.End.Key)})
		}
	}
	return slices.SortedFunc(maps.Values(byNum), func(a, b *treeFile) int { return cmp.Compare(a.num, b.num) })
}
