package flush

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"halite/ingest/head"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/index"
)

const (
	// loadRows is the number of rows above which storage.Table.Load is faster than Apply.
	loadRows = 512
	// readRows is the number of rows copied while a stripe is locked once.
	readRows = 256
	// chunkBytesMax bounds the head's memory of the rows encoded as one chunk, well below the largest value of a cell.
	chunkBytesMax = 2 << 20
)

// job is one flush: it writes rows to the data table, one range of keys after the other.
type job struct {
	opts       *Options
	partitions *partitions
	metrics    *metrics

	reader  head.Reader
	encoder chunkEncoder

	chosen      []head.Row
	chosenBytes int64      // memory of the chosen rows
	days        []dayRows  // days of the chosen rows, oldest first
	frozen      []head.Row // rows in progress; the table already has the first `written` ones
	written     int
	rows        int // rows that the whole job has written to the table

	// The batch under construction. The next batch reuses its memory.
	muts    []storage.RowMutation
	entries []storage.Entry
	arena   Arena
	// firstNumber is the number of the batch's first chunks. numbers counts the numbers that the batch took.
	firstNumber uint32
	numbers     int
	// holdsHistograms is set if the batch has histograms.
	holdsHistograms bool
}

// flush freezes and writes the rows that pick takes, range by range. Rows that could not be written stay in the head. It
// returns the number of rows written.
func (j *job) flush(ctx context.Context, pick rule) (rows int, err error) {
	start := j.opts.Now()
	j.selectRows(pick)
	if len(j.chosen) == 0 {
		return 0, nil
	}
	if err := j.forEachPart(func(rows []head.Row, bytes int64) error { return j.flushPart(ctx, rows, bytes) }); err != nil {
		return j.rows, err
	}
	j.metrics.flushSeconds.Observe(j.opts.Now().Sub(start).Seconds())
	return j.rows, nil
}

