package storage

import (
	"context"
	"errors"
)

// HasRow reports whether the set has a row with a cell that passes the filter. It stops at the first such row.
func HasRow(ctx context.Context, t Table, set RowSet, f Filter) (bool, error) {
	it := t.ReadRows(ctx, set, ReadOptions{Filter: f, RowsMax: 1})
	has := it.Next()
	return has, errors.Join(it.Err(), it.Close())
}
