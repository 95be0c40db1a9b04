package segment

import (
	"context"

	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/presence"
)

// PrefixRows returns the rows whose keys begin with prefix.
func PrefixRows(prefix string) storage.RowSet {
	end := []byte(prefix)
	end[len(end)-1]++
	return storage.RowSet{Ranges: []storage.RowRange{{Start: []byte(prefix), End: end}}}
}

// ManifestRows returns the rows of all manifests.
func ManifestRows() storage.RowSet {
	return storage.RowSet{Ranges: append(PrefixRows(ManifestPrefix).Ranges, PrefixRows(MonthManifestPrefix).Ranges...)}
}

// JournalRows returns the rows of a day's journal.
func JournalRows(day int64) storage.RowSet {
	return PrefixRows(string(append(AppendDay([]byte(JournalPrefix), day), '#')))
}

// KeysOf returns a filter that passes the cells of a partition, without values.
func KeysOf(p presence.Partition) storage.Filter {
	return storage.Filter{FromMs: p.CellMs(), ToMs: p.CellMs() + 1, KeysOnly: true}
}

// EachCell calls fn with the key and qualifier of each cell of a partition. Both slices are valid only during the call.
func EachCell(
	ctx context.Context, t storage.Table, rows storage.RowSet, p presence.Partition, fn func(key, qualifier []byte) error,
) error {
	it := t.ReadRows(ctx, rows, storage.ReadOptions{Filter: KeysOf(p)})
	defer func() { _ = it.Close() }()
	for it.Next() {
		row := it.Row()
		for _, c := range row.Cells {
			if err := fn(row.Key, c.Qualifier); err != nil {
				return err
			}
		}
	}
	return it.Err()
}

// ManifestCell seals blob and returns it as a cell of a partition's manifest row.
func ManifestCell(p presence.Partition, qualifier, blob []byte) storage.Entry {
	return storage.Entry{
		Kind: storage.SetCell, Family: storage.FamilyIndex, Qualifier: qualifier,
		TsMs: p.CellMs(), Value: envelope.Seal(blob, ManifestKey(p), qualifier),
	}
}

// deleteBatch is the number of cells that one request deletes.
const deleteBatch = 4096

// Deleter deletes cells in batches. A caller may use it while it iterates over the same cells, because its iterator sees the
// earlier state of the table. Nobody else may read these cells.
type Deleter struct {
	ctx       context.Context
	table     storage.Table
	mutations []storage.RowMutation
	cells     int
}

// NewDeleter returns a Deleter of cells of a table.
func NewDeleter(ctx context.Context, table storage.Table) *Deleter {
	return &Deleter{ctx: ctx, table: table}
}

// Cell deletes a cell, at the latest in Flush.
func (d *Deleter) Cell(key, qualifier []byte) error {
	k := len(d.mutations) - 1
	if k < 0 || string(d.mutations[k].Key) != string(key) {
		d.mutations = append(d.mutations, storage.RowMutation{Key: append([]byte(nil), key...)})
		k++
	}
	d.mutations[k].Entries = append(d.mutations[k].Entries, storage.Entry{
		Kind: storage.DeleteCells, Family: storage.FamilyIndex, Qualifier: append([]byte(nil), qualifier...),
	})
	if d.cells++; d.cells < deleteBatch {
		return nil
	}
	return d.Flush()
}

// Flush deletes the remaining cells.
func (d *Deleter) Flush() error {
	if len(d.mutations) == 0 {
		return nil
	}
	err := d.table.Apply(d.ctx, d.mutations)
	d.mutations, d.cells = nil, 0
	return err
}
