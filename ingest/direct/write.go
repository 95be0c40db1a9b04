package direct

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"halite/ingest"
	"halite/ingest/direct/compactor"
	"halite/ingest/flush"
	"halite/ingest/head"
	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/periodic"
)

const (
	// rowEntriesMax bounds the cells in one mutation of a row.
	rowEntriesMax = storage.EntriesMax / 2
	// retryDelayMin is the first pause before a retry; each further pause is twice as long.
	retryDelayMin = 50 * time.Millisecond
	retryDelayMax = 2 * time.Second
)

// rowBatch holds the mutations of one request.
type rowBatch struct {
	samples []head.Sample
	rows    []batchRow
	arena   flush.Arena
	// unknown is set if this process does not know that the tables of the index list all of the rows.
	unknown bool
	hours   map[int64]struct{}
	// version and floor are the version and the floor of the tombstones that precede the samples.
	version uint64
	floor   uint32
}

// batchRow is a mutation of one row.
type batchRow struct {
	hour     int64
	ref      index.Ref
	mutation storage.RowMutation
	marked   bool
}

// Write stores a request and returns when the tables hold it. It returns the results and errors of Ingester.Write. But an
// *OverloadError of the storage may come after part of the request was stored.
func (t *Direct) Write(ctx context.Context, in ingest.Input) (ingest.Result, error) {
	r, err := t.Begin(ctx, in)
	if err != nil {
		return ingest.Result{}, err
	}
	defer r.Release()
	b, err := t.prepare(r)
	r.Leave()
	if err == nil {
		err = t.await(ctx, r, b)
	}
	return r.Finish(err)
}

// prepare reads a request and makes its mutations. No series is removed from memory meanwhile.
func (t *Direct) prepare(r *ingest.Request) (*rowBatch, error) {
	t.LockSeries()
	defer t.UnlockSeries()
	if err := r.Read(); err != nil {
		return nil, err
	}
	b, err := t.makeBatch(r)
	if err != nil {
		return nil, err
	}
	return b, r.StoreMetadata()
}

// makeBatch makes the mutations of the request's rows. For samples with equal timestamps, it keeps their order.
func (t *Direct) makeBatch(r *ingest.Request) (*rowBatch, error) {
	b := &rowBatch{hours: map[int64]struct{}{}}
	for _, s := range r.Samples() {
		if s.Ref != 0 {
			b.samples = append(b.samples, s)
		}
	}
	slices.SortStableFunc(b.samples, func(a, b head.Sample) int {
		if a.Ref != b.Ref {
			return int(int64(a.Ref) - int64(b.Ref))
		}
		return int(keyschema.HourOf(a.TsMs) - keyschema.HourOf(b.TsMs))
	})
	if t.opts.Tombstones != nil { // before the look-up in the index
		view := t.opts.Tombstones.View()
		b.version, b.floor = view.Version(), view.Floor()
		view.Release()
	}
	for from := 0; from < len(b.samples); {
		first, to := b.samples[from], from+1
		hour := keyschema.HourOf(first.TsMs)
		for to < len(b.samples) && b.samples[to].Ref == first.Ref && keyschema.HourOf(b.samples[to].TsMs) == hour {
			to++
		}
		if err := t.addRow(b, index.Ref(first.Ref), hour, b.samples[from:to]); err != nil {
			return nil, err
		}
		from = to
	}
	return b, nil
}

// addRow adds the samples of one series and hour. It also adds the hour to the index.
func (t *Direct) addRow(b *rowBatch, ref index.Ref, hour int64, samples []head.Sample) error {
	if !t.opts.Index.IsPersisted(ref, hour) {
		t.opts.Index.MarkActive(ref, hour)
		b.unknown = true
	}
	b.hours[hour] = struct{}{}
	key := b.arena.Append(func(dst []byte) []byte { return t.opts.Index.AppendRowKey(dst, ref, hour) })
	if len(key) == 0 {
		return fmt.Errorf("series %d of a request is unknown to the index", ref)
	}
	for some := range slices.Chunk(samples, rowEntriesMax) {
		m := storage.RowMutation{Key: key, Entries: make([]storage.Entry, 0, len(some)+1)}
		for _, s := range some {
			m.Entries = append(m.Entries, storage.Entry{
				Kind: storage.SetCell, Family: storage.FamilySamples, TsMs: keyschema.HourCellMs(hour),
				Qualifier: b.arena.Append(func(dst []byte) []byte {
					return keyschema.AppendLaterSampleQualifier(dst, uint32(s.TsMs-keyschema.HourStartMs(hour)), b.floor)
				}),
				Value: b.arena.Append(func(dst []byte) []byte { return chunk.AppendSampleValue(dst, s.Value) }),
			})
		}
		b.rows = append(b.rows, batchRow{hour: hour, ref: ref, mutation: m})
	}
	return nil
}

