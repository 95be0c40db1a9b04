package ingest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"halite/ingest/head"
	"halite/keyschema"
	"halite/keyschema/run"
	"halite/storage"
	"halite/storage/index"
)

const (
	// flushBatchBytes is the encoded size of rows that are handed to the table at once.
	flushBatchBytes = 32 << 20
	// flushLoadRows is the number of rows from which sorted files beat the memtable.
	flushLoadRows = 512
	// flushReadRows is the number of rows copied within one hold of a stripe's lock.
	flushReadRows = 256
	// runBytesMax bounds the unpacked rows folded into one run, well below what a cell may hold.
	runBytesMax = 2 << 20
	// arenaBytes is the size of the pieces that keys and runs of a batch are cut from.
	arenaBytes = 1 << 20
)

// flusher writes frozen rows to the data table. One flush runs at a time, under Ingester.flushMu.
type flusher struct {
	i       *Ingester
	reader  head.Reader
	encoder run.Encoder
	frozen  []head.Row

	// The batch being gathered.
	muts    []storage.RowMutation
	entries []storage.Entry
	arena   []byte
	bytes   int
	parts   [][]head.Row // rows of the batch, each part of one stripe
	first   uint32       // run number of the batch's first runs
	runs    int          // run numbers that the batch uses
	rows    int
}

// flush freezes the rows that pick chooses, stripe by stripe, and writes them. Rows that could not be written stay in
// the head. It returns the number of rows written.
func (f *flusher) flush(ctx context.Context, pick func(stripe int, row head.RowInfo) bool) (rows int, err error) {
	start := f.i.opts.Now()
	for stripe := range f.i.head.Stripes() {
		f.frozen = f.i.head.Freeze(f.frozen[:0], stripe, func(row head.RowInfo) bool { return pick(stripe, row) })
		rest, err := f.gather(ctx, f.frozen)
		if err != nil {
			f.i.head.Thaw(rest)
			f.abandon()
			return f.rows, err
		}
	}
	if err := f.write(ctx); err != nil {
		return f.rows, err
	}
	if f.rows > 0 {
		f.i.metrics.flushSeconds.Observe(f.i.opts.Now().Sub(start).Seconds())
	}
	return f.rows, nil
}

// gather adds the rows of one stripe to the batch and writes it whenever it is full. After an error rest are the rows
// that the batch does not answer for.
func (f *flusher) gather(ctx context.Context, rows []head.Row) (rest []head.Row, err error) {
	for len(rows) > 0 {
		n := min(len(rows), flushReadRows)
		for n < len(rows) && sameHour(rows[n], rows[n-1]) {
			n++
		}
		some := slices.Clone(rows[:n])
		f.i.head.Load(&f.reader, some)
		for from := 0; from < n; {
			to := from + 1
			for to < n && sameHour(some[to], some[from]) {
				to++
			}
			if err := f.add(ctx, some, from, to); err != nil {
				f.i.head.Thaw(some)
				return rows[n:], err
			}
			from = to
		}
		f.parts = append(f.parts, some)
		rows = rows[n:]
		if f.bytes >= flushBatchBytes {
			if err := f.write(ctx); err != nil {
				return rows, err
			}
		}
	}
	return nil, nil
}

func sameHour(a, b head.Row) bool { return a.Ref == b.Ref && a.Hour == b.Hour }

// add makes one mutation of the loaded rows [from, to), which are of one series and hour: a run, or several in the
// order of arrival if there is very much.
func (f *flusher) add(ctx context.Context, rows []head.Row, from, to int) error {
	hour := rows[from].Hour
	key := f.cut(func(dst []byte) []byte {
		return f.i.opts.Index.AppendRowKey(dst, index.Ref(rows[from].Ref), hour)
	})
	if len(key) == 0 {
		return fmt.Errorf("series %d has rows in the head but is unknown to the catalogue", rows[from].Ref)
	}
	firstEntry := len(f.entries)
	for part := 0; from < to; part++ {
		size, end := f.reader.PackedBytes(from), from+1
		for end < to && size < runBytesMax {
			size += f.reader.PackedBytes(end)
			end++
		}
		if err := f.number(ctx, part); err != nil {
			return err
		}
		entry, err := f.run(hour, from, end, part)
		if err != nil {
			return fmt.Errorf("pack row %s: %w", key, err)
		}
		f.entries = append(f.entries, entry)
		from = end
	}
	f.muts = append(f.muts, storage.RowMutation{Key: key, Entries: f.entries[firstEntry:len(f.entries):len(f.entries)]})
	return nil
}

// number makes sure that the batch has a number for its part-th runs.
func (f *flusher) number(ctx context.Context, part int) error {
	if part < f.runs {
		return nil
	}
	n, err := f.i.sequence.take(ctx, 1)
	if err != nil {
		return err
	}
	if part == 0 {
		f.first = n
	}
	f.runs++
	return nil
}

