package bigtable

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	gcp "cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"

	"halite/storage"
)

// pending is one unfinished row of an Apply.
type pending struct {
	index     int // index in the request
	key       string
	mutation  *gcp.Mutation
	entries   int
	sizeBytes int
	once      bool // the mutation must not run twice
	err       error
}

// Apply implements storage.Table.
func (t *table) Apply(ctx context.Context, muts []storage.RowMutation) error {
	if t.s.closed.Load() {
		return errClosed
	}
	if err := storage.CheckApply(muts); err != nil {
		return err
	}
	return t.applyAll(ctx, muts)
}

// applyAll is Apply without a limit on entries.
func (t *table) applyAll(ctx context.Context, muts []storage.RowMutation) error {
	schema := t.schema.Load()
	rows := make([]pending, 0, len(muts))
	var failed []storage.RowError
	for i := range muts {
		if err := storage.CheckMutation(schema, &muts[i]); err != nil {
			failed = append(failed, storage.RowError{Index: i, Err: err})
			continue
		}
		if row := encodeRow(schema, &muts[i], i); row.entries > 0 {
			rows = append(rows, row)
		}
	}
	all := waves(rows)
	for n, wave := range all {
		if n > 0 {
			wave = skipAfterFailure(all[:n], wave)
		}
		t.send(ctx, wave)
	}
	for i := range rows {
		if rows[i].err != nil {
			failed = append(failed, storage.RowError{Index: rows[i].index, Err: rows[i].err})
		}
	}
	if len(failed) == 0 {
		return nil
	}
	slices.SortFunc(failed, func(a, b storage.RowError) int { return a.Index - b.Index })
	return &storage.ApplyError{Rows: failed}
}

// Load implements storage.Table, except that rows become visible one after another.
func (t *table) Load(ctx context.Context, muts []storage.RowMutation) error {
	if t.s.closed.Load() {
		return errClosed
	}
	schema := t.schema.Load()
	if err := storage.CheckLoad(schema, muts); err != nil {
		return err
	}
	if err := t.applyAll(ctx, muts); err != nil {
		return fmt.Errorf("load: some rows failed; all others are stored: %w", err)
	}
	return nil
}

// waves splits rows into waves without duplicate keys, because the service applies the rows of a request in any order.
func waves(rows []pending) [][]pending {
	if len(rows) == 0 {
		return nil
	}
	ascending := true
	for i := 1; i < len(rows) && ascending; i++ {
		ascending = rows[i-1].key < rows[i].key
	}
	if ascending {
		return [][]pending{rows}
	}
	seen := make(map[string]int, len(rows))
	numbers := make([]int, len(rows))
	last := 0
	for i := range rows {
		numbers[i] = seen[rows[i].key]
		seen[rows[i].key]++
		last = max(last, numbers[i])
	}
	if last == 0 {
		return [][]pending{rows}
	}
	// The waves are parts of one slice, so their errors are in rows.
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return numbers[a] - numbers[b] })
	sorted := make([]pending, len(rows))
	for to, from := range order {
		sorted[to] = rows[from]
	}
	copy(rows, sorted)
	slices.Sort(numbers)
	var out [][]pending
	for from := 0; from < len(rows); {
		to := from
		for to < len(rows) && numbers[to] == numbers[from] {
			to++
		}
		out = append(out, rows[from:to:to])
		from = to
	}
	return out
}

// skipAfterFailure skips the rows of a wave whose key failed in an earlier wave, and returns the other rows. The earlier
// mutation may still take effect, which must not happen after a later one.
func skipAfterFailure(before [][]pending, wave []pending) []pending {
	failed := map[string]error{}
	for _, rows := range before {
		for i := range rows {
			if rows[i].err != nil {
				failed[rows[i].key] = rows[i].err
			}
		}
	}
	if len(failed) == 0 {
		return wave
	}
	slices.SortStableFunc(wave, func(a, b pending) int {
		_, aFailed := failed[a.key]
		_, bFailed := failed[b.key]
		switch {
		case aFailed == bFailed:
			return 0
		case bFailed:
			return -1
		}
		return 1
	})
	good := len(wave)
	for good > 0 && failed[wave[good-1].key] != nil {
		good--
		wave[good].err = fmt.Errorf("an earlier mutation of the same row failed: %w", failed[wave[good].key])
	}
	return wave[:good]
}

// send writes the rows in as many requests as the limits need, and sets their errors.
func (t *table) send(ctx context.Context, rows []pending) {
	var group errgroup.Group
	group.SetLimit(t.s.opts.WritesInFlightMax)
	for from := 0; from < len(rows); {
		to, entries, sizeBytes := from, 0, 0
		for ; to < len(rows) && rows[to].once == rows[from].once; to++ {
			entries += rows[to].entries
			sizeBytes += rows[to].sizeBytes
			if to > from && (entries > t.s.opts.RequestMutationsMax || sizeBytes > t.s.opts.RequestBytesMax) {
				break
			}
		}
		batch := rows[from:to]
		group.Go(func() error {
			if batch[0].once {
				t.sendOnce(ctx, batch)
			} else {
				t.sendBulk(ctx, batch)
			}
			return nil
		})
		from = to
	}
	_ = group.Wait() // the rows hold the errors
	failed, entries := 0, 0
	for i := range rows {
		if rows[i].err != nil {
			failed++
		} else {
			entries += rows[i].entries
		}
	}
	m := t.s.metrics
	m.rowsWritten.Add(float64(len(rows) - failed))
	m.rowsFailed.Add(float64(failed))
	m.mutations.Add(float64(entries))
	t.load.wrote(rows)
}

