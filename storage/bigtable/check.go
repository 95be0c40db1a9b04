package bigtable

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	gcp "cloud.google.com/go/bigtable"

	"halite/storage"
)

// CheckAndApply implements storage.Table. It runs once. If the reply is lost, the error says that the outcome is unknown.
func (t *table) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (bool, error) {
	if t.s.closed.Load() {
		return false, errClosed
	}
	schema := t.schema.Load()
	if err := storage.CheckKey(schema, key); err != nil {
		return false, err
	}
	onTrue, err := encodeBranch(schema, key, &then)
	if err != nil {
		return false, err
	}
	onFalse, err := encodeBranch(schema, key, &otherwise)
	if err != nil {
		return false, err
	}
	cond.VersionsMax, cond.KeysOnly = 0, true
	if onTrue == nil && onFalse == nil {
		return t.matches(ctx, key, cond)
	}
	plan := planScan(schema, cond, t.s.opts.Now(), filterBytesMax)
	switch {
	case plan.empty:
		plan.filter = gcp.BlockAllFilter()
	case !plan.exact:
		return false, fmt.Errorf("%w: the condition is larger than the %d bytes that the service accepts", storage.ErrBadMutation,
			filterBytesMax)
	}
	call, cancel := context.WithTimeout(ctx, t.s.opts.WriteTimeout)
	defer cancel()
	matched := false
	err = t.rows.Apply(call, string(key), gcp.NewCondMutation(plan.filter, onTrue, onFalse), gcp.GetCondMutationResult(&matched))
	if err != nil {
		t.s.metrics.rowsFailed.Inc()
		return false, unknownOutcome(mapError(ctx, "check and change a row of "+t.name, err))
	}
	row := pending{key: string(key)}
	chosen := &otherwise
	if matched {
		chosen = &then
	}
	if len(chosen.Entries) > 0 {
		row = encodeRow(schema, &storage.RowMutation{Key: key, Entries: chosen.Entries}, 0)
		t.s.metrics.rowsWritten.Inc()
		t.s.metrics.mutations.Add(float64(row.entries))
		t.load.wrote([]pending{row})
	}
	return matched, nil
}

// encodeBranch checks and converts one branch. It returns nil if the branch changes nothing.
func encodeBranch(schema *storage.TableSchema, key []byte, m *storage.RowMutation) (*gcp.Mutation, error) {
	if len(m.Entries) == 0 {
		return nil, nil
	}
	if len(m.Key) > 0 && !bytes.Equal(m.Key, key) {
		return nil, fmt.Errorf("%w: the mutation names row %.80q, the condition row %.80q", storage.ErrBadMutation, m.Key, key)
	}
	whole := storage.RowMutation{Key: key, Entries: m.Entries}
	if err := storage.CheckMutation(schema, &whole); err != nil {
		return nil, err
	}
	row := encodeRow(schema, &whole, 0)
	if row.entries == 0 {
		return nil, nil
	}
	return row.mutation, nil
}

// matches evaluates the condition without changing the row.
func (t *table) matches(ctx context.Context, key []byte, cond storage.Filter) (bool, error) {
	it := t.ReadRows(ctx, storage.RowSet{Keys: [][]byte{key}}, storage.ReadOptions{Filter: cond})
	found := it.Next()
	return found, errors.Join(it.Err(), it.Close())
}
