package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"halite/storage"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/cursor"
	"halite/storage/pebble/daycells"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/partition"
	"halite/storage/periodic"
)

const (
	// dayChunkBytesMax bounds the values in a day chunk. Other cells stay outside it.
	dayChunkBytesMax = 1 << 20
	// spanTriesMax is the number of attempts to pack a span again after a write to the partition.
	spanTriesMax = 3
	// pauseFactor is the ratio of the background job's pauses to its work.
	pauseFactor = 1
	// pauseEverySeries is the number of series between two pauses of the background job.
	pauseEverySeries = 512
)

// errWritten reports a write to a partition while a job packs it.
var errWritten = errors.New("the partition has changed while the job packed it")

// dayChunkJob packs one partition, span by span.
type dayChunkJob struct {
	t     *Table
	f     *partition.Family
	state *partition.State
	h     cellkey.Header
	pause int // see pauseFactor; 0 means no pause

	start, end []byte // the span; a nil end is the end of the partition
	cells      daycells.Builder
	plain      []plainCell
	prefix     []byte
	key        []byte
	value      []byte
	count      uint64 // cells of the span
	worked     time.Time
	series     int

	path string
	sst  *sstable.Writer
}

// plainCell is a cell outside the day chunk of its prefix.
type plainCell struct{ key, value []byte }

func (j *dayChunkJob) run(ctx context.Context) error {
	began := time.Now()
	if err := j.t.noteDayChunks(ctx, j.f, j.state); err != nil {
		return err
	}
	late := j.state.LateBytes.Load()
	j.start = cellkey.AppendPartitionStart(nil, j.h)
	tries := 0
	for {
		err := j.span(ctx)
		if errors.Is(err, errWritten) && tries < spanTriesMax {
			tries++
			continue
		}
		if err != nil {
			return fmt.Errorf("pack day %d of family %s: %w", j.state.Day, j.f.Name, err)
		}
		tries = 0
		if j.end == nil {
			break
		}
		j.start = j.end
	}
	j.state.LateBytes.Add(-late)
	j.state.Complete = true
	b := &j.t.store.dayChunkFigures
	b.days.Add(1)
	b.nanos.Add(uint64(time.Since(began)))
	return j.t.noteComplete(ctx, j.f, j.state, true)
}

// span packs cells from j.start on. It sets j.end to the end of the packed span.
func (j *dayChunkJob) span(ctx context.Context) (err error) {
	s := j.t.store
	// The read sees all writes before this point. Later writes change the counter.
	unlock := j.t.locks.Lock(partition.AllStripes, 0)
	writes := j.state.Writes.Load()
	c, err := j.open()
	unlock()
	if err != nil {
		return err
	}
	j.count = 0
	defer func() {
		if j.sst != nil {
			err = errors.Join(err, j.finish())
		}
		if j.path != "" {
			s.staging.remove(j.path)
			j.path = ""
		}
	}()
	err = j.write(ctx, c)
	if closeErr := c.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if j.sst == nil {
		return nil // the span has no cells
	}
	if err := j.finish(); err != nil {
		return err
	}
	info, err := s.opts.FS.Stat(j.path)
	if err != nil {
		return err
	}
	// Flush the writes that the read has seen before the swap. Otherwise the swap would flush them while it holds all locks.
	if err := s.flush(ctx); err != nil {
		return err
	}
	return j.swap(ctx, writes, uint64(info.Size()))
}

// open returns a cursor over all cells from j.start on.
func (j *dayChunkJob) open() (*cursor.Cursor, error) {
	it, err := j.t.store.db.NewIter(nil)
	if err != nil {
		return nil, err
	}
	c := &cursor.Cursor{Iter: it, Header: j.h, Layout: cellkey.Layout{HourKeys: true}, Ranges: []cellkey.Range{{}}}
	if len(j.start) > cellkey.HeaderBytes+1 {
		c.Ranges[0].Start.Row = j.start[cellkey.HeaderBytes:]
	}
	if j.state.HasDayChunks.Load() {
		c.WithDayChunks(&j.t.store.cursors)
	}
	return c, nil
}

// write writes series until the file is large or the partition ends.
func (j *dayChunkJob) write(ctx context.Context, c *cursor.Cursor) error {
	j.prefix, j.end = j.prefix[:0], nil
	j.worked = time.Now()
	if err := c.Open(); err != nil {
		return err
	}
	newest := daycells.NewestHour(j.h.Day())
	for c.Valid {
		prefix := c.Row[:len(c.Row)-cellkey.HourBytes]
		if !bytes.Equal(prefix, j.prefix) {
			if err := j.writeSeries(ctx); err != nil {
				return err
			}
			if j.sst != nil && j.sst.Raw().EstimatedSize() >= uint64(j.t.store.opts.DayChunkSpanBytes) {
				j.end = append(append(make([]byte, 0, cellkey.HeaderBytes+len(prefix)), j.h[:]...), prefix...)
				return nil
			}
			j.prefix = append(j.prefix[:0], prefix...)
		}
		if err := j.add(c, newest); err != nil {
			return err
		}
		if err := c.Next(); err != nil {
			return err
		}
	}
	if err := c.Iter.Error(); err != nil {
		return err
	}
	return j.writeSeries(ctx)
}

