package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/storage"
	"halite/storage/pebble/cellkey"
	"halite/storage/periodic"
)

const (
	// dayChunkBytesMax bounds the values in a day chunk; those that are left stay cells.
	dayChunkBytesMax = 1 << 20
	// spanTriesMax is how often a span is read again because somebody wrote to it.
	spanTriesMax = 3
	// quietDoublingsMax is how often DayChunkQuiet doubles before a day that fails again and again is tried once more.
	quietDoublingsMax = 6
	// pauseFactor is how many times as long as it worked the background job rests.
	pauseFactor = 1
	// restEverySeries is how many series the background job works on between rests.
	restEverySeries = 512
)

// errWritten says that a partition was written to while it was being packed.
var errWritten = errors.New("partition was written to while it was packed")

// dayChunkFigures are for the metrics.
type dayChunkFigures struct {
	days, cells, bytesBefore, bytesAfter, nanos, failures atomic.Uint64
}

// startDayChunks starts the background job, which Close ends.
func (s *Store) startDayChunks() {
	if s.opts.DayChunks == nil || s.opts.DayChunkInterval < 0 || s.opts.ReadOnly {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stopDayChunks = stop
	s.dayChunkJob.Go(func() {
		ticker := time.NewTicker(s.opts.DayChunkInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				s.writeDueDayChunks(ctx, pauseFactor)
			case <-s.dayChunkWake:
				s.writeDayChunksOf(ctx, pauseFactor, (*Table).isLoose)
			}
		}
	})
}

// WriteDayChunksSoon has the background job pack all days that have enough loose cells, open ones too. It does not wait, and
// does nothing in a store without that job.
func (s *Store) WriteDayChunksSoon() {
	select {
	case s.dayChunkWake <- struct{}{}:
	default: // it is about to look
	}
}

// DayChunks packs the closed days that are due, at once. Failures are counted and logged: the days stay as they are.
func (s *Store) WriteDayChunks(ctx context.Context) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	s.writeDueDayChunks(ctx, 0)
	return ctx.Err()
}

// writeDueDayChunks packs the days that are due.
func (s *Store) writeDueDayChunks(ctx context.Context, pause int) {
	s.writeDayChunksOf(ctx, pause, func(t *Table, f *family, state *dayState) bool { return t.dayChunksDue(f, state) })
}

func (s *Store) writeDayChunksOf(ctx context.Context, pause int, due func(*Table, *family, *dayState) bool) {
	if s.opts.DayChunks == nil {
		return
	}
	s.dayChunkMu.Lock()
	defer s.dayChunkMu.Unlock()
	for _, t := range s.tablesByName() {
		for _, f := range t.families {
			for _, state := range f.days.states() {
				if ctx.Err() != nil || s.health.writable() != nil {
					return
				}
				if !t.hourKeys || f.kind != storage.Plain || f.mixed.Load() {
					continue
				}
				err := t.writeDay(ctx, f, state, pause, due)
				if errors.Is(err, errWritten) && !t.isClosed(state) {
					continue // it will be packed once it is closed
				}
				if err != nil && ctx.Err() == nil {
					state.failedTimes++
					state.failedMs = s.opts.Now().UnixMilli()
					s.dayChunkFigures.failures.Add(1)
					s.health.report("a day could not be packed, it stays as it is", slog.LevelWarn, "table", t.record().Name,
						"family", f.name, "day", state.day, "err", err)
				}
			}
		}
	}
}

// writeDay packs a day if it is due.
func (t *Table) writeDay(
	ctx context.Context, f *family, state *dayState, pause int, due func(*Table, *family, *dayState) bool,
) error {
	if !due(t, f, state) {
		if state.complete && state.lateBytes.Load() > 0 {
			return t.noteComplete(ctx, f, state, false)
		}
		return nil
	}
	j := dayChunkJob{t: t, f: f, state: state, h: cellkey.NewHeader(t.id, f.id, state.day), pause: pause}
	if err := j.run(ctx); err != nil {
		return err
	}
	state.failedTimes = 0
	return nil
}

