package promql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"halite/keyschema"
	"halite/keyschema/run"
	"halite/storage"
	"halite/storage/index"
)

// batchReader reads one batch: what the head has, then the rows, each decoded somewhere in a part; join puts them in
// order.
type batchReader struct {
	*reader
	window window
	series []index.Series

	head     *buffer
	headEnds []int // end of each series' samples in head

	parts []*buffer // one a worker
	slots []slot    // one for each series and hour, series after series, hours ascending
	bases []int     // first slot of each series, and the end

	passedOn int // samples that the batch keeps charged
}

// slot says where the samples of one row are; n is 0 while there are none.
type slot struct{ part, start, n int32 }

// readHead copies the unflushed samples of all series.
func (rd *batchReader) readHead(ctx context.Context) error {
	rd.head = rd.buffers.get(0)
	rd.headEnds = make([]int, len(rd.series))
	for i, s := range rd.series {
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if s.Ref != 0 {
			tsMs, values, err := rd.opts.Head.AppendSamples(
				s.Ref, rd.window.mintMs, rd.window.maxtMs, rd.head.tsMs, rd.head.values)
			if err != nil {
				return storageError("read head", err)
			}
			tsMs, values = keepHours(s.Hours, rd.head.len(), tsMs, values)
			if err := rd.charge(len(tsMs) - rd.head.len()); err != nil {
				return err
			}
			rd.head.tsMs, rd.head.values = tsMs, values
		}
		rd.headEnds[i] = rd.head.len()
	}
	rd.figures.samples.Add(int64(rd.head.len()))
	return nil
}

// keepHours leaves out the samples, from the given one on, of hours in which the series was not selected. They came
// after the query had begun, and older ones that came in between may be flushed already: they would be seen without them.
func keepHours(hours []index.HourSpan, from int, tsMs []int64, values []float64) ([]int64, []float64) {
	span, kept := 0, from
	for i := from; i < len(tsMs); i++ {
		hour := keyschema.HourOf(tsMs[i])
		for span < len(hours) && hours[span].Last < hour {
			span++
		}
		if span == len(hours) {
			break
		}
		if hours[span].First <= hour {
			tsMs[kept], values[kept] = tsMs[i], values[i]
			kept++
		}
	}
	return tsMs[:kept], values[:kept]
}

func (rd *batchReader) charge(samples int) error {
	return rd.budget.take(samples, int64(samples)*sampleBytes)
}

// readTable reads the rows of all series, days side by side as far as Concurrency allows.
func (rd *batchReader) readTable(ctx context.Context) error {
	rd.bases = make([]int, len(rd.series)+1)
	for i, s := range rd.series {
		rd.bases[i+1] = rd.bases[i] + rowCount(s.Hours)
	}
	rd.slots = make([]slot, rd.bases[len(rd.series)])
	reads := rd.plan()
	workers := min(rd.opts.Concurrency, len(reads))
	rd.parts = make([]*buffer, workers)
	for i := range rd.parts {
		rd.parts[i] = rd.buffers.get(0)
	}
	if workers < 2 {
		return rd.work(ctx, 0, reads, new(atomic.Int64))
	}
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for part := range workers {
		group.Go(func() error { return rd.work(ctx, part, reads, &next) })
	}
	return group.Wait()
}

// work takes reads one after another until none is left and decodes their rows into its part.
func (rd *batchReader) work(ctx context.Context, part int, reads []dayRead, next *atomic.Int64) error {
	var row run.Row
	for {
		i := int(next.Add(1)) - 1
		if i >= len(reads) {
			return nil
		}
		if err := rd.readDay(ctx, part, reads[i], &row); err != nil {
			return err
		}
	}
}

