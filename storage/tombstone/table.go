package tombstone

import (
	"context"

	"halite/storage"
)

// Store returns the store whose data table lacks deleted samples. All other calls go directly to the store below.
func (s *Set) Store() storage.Store {
	return storage.WrapData(s.opts.Store, func(t storage.Table) storage.Table { return &filteredTable{t, s} })
}

// Base returns the store below. Its data table has all stored samples.
func (s *Set) Base() storage.Store { return s.opts.Store }

// filteredTable is the data table without deleted samples. Writes go directly to the table below.
type filteredTable struct {
	storage.Table
	set *Set
}

// ReadRows implements storage.Table. It applies the View in opts.Deletions, or the tombstones now in force.
func (t *filteredTable) ReadRows(ctx context.Context, set storage.RowSet, opts storage.ReadOptions) storage.RowIter {
	if opts.RowsMax < 0 {
		return t.Table.ReadRows(ctx, set, opts)
	}
	given, _ := opts.Deletions.(*View)
	view, done := t.set.Within(given, opts.Filter.FromMs, opts.Filter.ToMs)
	if view == nil {
		return t.Table.ReadRows(ctx, set, opts)
	}
	it := &rowIter{table: t.Table, ctx: ctx, filter: view.NewFilter(), opts: opts, done: done, rows: opts.RowsMax}
	below := opts
	below.RowsMax = 0 // rows whose cells are all deleted do not count
	it.below = t.Table.ReadRows(ctx, set, below)
	return it
}

// rowIter yields the rows that still have cells.
type rowIter struct {
	table  storage.Table
	below  storage.RowIter
	ctx    context.Context
	opts   storage.ReadOptions
	filter *Filter
	done   func() // releases the view
	closed bool
	rows   int // rows left of opts.RowsMax, if it is set
	row    storage.Row
	err    error
}

// Next is part of storage.RowIter.
func (it *rowIter) Next() bool {
	if it.err != nil || it.opts.RowsMax > 0 && it.rows == 0 {
		return false
	}
	for it.below.Next() {
		it.row = it.below.Row()
		kept, err := it.passes()
		if err != nil {
			it.err = err
			return false
		}
		if kept {
			it.rows--
			return true
		}
	}
	return false
}

func (it *rowIter) passes() (kept bool, err error) {
	if !it.opts.Filter.KeysOnly {
		kept, _, err = it.filter.Row(it.ctx, &it.row)
		return kept, err
	}
	kept, undecided, err := it.filter.Keys(it.ctx, &it.row)
	if err != nil || !undecided {
		return kept, err
	}
	return it.readValues()
}

// readValues reads a row with its values, because its keys alone do not show whether samples are left.
func (it *rowIter) readValues() (kept bool, err error) {
	opts := storage.ReadOptions{Filter: it.opts.Filter}
	opts.Filter.KeysOnly = false
	one := it.table.ReadRows(it.ctx, storage.RowSet{Keys: [][]byte{it.row.Key}}, opts)
	defer func() {
		if closeErr := one.Close(); err == nil {
			err = closeErr
		}
	}()
	if !one.Next() {
		return false, one.Err()
	}
	row := one.Row()
	if kept, _, err = it.filter.Row(it.ctx, &row); err != nil || !kept {
		return false, err
	}
	cells := make([]storage.Cell, 0, len(row.Cells))
	for _, c := range row.Cells {
		c.Qualifier, c.Value = append([]byte(nil), c.Qualifier...), nil
		cells = append(cells, c)
	}
	it.row.Cells = cells
	return true, nil
}

// Row is part of storage.RowIter.
func (it *rowIter) Row() storage.Row { return it.row }

// Err is part of storage.RowIter.
func (it *rowIter) Err() error {
	if it.err != nil {
		return it.err
	}
	return it.below.Err()
}

// Close is part of storage.RowIter.
func (it *rowIter) Close() error {
	if !it.closed {
		it.done()
	}
	it.closed = true
	return it.below.Close()
}

var (
	_ storage.Table     = (*filteredTable)(nil)
	_ storage.Deletions = (*View)(nil)
)
