package ingest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"halite/ingest/head"
	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/storage"
	"halite/storage/index"
)

const (
	// flushLoadRows is the number of rows from which sorted files beat the memtable.
	flushLoadRows = 512
	// flushReadRows is the number of rows copied within one hold of a stripe's lock.
	flushReadRows = 256
	// runBytesMax bounds the unpacked rows folded into one run, well below what a cell may hold.
	runBytesMax = 2 << 20
)

// flusher writes rows to the data table, one range of keys after the other: the files of one flush do not overlap, and
// little memory is needed at a time. One flush runs at a time, under Ingester.flushMu.
type flusher struct {
	i       *Ingester
	reader  head.Reader
	encoder chunk.Encoder
	chosen  []head.Row
	bytes   int64      // memory of chosen
	days    []flushDay // of chosen, oldest first
	frozen  []head.Row // rows of the slice under way; those before written are in the table
	written int
	rows    int // in the table, of all slices

	// The batch being gathered; its memory serves the next.
	muts    []storage.RowMutation
	entries []storage.Entry
	arena   arena
	first   uint32 // run number of the batch's first runs
	runs    int    // run numbers that the batch uses
}

// flush freezes the rows that pick chooses, slice by slice, and writes them. Rows that could not be written stay in the
// head. It returns the number of rows written.
func (f *flusher) flush(ctx context.Context, pick func(row head.RowInfo) bool) (rows int, err error) {
	start := f.i.opts.Now()
	f.choose(pick)
	if len(f.chosen) == 0 {
		return 0, nil
	}
	f.eachPart(func(rows []head.Row, bytes int64) bool {
		f.i.order.sort(f.i, rows, bytes)
		for len(rows) > 0 && err == nil {
			n := f.i.order.firstSlices(rows, int(f.i.hopts.FlushBytes*int64(len(f.chosen))/max(1, f.bytes)))
			err = f.flushSlice(ctx, rows[:n])
			rows = rows[n:]
		}
		return err == nil
	})
	if err != nil {
		return f.rows, err
	}
	f.i.metrics.flushSeconds.Observe(f.i.opts.Now().Sub(start).Seconds())
	return f.rows, nil
}

// choose collects the rows that pick chooses, ordered by stripe. It counts them first: there may be millions, and a list
// that grows is there twice while it does.
func (f *flusher) choose(pick func(row head.RowInfo) bool) {
	f.chosen, f.bytes, f.days = f.chosen[:0], 0, f.days[:0]
	count, _ := f.i.countRows(pick)
	if count == 0 {
		return
	}
	f.chosen = slices.Grow(f.chosen, count+count/64) // some may come meanwhile
	for stripe := range f.i.head.Stripes() {
		f.chosen = f.i.head.Choose(f.chosen, stripe, func(row head.RowInfo) bool {
			if !pick(row) {
				return false
			}
			f.bytes += row.Bytes
			f.countDay(row)
			return true
		})
	}
}

// countRows returns the number and the memory of the rows that pick chooses.
func (i *Ingester) countRows(pick func(row head.RowInfo) bool) (rows int, bytes int64) {
	for stripe := range i.head.Stripes() {
		i.head.Choose(nil, stripe, func(row head.RowInfo) bool {
			if pick(row) {
				rows++
				bytes += row.Bytes
			}
			return false
		})
	}
	return rows, bytes
}

// flushDay is a day that has rows to flush, and the memory that they use.
type flushDay struct{ day, bytes int64 }

func dayOf(hour int64) int64 { return hour / keyschema.DayHours }

func (f *flusher) countDay(row head.RowInfo) {
	day := dayOf(row.Hour)
	at, found := slices.BinarySearchFunc(f.days, day, func(d flushDay, day int64) int { return cmp.Compare(d.day, day) })
	if !found {
		f.days = slices.Insert(f.days, at, flushDay{day: day})
	}
	f.days[at].bytes += row.Bytes
}

// eachPart visits the chosen rows day by day, small days together, until visit returns false. The table keeps days apart:
// a backfill of a year that went through the table series by series would leave a file for each day and few series.
func (f *flusher) eachPart(visit func(rows []head.Row, bytes int64) bool) {
	rows, days := f.chosen, f.days
	if len(days) > 1 {
		h := f.i.head
		slices.SortFunc(rows, func(a, b head.Row) int {
			return cmp.Or(cmp.Compare(dayOf(a.Hour()), dayOf(b.Hour())), cmp.Compare(h.Stripe(a.Ref), h.Stripe(b.Ref)))
		})
	}
	for len(days) > 0 {
		bytes, end := days[0].bytes, 1
		for end < len(days) && bytes+days[end].bytes <= f.i.hopts.FlushBytes {
			bytes += days[end].bytes
			end++
		}
		last := days[end-1].day
		n, _ := slices.BinarySearchFunc(rows, last+1, func(r head.Row, day int64) int { return cmp.Compare(dayOf(r.Hour()), day) })
		if !visit(rows[:n], bytes) {
			return
		}
		rows, days = rows[n:], days[end:]
	}
}

