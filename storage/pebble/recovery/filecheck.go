package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage/pebble/fault"
)

// fileCheck reads whole table files.
type fileCheck struct {
	fs      vfs.FS
	tree    string
	names   tableNames
	readers sstable.ReaderOptions
	// visit, if not nil, is called with each readable key and value. Its error counts as damage of that key.
	visit func(key, value []byte) error
}

// check returns the damage of a file, or nil. For several damaged blocks, it describes the range from the first to the last.
func (c *fileCheck) check(f *treeFile) *fault.Damage {
	if d := c.checkSize(f); d != nil {
		return d
	}
	first, last := f.bounds()
	whole := func(err error) *fault.Damage {
		d := c.names.newDamage(f.name(), reasonOf(err), first, last)
		return &d
	}
	file, err := c.fs.Open(c.fs.PathJoin(c.tree, f.name()))
	if err != nil {
		return whole(err)
	}
	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return whole(errors.Join(err, file.Close()))
	}
	r, err := sstable.NewReader(context.Background(), readable, c.readers)
	if err != nil {
		return whole(errors.Join(err, readable.Close()))
	}
	defer r.Close()
	blocks := r.ValidateBlockChecksums()
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return whole(err)
	}
	defer it.Close()
	if from, to, reason := c.scan(it); reason != nil {
		if from != nil {
			first = from
		}
		if to != nil {
			last = to
		}
		return whole(reason)
	}
	if blocks != nil {
		return whole(blocks)
	}
	return nil
}

// checkSize checks that the file exists and has the length in the manifest.
func (c *fileCheck) checkSize(f *treeFile) *fault.Damage {
	first, last := f.bounds()
	info, err := c.fs.Stat(c.fs.PathJoin(c.tree, f.name()))
	reason := ""
	switch {
	case errors.Is(err, os.ErrNotExist):
		reason = "it is missing"
	case err != nil:
		reason = err.Error()
	case uint64(info.Size()) != f.sizeBytes:
		reason = fmt.Sprintf("it has %d bytes and should have %d", info.Size(), f.sizeBytes)
	default:
		return nil
	}
	d := c.names.newDamage(f.name(), reason, first, last)
	return &d
}

// scan reads all keys. At damage, it returns the error and the nearest readable keys, which a forward and a backward scan
// find.
func (c *fileCheck) scan(it sstable.Iterator) (from, to []byte, damage error) {
	for kv := it.First(); kv != nil; kv = it.Next() {
		if damage = c.checkKey(kv.K.UserKey, kv.Kind() == pebble.InternalKeyKindSet, kv.Value); damage != nil {
			from = bytes.Clone(kv.K.UserKey)
			break
		}
		from = append(from[:0], kv.K.UserKey...)
	}
	if damage == nil {
		damage = it.Error()
	}
	if damage == nil {
		return nil, nil, nil
	}
	for kv := it.Last(); kv != nil; kv = it.Prev() {
		to = append(to[:0], kv.K.UserKey...)
		if c.checkKey(kv.K.UserKey, kv.Kind() == pebble.InternalKeyKindSet, kv.Value) != nil {
			break
		}
	}
	return from, to, damage
}

// checkKey reads the value of a key. If the key is set, it visits the key.
func (c *fileCheck) checkKey(key []byte, set bool, read func([]byte) ([]byte, bool, error)) error {
	value, _, err := read(nil)
	if err != nil || !set || c.visit == nil {
		return err
	}
	return c.visit(key, value)
}

// reasonOf returns the text of an error of the tree without the file number, which is 0 for a file read outside the tree.
func reasonOf(err error) string { return strings.TrimPrefix(err.Error(), "pebble: file 000000: ") }