// dayChunksDue tells whether a day is closed, quiet, and has enough that is not packed.
func (t *Table) dayChunksDue(f *family, state *dayState) bool {
	o := &t.store.opts
	nowMs := o.Now().UnixMilli()
	if !t.isClosed(state) || state.wroteMs.Load() > nowMs-o.DayChunkQuiet.Milliseconds() {
		return false
	}
	if n := state.failedTimes; n > 0 && nowMs < state.failedMs+o.DayChunkQuiet.Milliseconds()<<min(n, quietDoublingsMax) {
		return false
	}
	return t.isLoose(f, state)
}

// isClosed tells whether a day has been over for Options.DayChunkAfter.
func (t *Table) isClosed(state *dayState) bool {
	o := &t.store.opts
	return (int64(state.day)+1)*cellkey.DayMs+o.DayChunkAfter.Milliseconds() <= o.Now().UnixMilli()
}

// isLoose tells whether enough of a day is not packed, and will be kept.
func (t *Table) isLoose(f *family, state *dayState) bool {
	o := &t.store.opts
	if p := t.state.Load().gc[f.name]; ageAlone(p) && (int64(state.day)+1)*cellkey.DayMs <= p.CutoffMs(o.Now()) {
		return false // garbage
	}
	if !state.complete {
		return true
	}
	late := state.lateBytes.Load()
	if late == 0 {
		return false
	}
	h := cellkey.NewHeader(t.id, f.id, state.day)
	size, err := t.store.db.EstimateDiskUsage(cellkey.AppendPartitionStart(nil, h), cellkey.AppendPartitionStart(nil, h.Next()))
	return err == nil && uint64(late)*100 >= size*uint64(o.DayChunkLatePercent)
}

// dayChunkJob packs one partition, span by span.
type dayChunkJob struct {
	t     *Table
	f     *family
	state *dayState
	h     cellkey.Header
	pause int // see pauseFactor; 0 is none

	start, end []byte // the span; an open end is the partition's
	cells      dayChunkCells
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

// plainCell is a cell that stays beside its prefix's day chunk.
type plainCell struct{ key, value []byte }

func (j *dayChunkJob) run(ctx context.Context) error {
	began := time.Now()
	if err := j.t.noteDayChunks(ctx, j.f, j.state); err != nil {
		return err
	}
	late := j.state.lateBytes.Load()
	j.start = cellkey.AppendPartitionStart(nil, j.h)
	tries := 0
	for {
		err := j.span(ctx)
		if errors.Is(err, errWritten) && tries < spanTriesMax {
			tries++
			continue
		}
		if err != nil {
			return fmt.Errorf("pack day %d of family %s: %w", j.state.day, j.f.name, err)
		}
		tries = 0
		if j.end == nil {
			break
		}
		j.start = j.end
	}
	j.state.lateBytes.Add(-late)
	j.state.complete = true
	b := &j.t.store.dayChunkFigures
	b.days.Add(1)
	b.nanos.Add(uint64(time.Since(began)))
	return j.t.noteComplete(ctx, j.f, j.state, true)
}

// span packs cells from j.start on and sets j.end to where it has stopped.
func (j *dayChunkJob) span(ctx context.Context) (err error) {
	s := j.t.store
	// Whoever wrote before this point is visible to the read; whoever writes after it changes the count.
	unlock := j.t.locks.lock(allStripes, 0)
	writes := j.state.writes.Load()
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
			_ = s.opts.FS.Remove(j.path) // the tree has linked or copied it; a leftover is removed by the next Open
			j.path = ""
		}
	}()
	err = j.write(ctx, c)
	if closeErr := j.close(c); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if j.sst == nil {
		return nil // nothing is left of the span
	}
	if err := j.finish(); err != nil {
		return err
	}
	info, err := s.opts.FS.Stat(j.path)
	if err != nil {
		return err
	}
	// What the read has seen is in files before the swap, which would wait for that with all locks held.
	if err := s.flush(ctx); err != nil {
		return err
	}
	return j.swap(ctx, writes, uint64(info.Size()))
}