// await adds the rows to the index, then writes them. It returns when index and table have acknowledged both.
func (t *Direct) await(ctx context.Context, r *ingest.Request, b *rowBatch) error {
	if len(b.rows) == 0 {
		return nil
	}
	// Readers may see samples as soon as the first row is written.
	defer func() { r.NoteChanges(b.samples) }()
	writing, cancel := context.WithTimeout(ctx, t.opts.WriteTimeout)
	defer cancel()
	err := t.writeBatch(writing, b)
	switch {
	case err == nil:
		r.Accept(len(b.samples))
		r.CountHeat(b.samples)
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, storage.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return t.Overload(ingest.ResourceTables, err.Error())
	}
	return err
}

func (t *Direct) writeBatch(ctx context.Context, b *rowBatch) error {
	if b.unknown {
		if err := t.opts.Index.Persist(ctx); err != nil {
			return err
		}
		if err := t.opts.Store.Sync(ctx); err != nil {
			return err
		}
	}
	if err := t.put(ctx, b); err != nil {
		return err
	}
	if err := t.confirm(ctx, b); err != nil {
		return err
	}
	return t.opts.Store.Sync(ctx)
}

// put writes the rows of a batch, with notes for the compactor.
func (t *Direct) put(ctx context.Context, b *rowBatch) error {
	if err := t.note(ctx, b, false); err != nil {
		return err
	}
	// Samples that became late during the write get a mark and are written again. The compactor may have packed the row
	// meanwhile.
	for rows := b.rows; len(rows) > 0; {
		t.mark(rows)
		if err := t.apply(ctx, rows); err != nil {
			return err
		}
		rows = slices.DeleteFunc(slices.Clone(rows), func(row batchRow) bool { return row.marked || !t.late(row.hour) })
	}
	return t.note(ctx, b, true)
}

// late reports whether samples of an hour need a mark, because the compactor may soon pack it.
func (t *Direct) late(hour int64) bool {
	return t.opts.Now().UnixMilli() > keyschema.HourCellMs(hour)+t.opts.MarkAfter.Milliseconds()
}

// mark adds marks to the rows of late samples.
func (t *Direct) mark(rows []batchRow) {
	for n := range rows {
		row := &rows[n]
		if row.marked || !t.late(row.hour) {
			continue
		}
		row.marked = true
		row.mutation.Entries = append(row.mutation.Entries, storage.Entry{
			Kind: storage.SetCell, Family: storage.FamilySamples, TsMs: keyschema.HourCellMs(row.hour),
			Qualifier: keyschema.AppendMarkQualifier(nil, rand.Uint64()),
		})
		t.lateRows.Inc()
	}
}

// note writes notes for the compactor. For an hour that is not late, it writes one note before it acknowledges the first
// sample. For late samples it writes a note each time, after the samples.
func (t *Direct) note(ctx context.Context, b *rowBatch, late bool) error {
	var hours []int64
	t.notesMu.Lock()
	for hour := range b.hours {
		if _, noted := t.noted[hour]; t.late(hour) == late && (late || !noted) {
			hours = append(hours, hour)
		}
	}
	t.notesMu.Unlock()
	if len(hours) == 0 {
		return nil
	}
	slices.Sort(hours)
	muts := make([]storage.RowMutation, len(hours))
	for n, hour := range hours {
		muts[n] = compactor.Note(hour, late)
	}
	if err := t.meta.Apply(ctx, muts); err != nil || late {
		return err
	}
	t.notesMu.Lock()
	defer t.notesMu.Unlock()
	for _, hour := range hours {
		t.noted[hour] = struct{}{}
	}
	return nil
}

// apply writes rows. It retries while the storage is unavailable, until the context ends. Setting a cell twice has no
// effect.
func (t *Direct) apply(ctx context.Context, rows []batchRow) error {
	for from := 0; from < len(rows); {
		to, entries := from, 0
		for ; to < len(rows); to++ {
			if entries += len(rows[to].mutation.Entries); to > from && entries > storage.EntriesMax {
				break
			}
		}
		muts := make([]storage.RowMutation, 0, to-from)
		for n := from; n < to; n++ {
			muts = append(muts, rows[n].mutation)
		}
		if err := t.applyAll(ctx, muts); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// applyAll writes rows like apply, with one request for each try. If the time ends during a retry, the error is the one of the
// try before it, which names the cause.
func (t *Direct) applyAll(ctx context.Context, muts []storage.RowMutation) error {
	var late error
	for delay := t.retryDelay; ; delay = min(2*delay, retryDelayMax) {
		err := t.data.Apply(ctx, muts)
		if err == nil {
			return nil
		}
		var failed *storage.ApplyError
		if !errors.As(err, &failed) {
			return fmt.Errorf("write rows to table %s: %w", storage.TableData, err)
		}
		again := make([]storage.RowMutation, 0, len(failed.Rows))
		for _, row := range failed.Rows {
			if late != nil && errors.Is(row.Err, context.DeadlineExceeded) {
				return late
			}
			if !errors.Is(row.Err, storage.ErrUnavailable) {
				return fmt.Errorf("write row %.200q to table %s: %w", muts[row.Index].Key, storage.TableData, row.Err)
			}
			again = append(again, muts[row.Index])
		}
		t.retries.Add(float64(len(again)))
		late = fmt.Errorf("%d of %d rows could not be written in time: %w", len(again), len(muts), failed)
		if periodic.Sleep(ctx, delay/2+rand.N(delay/2)) != nil {
			return late
		}
		muts = again
	}
}