func (f *flusher) run(hour int64, from, to, part int) (storage.Entry, error) {
	tsMs, values, err := f.reader.Columns(from, to)
	if err != nil {
		return storage.Entry{}, err
	}
	value := f.cut(func(dst []byte) []byte {
		dst, err = f.encoder.Append(dst, keyschema.HourStartMs(hour), tsMs, values)
		return dst
	})
	if err != nil {
		return storage.Entry{}, err
	}
	return storage.Entry{
		Kind: storage.SetCell, Family: storage.FamilySamples, TsMs: keyschema.HourCellMs(hour), Value: value,
		Qualifier: f.cut(func(dst []byte) []byte { return keyschema.AppendRunQualifier(dst, f.first+uint32(part)) }),
	}, nil
}

// cut lets write append to the arena and returns what it wrote. What was cut before stays valid.
func (f *flusher) cut(write func(dst []byte) []byte) []byte {
	if cap(f.arena)-len(f.arena) < arenaBytes/16 {
		f.arena = make([]byte, 0, arenaBytes)
	}
	start := len(f.arena)
	f.arena = write(f.arena)
	f.bytes += len(f.arena) - start
	return f.arena[start:len(f.arena):len(f.arena)]
}

// write hands the batch to the table and frees its rows.
func (f *flusher) write(ctx context.Context) error {
	if len(f.muts) == 0 {
		return nil
	}
	slices.SortFunc(f.muts, func(a, b storage.RowMutation) int { return bytes.Compare(a.Key, b.Key) })
	var err error
	if len(f.muts) >= flushLoadRows {
		err = f.i.data.Load(ctx, f.muts)
	} else {
		err = f.i.data.Apply(ctx, f.muts)
	}
	if err != nil {
		err = fmt.Errorf("write %d rows to table %s: %w", len(f.muts), storage.TableData, err)
		f.abandon()
		return err
	}
	for _, part := range f.parts {
		f.i.head.Free(part)
		f.rows += len(part)
		f.i.metrics.flushedRows.Add(float64(len(part)))
	}
	f.i.metrics.flushedBytes.Add(float64(f.bytes))
	f.clear()
	return nil
}

// abandon gives the batch's rows back to the head. Rows of it that the table took all the same do no harm: they will be
// written again under a higher number.
func (f *flusher) abandon() {
	for _, part := range f.parts {
		f.i.head.Thaw(part)
	}
	f.clear()
}

func (f *flusher) clear() {
	clear(f.muts)
	clear(f.entries)
	clear(f.parts)
	f.muts, f.entries, f.parts = f.muts[:0], f.entries[:0], f.parts[:0]
	f.arena, f.bytes, f.runs = nil, 0, 0
}

// flushRows is flusher.flush with the bookkeeping of failures. The caller holds flushMu.
func (i *Ingester) flushRows(ctx context.Context, pick func(stripe int, row head.RowInfo) bool) (int, error) {
	f := flusher{i: i}
	rows, err := f.flush(ctx, pick)
	if rows > 0 {
		i.unsynced = true
	}
	if err != nil {
		i.metrics.flushFails.Inc()
		return rows, fmt.Errorf("flush: %w", err)
	}
	return rows, nil
}

// Ticks of Options.Head.FlushInterval that decide about late rows.
const (
	// idleTicks without a sample make a row of a closed hour due: a backfill has moved on.
	idleTicks = 2
	// patienceTicks after its first sample it is due anyway.
	patienceTicks = 40
)

// due chooses rows whose hour closed a while ago, later for later stripes, so that not all go at once; and rows that
// wait for another reason.
func (i *Ingester) due(now time.Time, tick uint32) func(stripe int, row head.RowInfo) bool {
	nowMs, graceMs := now.UnixMilli(), i.hopts.Grace.Milliseconds()
	spreadMs, stripes := i.hopts.Spread.Milliseconds(), int64(i.head.Stripes())
	return func(stripe int, row head.RowInfo) bool {
		if row.Frozen {
			return true
		}
		closedMs := keyschema.HourCellMs(row.Hour) + graceMs + spreadMs*int64(stripe)/stripes
		return closedMs < nowMs && (tick-row.LastTick >= idleTicks || tick-row.MadeTick >= patienceTicks)
	}
}

// relieve flushes early what memory pressure demands: first all rows of closed hours, then the largest open ones. The
// caller holds flushMu.
func (i *Ingester) relieve(ctx context.Context) (rows int, err error) {
	if i.head.Bytes() <= i.hopts.BytesMax {
		return 0, nil
	}
	target := i.hopts.BytesMax / 4 * 3
	current := keyschema.HourOf(max(0, i.opts.Now().UnixMilli()))
	rows, err = i.flushRows(ctx, func(_ int, row head.RowInfo) bool { return row.Frozen || row.Hour < current })
	if err != nil || i.head.Bytes() <= target {
		return rows, err
	}
	excess := i.head.Bytes() - target
	sizes := i.head.Pressure()
	exp := len(sizes) - 1
	for ; exp > 0 && excess > sizes[exp]; exp-- {
		excess -= sizes[exp]
	}
	least := int64(1) << exp / 2
	more, err := i.flushRows(ctx, func(_ int, row head.RowInfo) bool { return row.Bytes >= least })
	return rows + more, err
}

// everything chooses all rows.
func everything(int, head.RowInfo) bool { return true }