// open returns a cursor over all cells from j.start on.
func (j *dayChunkJob) open() (*cursor, error) {
	it, err := j.t.store.db.NewIter(nil)
	if err != nil {
		return nil, err
	}
	c := &cursor{it: it, h: j.h, hourKeys: true, ranges: []cellkey.Range{{}}}
	if len(j.start) > cellkey.HeaderBytes+1 {
		c.ranges[0].Start.Row = j.start[cellkey.HeaderBytes:]
	}
	c.dayChunks = j.t.store.dayChunkCursor(j.state)
	return c, nil
}

// close closes the job's cursor.
func (j *dayChunkJob) close(c *cursor) error {
	err := c.it.Close()
	if c.dayChunks != nil {
		err = errors.Join(err, j.t.store.release(c.dayChunks))
	}
	return err
}

// write writes the series from the cursor on until the file is large or the partition ends.
func (j *dayChunkJob) write(ctx context.Context, c *cursor) error {
	j.prefix, j.end = j.prefix[:0], nil
	j.worked = time.Now()
	if err := c.open(); err != nil {
		return err
	}
	newest := newestHour(j.h.Day())
	for c.valid {
		prefix := c.place[:len(c.place)-cellkey.HourBytes]
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
		if err := j.take(c, newest); err != nil {
			return err
		}
		if err := c.next(); err != nil {
			return err
		}
	}
	if err := c.it.Error(); err != nil {
		return err
	}
	return j.writeSeries(ctx)
}

// take keeps the cursor's cell for its series' day chunk, or beside it.
func (j *dayChunkJob) take(c *cursor, newest uint32) error {
	qualifier, tsMs, ok := c.address()
	if !ok {
		return cellkey.Damaged(c.key)
	}
	hour := cellkey.HourOf(c.place[len(c.place)-cellkey.HourBytes:])
	j.count++
	if tsMs == cellkey.HourEndMs(hour) && hour >= newest && hour < newest+dayHours && j.cells.count() < cellsMax {
		size := len(j.cells.bytes)
		var err error
		if j.cells.bytes, err = c.appendValue(j.cells.bytes, storage.Plain); err != nil {
			return err
		}
		if len(j.cells.bytes)+len(j.cells.quals) <= dayChunkBytesMax {
			j.cells.add(uint8(hour-newest), qualifier)
			return nil
		}
		value := j.cells.bytes[size:]
		j.keep(j.physical(c, qualifier), value)
		j.cells.bytes = j.cells.bytes[:size]
		return nil
	}
	value, err := c.appendValue(nil, storage.Plain)
	if err != nil {
		return err
	}
	j.keep(j.physical(c, qualifier), value)
	return nil
}

// physical returns the key that the cursor's cell has beside a day chunk.
func (j *dayChunkJob) physical(c *cursor, qualifier []byte) []byte {
	if b := c.dayChunks; b == nil || !b.current {
		return c.key
	}
	split := cellkey.HeaderBytes + len(c.place) - cellkey.HourBytes
	j.key = append(append(append(j.key[:0], j.h[:]...), c.place...), qualifier...)
	j.key = cellkey.AppendTrailer(j.key, split, cellkey.KindHourEnd)
	return j.key
}

func (j *dayChunkJob) keep(key, value []byte) {
	j.plain = append(j.plain, plainCell{bytes.Clone(key), bytes.Clone(value)})
}

// writeSeries writes day chunk and cells of the series that has been read.
func (j *dayChunkJob) writeSeries(ctx context.Context) error {
	if j.cells.count() == 0 && len(j.plain) == 0 {
		return nil
	}
	if j.sst == nil {
		if err := j.begin(); err != nil {
			return err
		}
	}
	if j.cells.count() > 0 {
		j.key = cellkey.AppendDayChunk(j.key[:0], j.h, j.prefix)
		j.value = j.cells.appendValue(j.value[:0], j.t.store.opts.DayChunks)
		if err := j.sst.Set(j.key, j.value); err != nil {
			return err
		}
	}
	for _, cell := range j.plain {
		if err := j.sst.Set(cell.key, cell.value); err != nil {
			return err
		}
	}
	j.cells.reset()
	j.plain = j.plain[:0]
	return j.rest(ctx)
}

