package pebble

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage/pebble/cellkey"
)

// catalogName names the tree's own records of tables in reports.
const catalogName = "(list of tables)"

// daysProbedMax is the last unix day that is looked for if no bound of a file says which is the last. It is that of the
// last row key, see cellkey.HourValueMax.
const daysProbedMax = cellkey.HourValueMax / 24

// tableNames finds names and key forms of tables by the numbers in physical keys.
type tableNames map[uint16]tableRecord

// newDamage describes the keys from first to last of a file.
func (n tableNames) newDamage(file, reason string, first, last []byte) Damage {
	d := Damage{File: file, Reason: reason}
	if len(first) < cellkey.HeaderBytes || len(last) < cellkey.HeaderBytes {
		return d
	}
	var from, to cellkey.Header
	copy(from[:], first)
	copy(to[:], last)
	id := binary.BigEndian.Uint16(first)
	rec, known := n[id]
	switch {
	case id == catalogTable:
		d.Table = catalogName
	case known:
		d.Table = rec.Name
	default:
		d.Table = fmt.Sprintf("number %d", id)
	}
	// Newer days sort first. Of several families each may have any day in between.
	d.FirstDay, d.LastDay = to.Day(), from.Day()
	if from[cellkey.TableIDBytes] != to[cellkey.TableIDBytes] {
		d.FirstDay, d.LastDay = 0, max(from.Day(), to.Day())
	}
	d.FirstRow, d.LastRow = rowText(first, rec.HourKeys), rowText(last, rec.HourKeys)
	if from != to {
		// The keys are of several partitions, so the rows in between may be any.
		d.FirstRow, d.LastRow = min(d.FirstRow, d.LastRow), max(d.FirstRow, d.LastRow)
	}
	return d
}

// rowText is the row key in a physical key, or the start of it that the key has.
func rowText(key []byte, hourKeys bool) string {
	if k, ok := cellkey.Parse(key, hourKeys); ok {
		return string(k.AppendRowKey(nil, hourKeys))
	}
	row := key[cellkey.HeaderBytes:cellkey.Split(key)]
	if len(row) > 0 && row[len(row)-1] == cellkey.Sentinel {
		row = row[:len(row)-1]
	}
	return string(row)
}

// treeFile is a file of the tree and the parts of it that the manifest lists. A file has several parts if the tree has cut
// keys out of it.
type treeFile struct {
	num       uint64
	sizeBytes uint64
	virtual   bool
	parts     []filePart
}

// filePart is what the manifest says of a part: its level, its number and its first and last user key.
type filePart struct {
	level       int
	num         uint64
	first, last []byte
}

func (f *treeFile) name() string { return fmt.Sprintf("%06d.sst", f.num) }

// bounds are the first and the last key of all parts.
func (f *treeFile) bounds() (first, last []byte) {
	first, last = f.parts[0].first, f.parts[0].last
	for _, p := range f.parts[1:] {
		if cellkey.Compare(p.first, first) < 0 {
			first = p.first
		}
		if cellkey.Compare(p.last, last) > 0 {
			last = p.last
		}
	}
	return first, last
}

// treeFiles lists the files that the manifest names, by number. It reads none of them.
func treeFiles(db *pebble.DB) []*treeFile {
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
			f.parts = append(f.parts, filePart{level: level, num: uint64(m.TableNum), first: bytes.Clone(bounds.Start),
				last: bytes.Clone(bounds.End.Key)})
		}
	}
	return slices.SortedFunc(maps.Values(byNum), func(a, b *treeFile) int { return cmp.Compare(a.num, b.num) })
}

// probePartitions finds the days of a table beside damaged blocks. It looks for the first key of each day that the bounds of
// the files admit. A day whose look-up fails counts as live, so that reads of it fail too.
func (t *Table) probePartitions() (err error) {
	it, err := t.store.db.NewIter(nil)
	if err != nil {
		return engineError("find partitions", err)
	}
	defer func() { err = closeIter(it, err) }()
	for _, f := range t.families {
		for day := range t.boundedDays(f) {
			h := cellkey.NewHeader(t.id, f.id, day)
			it.SetBounds(cellkey.AppendPartitionStart(nil, h), cellkey.AppendPartitionStart(nil, h.Next()))
			if it.First() {
				f.days.add(day)
			} else if err := it.Error(); isDamage(err) {
				f.days.add(day)
			} else if err != nil {
				return err
			}
		}
	}
	// Another seek clears the last error, which belongs to a day.
	it.SetBounds([]byte{0}, []byte{cellkey.Sentinel})
	it.First()
	return nil
}

// boundedDays returns the days that the bounds of the files admit for a family.
func (t *Table) boundedDays(f *family) map[int32]struct{} {
	days := map[int32]struct{}{}
	for _, file := range treeFiles(t.store.db) {
		for _, p := range file.parts {
			if len(p.first) < cellkey.HeaderBytes || len(p.last) < cellkey.HeaderBytes {
				continue
			}
			var from, to cellkey.Header
			copy(from[:], p.first)
			copy(to[:], p.last)
			own := cellkey.NewHeader(t.id, f.id, 0)
			if bytes.Compare(from[:cellkey.TableIDBytes+1], own[:cellkey.TableIDBytes+1]) > 0 ||
				bytes.Compare(to[:cellkey.TableIDBytes+1], own[:cellkey.TableIDBytes+1]) < 0 {
				continue
			}
			newest, oldest := from.Day(), to.Day()
			if !bytes.Equal(from[:cellkey.TableIDBytes+1], own[:cellkey.TableIDBytes+1]) {
				newest = daysProbedMax
			}
			if !bytes.Equal(to[:cellkey.TableIDBytes+1], own[:cellkey.TableIDBytes+1]) {
				oldest = 0
			}
			for day := oldest; day <= newest; day++ {
				days[day] = struct{}{}
			}
		}
	}
	return days
}