// readDay reads the rows of one day.
func (rd *batchReader) readDay(ctx context.Context, part int, read dayRead, row *run.Row) (err error) {
	const dayMs = keyschema.DayHours * keyschema.HourMs
	it := rd.opts.Data.ReadRows(ctx, storage.RowSet{Ranges: read.ranges}, storage.ReadOptions{Filter: storage.Filter{
		Families: []string{storage.FamilySamples}, FromMs: read.day * dayMs, ToMs: (read.day + 1) * dayMs, VersionsMax: 1,
	}})
	rows, used, samples := 0, 0, 0
	defer func() {
		rd.figures.rows.Add(int64(rows))
		rd.figures.rowsUsed.Add(int64(used))
		rd.figures.samples.Add(int64(samples))
		rd.metrics.rows.Add(float64(rows))
		rd.metrics.samples.Add(float64(samples))
		if closeErr := it.Close(); closeErr != nil && err == nil {
			err = storageError("close read of rows", closeErr)
		}
	}()
	for at := 0; it.Next(); rows++ {
		if rows%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		stored := it.Row()
		for at < len(read.ranges) && bytes.Compare(stored.Key, read.ranges[at].End) >= 0 {
			at++
		}
		if at == len(read.ranges) {
			return storageError("read rows", fmt.Errorf("%w: row %q was not asked for", storage.ErrCorrupt, stored.Key))
		}
		n, err := rd.addRow(part, read.owners[at], stored, row)
		if err != nil {
			return err
		}
		samples += n
		if n > 0 {
			used++
		}
	}
	if err := it.Err(); err != nil {
		return storageError("read rows", err)
	}
	return nil
}

// addRow decodes a row into a part and notes where. It returns the number of samples.
func (rd *batchReader) addRow(part int, owner rowPrefix, stored storage.Row, row *run.Row) (int, error) {
	hour, err := hourOf(stored.Key, owner.prefix)
	if err != nil {
		return 0, storageError("read rows", fmt.Errorf("%w: row %q: %w", storage.ErrCorrupt, stored.Key, err))
	}
	at := rd.slotOf(owner.series, hour)
	if at < 0 {
		// The hour was not the series' when it was selected: whatever it has now came later than the query.
		return 0, nil
	}
	row.Reset(keyschema.HourStartMs(hour))
	for _, cell := range stored.Cells {
		if err := row.Add(cell.Qualifier, cell.Value); err != nil {
			return 0, storageError("read rows", fmt.Errorf("%w: row %q: %w", storage.ErrCorrupt, stored.Key, err))
		}
	}
	tsMs, values := clipColumns(rd.window, row)
	if err := rd.charge(len(tsMs)); err != nil {
		return 0, err
	}
	to := rd.parts[part]
	rd.slots[at] = slot{part: int32(part), start: int32(to.len()), n: int32(len(tsMs))}
	to.append(tsMs, values)
	return len(tsMs), nil
}

var errBadRowHour = errors.New("key does not end in an hour")

// hourOf reads the reversed hour behind the prefix of a row key.
func hourOf(key, prefix []byte) (int64, error) {
	if len(key) != len(prefix)+7 || !bytes.HasPrefix(key, prefix) {
		return 0, errBadRowHour
	}
	reversed := int64(0)
	for _, c := range key[len(prefix):] {
		if c < '0' || c > '9' {
			return 0, errBadRowHour
		}
		reversed = reversed*10 + int64(c-'0')
	}
	return keyschema.HourMax - reversed, nil
}

// slotOf is the slot of a series' hour, -1 if the series was not selected for that hour.
func (rd *batchReader) slotOf(series int, hour int64) int {
	at := rd.bases[series]
	for _, span := range rd.series[series].Hours {
		if hour < span.First {
			return -1
		}
		if hour <= span.Last {
			return at + int(hour-span.First)
		}
		at += int(span.Last - span.First + 1)
	}
	return -1
}

// close gives back what join did not pass on.
func (rd *batchReader) close() {
	samples := 0
	for _, b := range append(rd.parts, rd.head) {
		if b != nil {
			samples += b.len()
			rd.buffers.put(b)
		}
	}
	rd.budget.release(samples-rd.passedOn, int64(samples)*sampleBytes)
}