// add adds the cursor's cell to the day chunk of its series, or keeps it outside.
func (j *dayChunkJob) add(c *cursor.Cursor, newest uint32) error {
	qualifier, tsMs, ok := c.Address()
	if !ok {
		return cellkey.Damaged(c.Key)
	}
	hour := cellkey.HourOf(c.Row[len(c.Row)-cellkey.HourBytes:])
	j.count++
	if tsMs == cellkey.HourEndMs(hour) && hour >= newest && hour < newest+daycells.DayHours && j.cells.Count() < daycells.CellsMax {
		size := len(j.cells.Bytes)
		var err error
		if j.cells.Bytes, err = c.AppendValue(j.cells.Bytes, storage.Plain); err != nil {
			return err
		}
		if len(j.cells.Bytes)+len(j.cells.Quals) <= dayChunkBytesMax {
			j.cells.Add(uint8(hour-newest), qualifier)
			return nil
		}
		value := j.cells.Bytes[size:]
		j.addPlain(j.cellKey(c, qualifier), value)
		j.cells.Bytes = j.cells.Bytes[:size]
		return nil
	}
	value, err := c.AppendValue(nil, storage.Plain)
	if err != nil {
		return err
	}
	j.addPlain(j.cellKey(c, qualifier), value)
	return nil
}

// cellKey returns the key that the cursor's cell has outside a day chunk.
func (j *dayChunkJob) cellKey(c *cursor.Cursor, qualifier []byte) []byte {
	if !c.InDayChunk() {
		return c.Key
	}
	split := cellkey.HeaderBytes + len(c.Row) - cellkey.HourBytes
	j.key = append(append(append(j.key[:0], j.h[:]...), c.Row...), qualifier...)
	j.key = cellkey.AppendTrailer(j.key, split, cellkey.KindHourEnd)
	return j.key
}

func (j *dayChunkJob) addPlain(key, value []byte) {
	j.plain = append(j.plain, plainCell{bytes.Clone(key), bytes.Clone(value)})
}

// writeSeries writes the day chunk and the other cells of the current series.
func (j *dayChunkJob) writeSeries(ctx context.Context) error {
	if j.cells.Count() == 0 && len(j.plain) == 0 {
		return nil
	}
	if j.sst == nil {
		var err error
		if j.path, j.sst, err = j.t.store.staging.create(j.t.store.dayChunkOptions); err != nil {
			return err
		}
	}
	if j.cells.Count() > 0 {
		j.key = cellkey.AppendDayChunk(j.key[:0], j.h, j.prefix)
		j.value = j.cells.AppendValue(j.value[:0], j.t.store.opts.DayChunks)
		if err := j.sst.Set(j.key, j.value); err != nil {
			return err
		}
	}
	for _, cell := range j.plain {
		if err := j.sst.Set(cell.key, cell.value); err != nil {
			return err
		}
	}
	j.cells.Reset()
	j.plain = j.plain[:0]
	return j.pauseRegularly(ctx)
}

// pauseRegularly pauses the job regularly, to leave CPU for other work.
func (j *dayChunkJob) pauseRegularly(ctx context.Context) error {
	if j.series++; j.series%pauseEverySeries != 0 {
		return nil
	}
	if j.pause > 0 {
		if err := periodic.Sleep(ctx, time.Duration(j.pause)*time.Since(j.worked)); err != nil {
			return err
		}
		j.worked = time.Now()
	}
	return ctx.Err()
}

// finish completes and syncs the file.
func (j *dayChunkJob) finish() error {
	err := j.sst.Close()
	j.sst = nil
	return err
}

// swap replaces all cells of the span by the file. It fails if the partition has changed since the job read it.
func (j *dayChunkJob) swap(ctx context.Context, writes, after uint64) error {
	s := j.t.store
	end := j.end
	if end == nil {
		end = cellkey.AppendPartitionStart(nil, j.h.Next())
	}
	unlock := j.t.locks.Lock(partition.AllStripes, 0)
	defer unlock()
	if j.state.Writes.Load() != writes || j.f.Days.Load().State(j.state.Day) != j.state || j.f.Mixed.Load() {
		return errWritten
	}
	before, err := s.db.EstimateDiskUsage(j.start, end)
	if err != nil {
		return err
	}
	err = s.swaps.Swap(j.h, func() error {
		_, err := s.db.IngestAndExcise(ctx, []string{j.path}, nil, nil, pebble.KeyRange{Start: j.start, End: end})
		return err
	})
	if err != nil {
		return fault.Wrap("swap packed files", err)
	}
	s.dayChunkFigures.cells.Add(j.count)
	s.dayChunkFigures.bytesBefore.Add(before)
	s.dayChunkFigures.bytesAfter.Add(after)
	return s.health.Fatal()
}
