package recovery

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"halite/storage"
	"halite/storage/pebble/catalog"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/daycells"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/treefs"
)

// Verified is the result of Verify.
type Verified struct {
	Files     int
	SizeBytes int64
	Damages   []fault.Damage
}

// Verify reads every file of the tree: the manifest, and all blocks, keys and values of the table files. It calls visit with
// each cell that the store would return. An error of visit counts as damage of that cell. The bytes of a row are valid only
// during the call. Verify changes nothing. It returns an error only if it cannot finish.
func (t *Tree) Verify(
	ctx context.Context, codec *daycells.Codec, visit func(table string, row storage.Row) error,
) (v Verified, err error) {
	for _, err := range []error{t.CheckManifest(), t.checkNote(), t.checkCopy()} {
		var d *fault.Damage
		if errors.As(err, &d) {
			v.Damages = append(v.Damages, *d)
		} else if err != nil {
			return v, err
		}
	}
	if d := t.CheckOptions(); d != nil {
		v.Damages = append(v.Damages, *d)
	}
	files, names, err := t.files()
	if err != nil {
		v.Damages = append(v.Damages, fault.Damage{File: TreeName, Reason: reasonOf(err)})
		if files, err = t.listedFiles(); err != nil {
			return v, err
		}
	}
	walk := cellWalk{names: names, chunk: daycells.Reader{Codec: codec}, visit: visit}
	check := fileCheck{fs: t.FS, tree: t.Path(), names: names, readers: t.Options.MakeReaderOptions(), visit: walk.key}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		v.Files++
		v.SizeBytes += int64(f.sizeBytes)
		if d := check.check(f); d != nil {
			v.Damages = append(v.Damages, *d)
		}
	}
	return v, nil
}

func (t *Tree) checkNote() error {
	_, err := treefs.ReadNote(t.FS, t.FS.PathJoin(t.Dir, treefs.SyncedName))
	return err
}

func (t *Tree) checkCopy() error {
	_, err := catalog.ReadCopy(t.FS, t.Dir)
	return err
}

// listedFiles lists the table files in the directory. Verify uses it if the manifest is unreadable.
func (t *Tree) listedFiles() (files []*treeFile, err error) {
	names, err := t.FS.List(t.Path())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap("list the tree's files", err)
	}
	for _, name := range names {
		f := &treeFile{Parts: make([]filePart, 1)}
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		if _, err := fmt.Sscanf(name, "%d.sst", &f.num); err != nil {
			continue
		}
		info, err := t.FS.Stat(t.FS.PathJoin(t.Path(), name))
		if err != nil {
			return nil, fault.Wrap("list the tree's files", err)
		}
		f.sizeBytes = uint64(info.Size())
		files = append(files, f)
	}
	return files, nil
}

// cellWalk splits keys and values of files into cells.
type cellWalk struct {
	names tableNames
	chunk daycells.Reader
	visit func(table string, row storage.Row) error
	row   []byte
	value []byte
}

// key visits the cells of one key.
func (w *cellWalk) key(key, value []byte) error {
	if len(key) < cellkey.HeaderBytes {
		return cellkey.Damaged(key)
	}
	var h cellkey.Header
	copy(h[:], key)
	id := binary.BigEndian.Uint16(key)
	rec, known := w.names[id]
	if id == catalog.TableID {
		if !json.Valid(value) {
			return fmt.Errorf("%w: record %s is not JSON", storage.ErrCorrupt, cellkey.Format(key))
		}
		return nil
	}
	if !known {
		return nil // the table's record is damaged, which is reported elsewhere
	}
	var f *catalog.Family
	for i := range rec.Families {
		if rec.Families[i].ID == h[cellkey.TableIDBytes] {
			f = &rec.Families[i]
		}
	}
	if f == nil {
		return cellkey.Damaged(key)
	}
	layout := cellkey.Layout{HourKeys: rec.HourKeys}
	if split := cellkey.Split(key); layout.HourKeys && cellkey.IsDayChunk(key, split) {
		return w.dayChunk(&rec, f, h, key[cellkey.HeaderBytes:split-1], value)
	}
	k, ok := layout.Parse(key)
	if !ok {
		return cellkey.Damaged(key)
	}
	if f.Kind != storage.Plain {
		if _, _, err := cellkey.ParseOperand(value); err != nil {
			return err
		}
		value = value[1:]
	}
	w.row = layout.AppendRowKey(w.row[:0], &k)
	return w.cell(&rec, f, k.Qualifier, k.TsMs, value)
}

// dayChunk visits the cells of a day chunk.
func (w *cellWalk) dayChunk(rec *catalog.Table, f *catalog.Family, h cellkey.Header, prefix, value []byte) (err error) {
	if w.chunk.Codec == nil {
		return nil
	}
	if err := w.chunk.Open(value); err != nil {
		return err
	}
	for i, n := range w.chunk.Hours {
		hour := daycells.NewestHour(h.Day()) + uint32(n)
		if w.value, err = w.chunk.AppendValue(w.value[:0], i); err != nil {
			return err
		}
		w.row = cellkey.AppendHourDigits(append(w.row[:0], prefix...), hour)
		if err := w.cell(rec, f, w.chunk.Qualifier(i), cellkey.HourEndMs(hour), w.value); err != nil {
			return err
		}
	}
	return nil
}

func (w *cellWalk) cell(rec *catalog.Table, f *catalog.Family, qualifier []byte, tsMs int64, value []byte) error {
	if w.visit == nil {
		return nil
	}
	cells := []storage.Cell{{Family: f.Name, Qualifier: qualifier, TsMs: tsMs, Value: value}}
	return w.visit(rec.Name, storage.Row{Key: w.row, Cells: cells})
}