// sendBulk writes rows with one request. The client retries the rows that may still succeed.
func (t *table) sendBulk(ctx context.Context, rows []pending) {
	keys, muts, sizeBytes := make([]string, len(rows)), make([]*gcp.Mutation, len(rows)), 0
	for i := range rows {
		keys[i], muts[i] = rows[i].key, rows[i].mutation
		sizeBytes += rows[i].sizeBytes
	}
	t.s.metrics.writeBytes.Observe(float64(sizeBytes))
	call, cancel := context.WithTimeout(ctx, t.s.opts.WriteTimeout)
	defer cancel()
	errs, err := t.rows.ApplyBulk(call, keys, muts)
	for i := range rows {
		switch {
		case err != nil:
			rows[i].err = mapError(ctx, "write rows of "+t.name, err)
		case errs != nil && errs[i] != nil:
			rows[i].err = mapError(ctx, "write a row of "+t.name, errs[i])
		}
	}
}

// sendOnce writes rows that must not be written twice. The client retries all bulk requests and plain mutations, but never
// conditional mutations. So sendOnce sends each row as a mutation whose condition is never true.
func (t *table) sendOnce(ctx context.Context, rows []pending) {
	for i := range rows {
		call, cancel := context.WithTimeout(ctx, t.s.opts.WriteTimeout)
		err := t.rows.Apply(call, rows[i].key, gcp.NewCondMutation(gcp.BlockAllFilter(), nil, rows[i].mutation))
		cancel()
		rows[i].err = unknownOutcome(mapError(ctx, "add to a row of "+t.name, err))
	}
}

// encodeRow converts a checked mutation for the client. The result has no entries if the mutation changes nothing.
func encodeRow(schema *storage.TableSchema, m *storage.RowMutation, index int) pending {
	row := pending{index: index, key: string(m.Key), mutation: gcp.NewMutation(), sizeBytes: len(m.Key)}
	for i := range m.Entries {
		e := &m.Entries[i]
		if !encodeEntry(row.mutation, e) {
			continue
		}
		row.entries++
		row.sizeBytes += len(e.Qualifier) + len(e.Value)
		if e.Kind == storage.AddToCell {
			row.sizeBytes += 8
			row.once = row.once || !addsSafely(schema, m.Entries[:i], e)
		}
	}
	return row
}

// addsSafely reports whether an addition may run twice. This is true for a minimum or maximum, and for a sum if an earlier
// entry of the same mutation empties its cell.
func addsSafely(schema *storage.TableSchema, before []storage.Entry, e *storage.Entry) bool {
	if f, _ := schema.Family(e.Family); f.Kind != storage.SumInt64 {
		return true
	}
	return slices.ContainsFunc(before, func(b storage.Entry) bool {
		switch b.Kind {
		case storage.DeleteRow:
			return true
		case storage.DeleteFamily:
			return b.Family == e.Family
		case storage.DeleteCells:
			return b.Family == e.Family && bytes.Equal(b.Qualifier, e.Qualifier) && b.FromMs <= e.TsMs &&
				(b.ToMs == 0 || e.TsMs < b.ToMs)
		}
		return false
	})
}

// encodeEntry adds one entry. It returns false if the entry changes nothing.
func encodeEntry(to *gcp.Mutation, e *storage.Entry) bool {
	switch e.Kind {
	case storage.SetCell:
		to.Set(e.Family, string(e.Qualifier), micros(e.TsMs), e.Value)
	case storage.AddToCell:
		to.AddIntToCell(e.Family, string(e.Qualifier), micros(e.TsMs), e.Add)
	case storage.DeleteCells:
		if e.FromMs > storage.TsMsMax {
			return false
		}
		toMs := e.ToMs
		if toMs > storage.TsMsMax {
			toMs = 0 // no cell has such a late timestamp
		}
		if e.FromMs == 0 && toMs == 0 {
			to.DeleteCellsInColumn(e.Family, string(e.Qualifier))
		} else {
			to.DeleteTimestampRange(e.Family, string(e.Qualifier), micros(e.FromMs), micros(toMs))
		}
	case storage.DeleteFamily:
		to.DeleteCellsInFamily(e.Family)
	case storage.DeleteRow:
		to.DeleteRow()
	}
	return true
}

// micros converts a time to Bigtable's unit. Times up to TsMsMax do not overflow.
func micros(tsMs int64) gcp.Timestamp { return gcp.Timestamp(tsMs * 1000) }
