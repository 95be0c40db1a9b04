package keyviz

import (
	"context"

	"halite/storage"
	"halite/storage/keyviz/heat"
	"halite/storage/keyviz/ranges"
)

// Store wraps s so that the collector counts reads and writes of its data table.
func (c *Collector) Store(s storage.Store) storage.Store {
	if c == nil {
		return s
	}
	return storage.WrapData(s, func(t storage.Table) storage.Table { return &countedTable{t, c} })
}

// countedTable counts the load of the data table.
type countedTable struct {
	storage.Table
	collector *Collector
}

// Apply implements storage.Table.
func (t *countedTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	err := t.Table.Apply(ctx, muts)
	t.collector.wrote(muts, err)
	return err
}

// Load implements storage.Table.
func (t *countedTable) Load(ctx context.Context, muts []storage.RowMutation) error {
	err := t.Table.Load(ctx, muts)
	t.collector.wrote(muts, err)
	return err
}

// wrote counts written rows, or a failure.
func (c *Collector) wrote(muts []storage.RowMutation, err error) {
	if len(muts) == 0 {
		return
	}
	work := c.set.Begin()
	for i := 0; i < len(muts) && err == nil; i++ {
		m := &muts[i]
		sizeBytes := len(m.Key)
		for j := range m.Entries {
			sizeBytes += len(m.Entries[j].Qualifier) + len(m.Entries[j].Value)
		}
		var counts heat.Counts
		counts[heat.WriteRows], counts[heat.WriteBytes] = 1, float64(sizeBytes)
		work.Row(m.Key, &counts)
	}
	work.End(c.opts.Now().UnixMilli(), muts[0].Key, 0, err != nil)
}

// ReadRows implements storage.Table.
func (t *countedTable) ReadRows(ctx context.Context, set storage.RowSet, opts storage.ReadOptions) storage.RowIter {
	it := &countedIter{collector: t.collector, work: t.collector.set.Begin()}
	switch {
	case len(set.Keys) > 0:
		it.first = set.Keys[0]
	case len(set.Ranges) > 0:
		it.first = set.Ranges[0].Start
	}
	began := t.collector.opts.Now()
	it.RowIter = t.Table.ReadRows(ctx, set, opts)
	it.nanos = t.collector.opts.Now().Sub(began).Nanoseconds()
	return it
}

// countedIter counts the rows of one read. It measures the time of the first row, which includes the seek, and then of each
// timedRows-th row. Reading the clock costs more than reading a row.
type countedIter struct {
	storage.RowIter
	collector *Collector
	work      *ranges.Work
	first     []byte
	rows      int
	nanos     int64
	closed    bool
}

// timedRows is the number of rows between two measured ones.
const timedRows = 64

// Next implements storage.RowIter.
func (it *countedIter) Next() bool {
	var ok bool
	switch {
	case it.rows == 0:
		ok = it.timed(1)
	case it.rows%timedRows == 0:
		ok = it.timed(timedRows)
	default:
		ok = it.RowIter.Next()
	}
	if !ok {
		return false
	}
	it.rows++
	row := it.RowIter.Row()
	sizeBytes := len(row.Key)
	for i := range row.Cells {
		sizeBytes += len(row.Cells[i].Qualifier) + len(row.Cells[i].Value)
	}
	var counts heat.Counts
	counts[heat.ReadRows], counts[heat.ReadBytes] = 1, float64(sizeBytes)
	it.work.Row(row.Key, &counts)
	return true
}

// timed reads the next row and counts its time weight times.
func (it *countedIter) timed(weight int64) bool {
	began := it.collector.opts.Now()
	ok := it.RowIter.Next()
	it.nanos += weight * it.collector.opts.Now().Sub(began).Nanoseconds()
	return ok
}

// Close implements storage.RowIter.
func (it *countedIter) Close() error {
	failed := it.RowIter.Err() != nil
	err := it.RowIter.Close()
	if it.closed {
		return err
	}
	it.closed = true
	it.work.End(it.collector.opts.Now().UnixMilli(), it.first, it.nanos, failed || err != nil)
	return err
}

var _ storage.Table = (*countedTable)(nil)
