package bigtable

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"halite/storage"
)

var _ storage.SpanTable = (*table)(nil)

// DropCells implements storage.SpanTable. The service drops rows only by prefix, with all their cells, and it also drops
// rows that are written during the call. So DropCells finds the cells, without their values, and deletes them by
// mutations that name their days.
func (t *table) DropCells(ctx context.Context, span storage.CellSpan) error {
	if t.s.closed.Load() {
		return errClosed
	}
	if err := storage.CheckSpan(t.schema.Load(), &span); err != nil {
		return err
	}
	if len(span.Rows) == 0 || span.FromDay == span.ToDay {
		return nil
	}
	fromMs, toMs := span.FromDay*storage.DayMs, span.ToDay*storage.DayMs
	it := t.ReadRows(ctx, storage.RowSet{Ranges: span.Rows}, storage.ReadOptions{Filter: storage.Filter{
		Families: []string{span.Family}, FromMs: fromMs, ToMs: toMs, KeysOnly: true,
	}})
	var doomed []storage.RowMutation
	entries := 0
	flush := func() error {
		err := t.applyAll(ctx, doomed)
		doomed, entries = doomed[:0], 0
		return err
	}
	for it.Next() {
		row := it.Row()
		m := storage.RowMutation{Key: bytes.Clone(row.Key)}
		for i := range row.Cells {
			c := &row.Cells[i]
			if i > 0 && bytes.Equal(c.Qualifier, row.Cells[i-1].Qualifier) {
				continue // another version
			}
			m.Entries = append(m.Entries, storage.Entry{
				Kind: storage.DeleteCells, Family: span.Family, Qualifier: bytes.Clone(c.Qualifier), FromMs: fromMs, ToMs: toMs,
			})
		}
		doomed = append(doomed, m)
		if entries += len(m.Entries); entries >= dropBatchRows {
			if err := flush(); err != nil {
				return errors.Join(err, it.Close())
			}
		}
	}
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		return fmt.Errorf("find cells to drop: %w", err)
	}
	return flush()
}

// Reclaim implements storage.SpanTable. It does nothing, because the service frees space on its own.
func (t *table) Reclaim(context.Context, storage.CellSpan) error { return nil }

// SpanBytes implements storage.SpanTable. The service does not report sizes.
func (t *table) SpanBytes(context.Context, storage.CellSpan) (int64, error) {
	return 0, fmt.Errorf("size of cells on Bigtable: %w", errors.ErrUnsupported)
}

// Days implements storage.SpanTable. The service does not list days.
func (t *table) Days(context.Context, string) ([]int64, error) {
	return nil, fmt.Errorf("days of a family on Bigtable: %w", errors.ErrUnsupported)
}