// rest lets others work.
func (j *dayChunkJob) rest(ctx context.Context) error {
	if j.series++; j.series%restEverySeries != 0 {
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

func (j *dayChunkJob) begin() error {
	d := j.t.store.load
	path := d.fs.PathJoin(d.dir, fmt.Sprintf("%d%s", d.serial.Add(1), loadSuffix))
	f, err := d.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	j.path = path
	j.sst = sstable.NewWriter(objstorageprovider.NewFileWritable(f), j.t.store.dayChunkOptions)
	return nil
}

// finish completes and syncs the file.
func (j *dayChunkJob) finish() error {
	err := j.sst.Close()
	j.sst = nil
	return err
}

// swap puts the file in the place of all that the span has, unless somebody has written to the partition.
func (j *dayChunkJob) swap(ctx context.Context, writes, after uint64) error {
	s := j.t.store
	end := j.end
	if end == nil {
		end = cellkey.AppendPartitionStart(nil, j.h.Next())
	}
	unlock := j.t.locks.lock(allStripes, 0)
	defer unlock()
	if j.state.writes.Load() != writes || j.f.days.load().state(j.state.day) != j.state || j.f.mixed.Load() {
		return errWritten
	}
	before, err := s.db.EstimateDiskUsage(j.start, end)
	if err != nil {
		return err
	}
	err = s.swaps.swap(j.h, func() error {
		_, err := s.db.IngestAndExcise(ctx, []string{j.path}, nil, nil, pebble.KeyRange{Start: j.start, End: end})
		return err
	})
	if err != nil {
		return engineError("swap packed files", err)
	}
	s.dayChunkFigures.cells.Add(j.count)
	s.dayChunkFigures.bytesBefore.Add(before)
	s.dayChunkFigures.bytesAfter.Add(after)
	return s.health.fatal()
}

// noteDayChunks notes in the table's record that a day may have day chunks, durably before the first one comes.
func (t *Table) noteDayChunks(ctx context.Context, f *family, state *dayState) error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if i := t.record().dayChunkDay(f, state); i < 0 {
		if err := t.putDayChunkDay(ctx, dayChunkDay{Family: f.id, Day: state.day}); err != nil {
			return err
		}
		if err := t.store.flush(ctx); err != nil {
			return err
		}
	}
	state.hasDayChunks.Store(true)
	return nil
}

// noteComplete notes whether a packed day has little beside its day chunks. It is a hint for the next process.
func (t *Table) noteComplete(ctx context.Context, f *family, state *dayState, complete bool) error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if i := t.record().dayChunkDay(f, state); i < 0 || t.record().DayChunkDays[i].Complete == complete {
		return nil
	}
	return t.putDayChunkDay(ctx, dayChunkDay{Family: f.id, Day: state.day, Complete: complete})
}

// dayChunkDay returns the index of a day's note, or -1.
func (r *tableRecord) dayChunkDay(f *family, state *dayState) int {
	return slices.IndexFunc(r.DayChunkDays, func(b dayChunkDay) bool { return b.Family == f.id && b.Day == state.day })
}

// putDayChunkDay replaces a day's note and forgets those of days that are gone. The store's mu is held.
func (t *Table) putDayChunkDay(ctx context.Context, want dayChunkDay) error {
	rec := *t.record()
	rec.DayChunkCodec = t.store.opts.DayChunks.Name
	rec.DayChunkDays = slices.DeleteFunc(slices.Clone(rec.DayChunkDays), func(b dayChunkDay) bool {
		return b.Family == want.Family && b.Day == want.Day || !t.hasDay(b)
	})
	rec.DayChunkDays = append(rec.DayChunkDays, want)
	if err := t.store.putRecord(ctx, catalogTables, rec.Name, rec); err != nil {
		return err
	}
	t.replaceRecord(rec)
	return nil
}

// hasDay tells whether a noted day is live still.
func (t *Table) hasDay(b dayChunkDay) bool {
	return slices.ContainsFunc(t.families, func(f *family) bool {
		return f.id == b.Family && f.days.load().state(b.Day) != nil
	})
}