// flushPart writes some of the chosen rows, which use bytes of memory, range by range.
func (j *job) flushPart(ctx context.Context, rows []head.Row, bytes int64) error {
	j.partitions.sort(rows, bytes)
	for len(rows) > 0 {
		n := j.partitions.first(rows, int(j.opts.FlushBytes*int64(len(j.chosen))/max(1, j.chosenBytes)))
		if err := j.flushRange(ctx, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// selectRows collects the rows that pick takes, ordered by stripe. It counts them first: there may be millions, and a
// growing list is in memory twice.
func (j *job) selectRows(pick rule) {
	j.chosen, j.chosenBytes, j.days = j.chosen[:0], 0, j.days[:0]
	count, _ := countRows(j.opts.Head, pick)
	if count == 0 {
		return
	}
	j.chosen = slices.Grow(j.chosen, count+count/64) // more rows may arrive meanwhile
	for stripe := range j.opts.Head.Stripes() {
		j.chosen = j.opts.Head.SelectRows(j.chosen, stripe, func(row head.RowInfo) bool {
			if !pick(row) {
				return false
			}
			j.chosenBytes += row.Bytes
			j.countDay(row)
			return true
		})
	}
}

// dayRows is the memory of the rows of one day.
type dayRows struct{ day, bytes int64 }

func dayOf(hour int64) int64 { return hour / keyschema.DayHours }

func (j *job) countDay(row head.RowInfo) {
	day := dayOf(row.Hour)
	at, found := slices.BinarySearchFunc(j.days, day, func(d dayRows, day int64) int { return cmp.Compare(d.day, day) })
	if !found {
		j.days = slices.Insert(j.days, at, dayRows{day: day})
	}
	j.days[at].bytes += row.Bytes
}

// forEachPart visits the chosen rows day by day, several small days together, until visit returns an error. The engine keeps each
// day in files of its own. If a backfill of a year were flushed series by series, each file would hold few series.
func (j *job) forEachPart(visit func(rows []head.Row, bytes int64) error) error {
	rows, days := j.chosen, j.days
	if len(days) > 1 {
		h := j.opts.Head
		slices.SortFunc(rows, func(a, b head.Row) int {
			return cmp.Or(cmp.Compare(dayOf(a.Hour()), dayOf(b.Hour())), cmp.Compare(h.Stripe(a.Ref), h.Stripe(b.Ref)))
		})
	}
	for len(days) > 0 {
		bytes, end := days[0].bytes, 1
		for end < len(days) && bytes+days[end].bytes <= j.opts.FlushBytes {
			bytes += days[end].bytes
			end++
		}
		last := days[end-1].day
		n, _ := slices.BinarySearchFunc(rows, last+1, func(r head.Row, day int64) int { return cmp.Compare(dayOf(r.Hour()), day) })
		if err := visit(rows[:n], bytes); err != nil {
			return err
		}
		rows, days = rows[n:], days[end:]
	}
	return nil
}

// flushRange freezes and writes rows, in batches if they are large.
func (j *job) flushRange(ctx context.Context, rows []head.Row) error {
	j.frozen, j.written = j.opts.Head.Freeze(j.frozen[:0], rows), 0
	err := j.writeFrozen(ctx)
	if err != nil {
		// If the table has some of these rows, the next flush writes them again under a higher number.
		j.opts.Head.Thaw(j.frozen[j.written:])
	}
	j.clear()
	return err
}

func (j *job) writeFrozen(ctx context.Context) error {
	for from := 0; from < len(j.frozen); {
		to := j.sameStripe(from)
		some := j.frozen[from:to]
		j.opts.Head.CopyRows(&j.reader, some)
		for first := 0; first < len(some); {
			end := first + 1
			for end < len(some) && sameHour(some[end], some[first]) {
				end++
			}
			if err := j.add(ctx, some, first, end); err != nil {
				return err
			}
			first = end
		}
		from = to
		if from == len(j.frozen) || j.arena.SizeBytes() >= j.opts.FlushBytes {
			if err := j.write(ctx, from); err != nil {
				return err
			}
		}
	}
	return nil
}

// sameStripe returns the end of the frozen rows, from the given one on, that one lock of a stripe covers. Rows of one series
// and hour stay together.
func (j *job) sameStripe(from int) (to int) {
	h, rows := j.opts.Head, j.frozen
	stripe := h.Stripe(rows[from].Ref)
	for to = from + 1; to < len(rows) && h.Stripe(rows[to].Ref) == stripe; to++ {
		if to-from >= readRows && !sameHour(rows[to], rows[to-1]) {
			break
		}
	}
	return to
}

func sameHour(a, b head.Row) bool { return a.Ref == b.Ref && a.Hour() == b.Hour() }

// add makes one mutation of the loaded rows [from, to), which are of one series and hour. The mutation has one chunk for
// each kind of samples. If the rows are large, it has several in the order of arrival.
func (j *job) add(ctx context.Context, rows []head.Row, from, to int) error {
	hour := rows[from].Hour()
	key := j.arena.Append(func(dst []byte) []byte {
		return j.opts.Index.AppendRowKey(dst, index.Ref(rows[from].Ref), hour)
	})
	if len(key) == 0 {
		return fmt.Errorf("series %d has rows in the head but is unknown to the index", rows[from].Ref)
	}
	firstEntry := len(j.entries)
	for from < to {
		end := from + 1
		for end < to && rows[end].Kind() == rows[from].Kind() {
			end++
		}
		if err := j.addChunks(ctx, rows[from].Kind(), hour, from, end); err != nil {
			return fmt.Errorf("pack row %s: %w", key, err)
		}
		from = end
	}
	j.muts = append(j.muts, storage.RowMutation{Key: key, Entries: j.entries[firstEntry:len(j.entries):len(j.entries)]})
	return nil
}

// addChunks adds the chunks of the loaded rows [from, to), which are of one series, hour and kind.
func (j *job) addChunks(ctx context.Context, kind keyschema.SampleKind, hour int64, from, to int) error {
	j.holdsHistograms = j.holdsHistograms || kind == keyschema.Histograms
	for part := 0; from < to; {
		size, end := j.reader.PackedBytes(from), from+1
		for end < to && size < chunkBytesMax {
			size += j.reader.PackedBytes(end)
			end++
		}
		if err := j.encoder.load(&j.reader, kind, from, end); err != nil {
			return err
		}
		// Decoded histograms may be far larger than encoded ones in the head, so they may need several chunks.
		for more := true; more; part, more = part+1, j.encoder.more() {
			if err := j.reserveNumber(ctx, part); err != nil {
				return err
			}
			var err error
			value := j.arena.Append(func(dst []byte) []byte {
				dst, err = j.encoder.append(dst, kind, keyschema.HourStartMs(hour))
				return dst
			})
			if err != nil {
				return err
			}
			j.entries = append(j.entries, storage.Entry{
				Kind: storage.SetCell, Family: storage.SampleFamily(kind), TsMs: keyschema.HourCellMs(hour), Value: value,
				Qualifier: j.arena.Append(func(dst []byte) []byte {
					return keyschema.AppendChunkQualifier(dst, j.firstNumber+uint32(part))
				}),
			})
		}
		from = end
	}
	return nil
}

// reserveNumber reserves a number for the part-th chunk of each row in the batch, unless the batch has it.
func (j *job) reserveNumber(ctx context.Context, part int) error {
	if part < j.numbers {
		return nil
	}
	n, err := j.opts.Sequence.Allocate(ctx)
	if err != nil {
		return err
	}
	if part == 0 {
		j.firstNumber = n
	}
	j.numbers++
	return nil
}

// write writes the batch to the table and removes its rows, up to row to, from the head.
func (j *job) write(ctx context.Context, to int) error {
	slices.SortFunc(j.muts, func(a, b storage.RowMutation) int { return bytes.Compare(a.Key, b.Key) })
	if j.holdsHistograms { // set first, because a reader of the table must find the metrics
		if err := j.opts.Histograms.Persist(ctx); err != nil {
			return err
		}
	}
	var err error
	if len(j.muts) >= loadRows {
		err = j.opts.Data.Load(ctx, j.muts)
	} else {
		err = j.opts.Data.Apply(ctx, j.muts)
	}
	if err != nil {
		return fmt.Errorf("write %d rows to table %s: %w", len(j.muts), storage.TableData, err)
	}
	rows := j.frozen[j.written:to]
	j.written = to
	j.metrics.lateRows.Add(float64(countLate(rows, keyschema.HourOf(j.opts.Now().UnixMilli()))))
	j.opts.Head.Free(rows)
	j.rows += len(rows)
	j.metrics.flushedRows.Add(float64(len(rows)))
	j.metrics.flushedBytes.Add(float64(j.arena.SizeBytes()))
	j.clear()
	return nil
}

// lateHours is the number of hours before the current one whose rows are not late. A flush may take up to an hour.
const lateHours = 2

// countLate counts the rows of hours long before the current one.
func countLate(rows []head.Row, present int64) (n int) {
	for _, row := range rows {
		if row.Hour() < present-lateHours {
			n++
		}
	}
	return n
}

func (j *job) clear() {
	j.muts, j.entries, j.numbers = j.muts[:0], j.entries[:0], 0
	j.holdsHistograms = false
	j.arena.Reset()
}
