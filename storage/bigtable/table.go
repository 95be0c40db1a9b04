package bigtable

import (
	"bytes"
	"context"
	"sync/atomic"

	gcp "cloud.google.com/go/bigtable"

	"halite/storage"
)

// dropBatchRows is the number of rows in one batch of a DropRows that goes row by row.
const dropBatchRows = 10_000

// table is the handle of one table; all users of a store share it.
type table struct {
	s      *Store
	name   string
	rows   *gcp.Table
	schema atomic.Pointer[storage.TableSchema]
	load   load
}

var _ storage.Table = (*table)(nil)

func newTable(s *Store, name string) *table {
	return &table{s: s, name: name, rows: s.client.Open(s.tableID(name))}
}

// Schema implements storage.Table.
func (t *table) Schema() storage.TableSchema { return *t.schema.Load() }

// DropRows implements storage.Table. The whole table and prefixes take one call of the service. Other ranges go row by row.
func (t *table) DropRows(ctx context.Context, r storage.RowRange) error {
	if t.s.closed.Load() {
		return errClosed
	}
	if len(r.End) > 0 && bytes.Compare(r.Start, r.End) >= 0 {
		return nil
	}
	all := len(r.Start) == 0 && len(r.End) == 0
	if !all && !bytes.Equal(successor(r.Start), r.End) {
		return t.dropRowByRow(ctx, r)
	}
	call, cancel := context.WithTimeout(ctx, t.s.opts.AdminTimeout)
	defer cancel()
	var err error
	if all {
		err = t.s.admin.DropAllRows(call, t.s.tableID(t.name))
	} else {
		err = t.s.admin.DropRowRange(call, t.s.tableID(t.name), string(r.Start))
	}
	return mapError(ctx, "drop rows of "+t.name, err)
}

// successor returns the exclusive end of the range of all keys with the prefix. It is empty if the range has no end.
func successor(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) > 0 {
		end[len(end)-1]++
	}
	return end
}

func (t *table) dropRowByRow(ctx context.Context, r storage.RowRange) error {
	// Ignore GC policies, to find rows with only garbage as well.
	keys := gcp.ChainFilters(gcp.CellsPerRowLimitFilter(1), gcp.StripValueFilter())
	it := t.scan(ctx, storage.RowSet{Ranges: []storage.RowRange{r}}, scanPlan{filter: keys, raw: true}, storage.ReadOptions{})
	defer it.Close()
	var doomed []storage.RowMutation
	flush := func() error {
		err := t.applyAll(ctx, doomed)
		doomed = doomed[:0]
		return err
	}
	for it.Next() {
		doomed = append(doomed, storage.RowMutation{Key: it.Row().Key, Entries: []storage.Entry{{Kind: storage.DeleteRow}}})
		if len(doomed) == dropBatchRows {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	return flush()
}
