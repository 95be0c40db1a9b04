package pebble

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"halite/storage"
	"halite/storage/pebble/cellkey"
)

// Verified is what Verify has read.
type Verified struct {
	Files     int
	SizeBytes int64
	Damages   []Damage
}

// Verify reads every file of a store that no process has open: the manifest, and all blocks, keys and values of the table
// files. It calls visit with each cell that the store gives back as it was written; an error of visit is damage of that cell.
// The bytes of a row are valid during the call only. Nothing is changed. Verify fails only if it cannot do its work.
func Verify(ctx context.Context, opts Options, visit func(table string, row storage.Row) error) (v Verified, err error) {
	if err := opts.Validate(); err != nil {
		return v, err
	}
	opts = opts.withDefaults()
	opts.FS, opts.ReadOnly = readFS{osFS(opts.FS)}, true
	lock, err := opts.FS.Lock(opts.FS.PathJoin(opts.Dir, lockName))
	if err != nil {
		return v, fmt.Errorf("%w: %s: %w", storage.ErrLocked, opts.Dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	s := &Store{opts: opts, health: newHealth(opts.Logger, opts.Now), watch: &manifestWatch{}}
	to := treeOptions(opts, s.health, s.spanEnd, s.watch)
	tree := opts.FS.PathJoin(opts.Dir, treeName)
	for _, err := range []error{checkManifest(opts.FS, opts.Dir), checkNote(&opts), checkCopy(&opts)} {
		var d *Damage
		if errors.As(err, &d) {
			v.Damages = append(v.Damages, *d)
		} else if err != nil {
			return v, err
		}
	}
	if d := checkOptions(opts.FS, tree, to); d != nil {
		v.Damages = append(v.Damages, *d)
	}
	files, names, err := peekTree(&opts, to)
	if err != nil {
		v.Damages = append(v.Damages, Damage{File: treeName, Reason: reasonOf(err)})
		if files, err = listedFiles(&opts, tree); err != nil {
			return v, err
		}
	}
	walk := cellWalk{names: names, chunk: dayChunk{codec: opts.DayChunks}, visit: visit}
	check := fileCheck{fs: opts.FS, tree: tree, names: names, readers: to.MakeReaderOptions(), visit: walk.key}
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

func checkNote(opts *Options) error {
	_, err := readNote(opts.FS, opts.FS.PathJoin(opts.Dir, noteName))
	return err
}

func checkCopy(opts *Options) error {
	_, err := copiedRecords(opts)
	return err
}

// listedFiles lists the table files in the directory of a tree whose manifest cannot be read.
func listedFiles(opts *Options, tree string) (files []*treeFile, err error) {
	names, err := opts.FS.List(tree)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, engineError("list the tree's files", err)
	}
	for _, name := range names {
		f := &treeFile{parts: make([]filePart, 1)}
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		if _, err := fmt.Sscanf(name, "%d.sst", &f.num); err != nil {
			continue
		}
		info, err := opts.FS.Stat(opts.FS.PathJoin(tree, name))
		if err != nil {
			return nil, engineError("list the tree's files", err)
		}
		f.sizeBytes = uint64(info.Size())
		files = append(files, f)
	}
	return files, nil
}

// cellWalk takes the keys and values of files apart into cells.
type cellWalk struct {
	names tableNames
	chunk dayChunk
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
	if id == catalogTable {
		if !json.Valid(value) {
			return fmt.Errorf("%w: record %s is not JSON", storage.ErrCorrupt, cellkey.Format(key))
		}
		return nil
	}
	if !known {
		return nil // its record is damaged, which is reported
	}
	var f *familyRecord
	for i := range rec.Families {
		if rec.Families[i].ID == h[cellkey.TableIDBytes] {
			f = &rec.Families[i]
		}
	}
	if f == nil {
		return cellkey.Damaged(key)
	}
	if split := cellkey.Split(key); rec.HourKeys && cellkey.IsDayChunk(key, split) {
		return w.dayChunk(&rec, f, h, key[cellkey.HeaderBytes:split-1], value)
	}
	k, ok := cellkey.Parse(key, rec.HourKeys)
	if !ok {
		return cellkey.Damaged(key)
	}
	if f.Kind != storage.Plain {
		if _, _, err := cellkey.ParseOperand(value); err != nil {
			return err
		}
		value = value[1:]
	}
	w.row = k.AppendRowKey(w.row[:0], rec.HourKeys)
	return w.cell(&rec, f, k.Qualifier, k.TsMs, value)
}

// dayChunk visits the cells of a day chunk.
func (w *cellWalk) dayChunk(rec *tableRecord, f *familyRecord, h cellkey.Header, prefix, value []byte) (err error) {
	if w.chunk.codec == nil {
		return nil
	}
	if err := w.chunk.open(value); err != nil {
		return err
	}
	for i, n := range w.chunk.hours {
		hour := newestHour(h.Day()) + uint32(n)
		if w.value, err = w.chunk.appendValue(w.value[:0], i); err != nil {
			return err
		}
		w.row = cellkey.AppendHourDigits(append(w.row[:0], prefix...), hour)
		if err := w.cell(rec, f, w.chunk.qualifier(i), cellkey.HourEndMs(hour), w.value); err != nil {
			return err
		}
	}
	return nil
}

func (w *cellWalk) cell(rec *tableRecord, f *familyRecord, qualifier []byte, tsMs int64, value []byte) error {
	if w.visit == nil {
		return nil
	}
	cells := []storage.Cell{{Family: f.Name, Qualifier: qualifier, TsMs: tsMs, Value: value}}
	return w.visit(rec.Name, storage.Row{Key: w.row, Cells: cells})
}