// flushSlice freezes and writes rows, in batches if there is very much of them.
func (f *flusher) flushSlice(ctx context.Context, rows []head.Row) error {
	f.frozen, f.written = f.i.head.Freeze(f.frozen[:0], rows), 0
	err := f.writeFrozen(ctx)
	if err != nil {
		// Rows that the table took all the same do no harm: they will be written again under a higher number.
		f.i.head.Thaw(f.frozen[f.written:])
	}
	f.clear()
	return err
}

func (f *flusher) writeFrozen(ctx context.Context) error {
	for from := 0; from < len(f.frozen); {
		to := f.sameStripe(from)
		some := f.frozen[from:to]
		f.i.head.Load(&f.reader, some)
		for first := 0; first < len(some); {
			end := first + 1
			for end < len(some) && sameHour(some[end], some[first]) {
				end++
			}
			if err := f.add(ctx, some, first, end); err != nil {
				return err
			}
			first = end
		}
		from = to
		if from == len(f.frozen) || int64(f.arena.used) >= f.i.hopts.FlushBytes {
			if err := f.write(ctx, from); err != nil {
				return err
			}
		}
	}
	return nil
}

// sameStripe returns the end of the frozen rows from the given one on that can be read within one hold of a lock; rows
// of one series and hour stay together.
func (f *flusher) sameStripe(from int) (to int) {
	h, rows := f.i.head, f.frozen
	stripe := h.Stripe(rows[from].Ref)
	for to = from + 1; to < len(rows) && h.Stripe(rows[to].Ref) == stripe; to++ {
		if to-from >= flushReadRows && !sameHour(rows[to], rows[to-1]) {
			break
		}
	}
	return to
}

func sameHour(a, b head.Row) bool { return a.Ref == b.Ref && a.Hour() == b.Hour() }

// add makes one mutation of the loaded rows [from, to), which are of one series and hour: a run, or several in the
// order of arrival if there is very much.
func (f *flusher) add(ctx context.Context, rows []head.Row, from, to int) error {
	hour := rows[from].Hour()
	key := f.arena.cut(func(dst []byte) []byte {
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
	value := f.arena.cut(func(dst []byte) []byte {
		dst, err = f.encoder.Append(dst, keyschema.HourStartMs(hour), tsMs, values)
		return dst
	})
	if err != nil {
		return storage.Entry{}, err
	}
	return storage.Entry{
		Kind: storage.SetCell, Family: storage.FamilySamples, TsMs: keyschema.HourCellMs(hour), Value: value,
		Qualifier: f.arena.cut(func(dst []byte) []byte { return keyschema.AppendChunkQualifier(dst, f.first+uint32(part)) }),
	}, nil
}

// write hands the batch to the table and frees its rows, which are those up to the given one.
func (f *flusher) write(ctx context.Context, to int) error {
	slices.SortFunc(f.muts, func(a, b storage.RowMutation) int { return bytes.Compare(a.Key, b.Key) })
	var err error
	if len(f.muts) >= flushLoadRows {
		err = f.i.data.Load(ctx, f.muts)
	} else {
		err = f.i.data.Apply(ctx, f.muts)
	}
	if err != nil {
		return fmt.Errorf("write %d rows to table %s: %w", len(f.muts), storage.TableData, err)
	}
	rows := f.frozen[f.written:to]
	f.written = to
	f.i.head.Free(rows)
	f.rows += len(rows)
	f.i.metrics.flushedRows.Add(float64(len(rows)))
	f.i.metrics.flushedBytes.Add(float64(f.arena.used))
	f.clear()
	return nil
}

func (f *flusher) clear() {
	f.muts, f.entries, f.runs = f.muts[:0], f.entries[:0], 0
	f.arena.reset()
}

// flushRows is flusher.flush with the bookkeeping of failures. The caller holds flushMu.
func (i *Ingester) flushRows(ctx context.Context, pick func(row head.RowInfo) bool) (int, error) {
	f := flusher{i: i}
	rows, err := f.flush(ctx, pick)
	if rows > 0 {
		i.unsynced = true
	}
	if err != nil {
		if ctx.Err() == nil {
			i.metrics.flushFails.Inc()
		}
		return rows, fmt.Errorf("flush: %w", err)
	}
	return rows, nil
}

// everything chooses all rows.
func everything(head.RowInfo) bool { return true }
