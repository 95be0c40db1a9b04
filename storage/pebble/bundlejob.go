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
	"halite/storage/periodic"
)

const (
	// bundleBytesMax bounds the values in a bundle; those that are left stay cells.
	bundleBytesMax = 1 << 20
	// bundleTriesMax is how often a span is read again because somebody wrote to it.
	bundleTriesMax = 3
	// bundleDoublingsMax is how often BundleQuiet doubles before a day that fails again and again is tried once more.
	bundleDoublingsMax = 6
	// bundlePause is how many times as long as it worked the background job rests.
	bundlePause = 1
	// bundleRestEvery is how many series the background job works on between rests.
	bundleRestEvery = 512
)

// errWritten says that a partition was written to while it was being bundled.
var errWritten = errors.New("partition was written to while it was bundled")

// bundleFigures are for the metrics.
type bundleFigures struct {
	days, cells, bytesBefore, bytesAfter, nanos, failures atomic.Uint64
}

// startBundling starts the background job, which Close ends.
func (s *Store) startBundling() {
	if s.opts.Bundle == nil || s.opts.BundleEvery < 0 || s.opts.ReadOnly {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stopBundle = stop
	s.bundleJob.Go(func() {
		ticker := time.NewTicker(s.opts.BundleEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				s.bundleDue(ctx, bundlePause)
			case <-s.bundleWake:
				s.bundleDays(ctx, bundlePause, (*Table).isLoose)
			}
		}
	})
}

// BundleSoon has the background job bundle all days that have enough loose cells, open ones too. It does not wait, and
// does nothing in a store without that job.
func (s *Store) BundleSoon() {
	select {
	case s.bundleWake <- struct{}{}:
	default: // it is about to look
	}
}

// Bundle bundles the closed days that are due, at once. Failures are counted and logged: the days stay as they are.
func (s *Store) Bundle(ctx context.Context) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	s.bundleDue(ctx, 0)
	return ctx.Err()
}

// bundleDue bundles the days that are due.
func (s *Store) bundleDue(ctx context.Context, pause int) {
	s.bundleDays(ctx, pause, func(t *Table, f *family, state *dayState) bool { return t.bundleIsDue(f, state) })
}

func (s *Store) bundleDays(ctx context.Context, pause int, due func(*Table, *family, *dayState) bool) {
	if s.opts.Bundle == nil {
		return
	}
	s.bundleMu.Lock()
	defer s.bundleMu.Unlock()
	for _, t := range s.tablesByName() {
		for _, f := range t.families {
			for _, state := range f.days.states() {
				if ctx.Err() != nil || s.health.writable() != nil {
					return
				}
				if !t.hourKeys || f.kind != storage.Plain || f.mixed.Load() {
					continue
				}
				err := t.bundleDay(ctx, f, state, pause, due)
				if errors.Is(err, errWritten) && !t.isClosed(state) {
					continue // it will be bundled once it is closed
				}
				if err != nil && ctx.Err() == nil {
					state.failedTimes++
					state.failedMs = s.opts.Now().UnixMilli()
					s.bundled.failures.Add(1)
					s.health.report("a day could not be bundled, it stays as it is", slog.LevelWarn, "table", t.record().Name,
						"family", f.name, "day", state.day, "err", err)
				}
			}
		}
	}
}

// bundleDay bundles a day if it is due.
func (t *Table) bundleDay(
	ctx context.Context, f *family, state *dayState, pause int, due func(*Table, *family, *dayState) bool,
) error {
	if !due(t, f, state) {
		if state.complete && state.lateBytes.Load() > 0 {
			return t.noteComplete(ctx, f, state, false)
		}
		return nil
	}
	j := bundleJob{t: t, f: f, state: state, h: makeHeader(t.id, f.id, state.day), pause: pause}
	if err := j.run(ctx); err != nil {
		return err
	}
	state.failedTimes = 0
	return nil
}

// bundleIsDue tells whether a day is closed, quiet, and has enough that is not bundled.
func (t *Table) bundleIsDue(f *family, state *dayState) bool {
	o := &t.store.opts
	nowMs := o.Now().UnixMilli()
	if !t.isClosed(state) || state.wroteMs.Load() > nowMs-o.BundleQuiet.Milliseconds() {
		return false
	}
	if n := state.failedTimes; n > 0 && nowMs < state.failedMs+o.BundleQuiet.Milliseconds()<<min(n, bundleDoublingsMax) {
		return false
	}
	return t.isLoose(f, state)
}

// isClosed tells whether a day has been over for Options.BundleAfter.
func (t *Table) isClosed(state *dayState) bool {
	o := &t.store.opts
	return (int64(state.day)+1)*dayMs+o.BundleAfter.Milliseconds() <= o.Now().UnixMilli()
}

// isLoose tells whether enough of a day is not bundled, and will be kept.
func (t *Table) isLoose(f *family, state *dayState) bool {
	o := &t.store.opts
	if p := t.state.Load().gc[f.name]; ageAlone(p) && (int64(state.day)+1)*dayMs <= p.CutoffMs(o.Now()) {
		return false // garbage
	}
	if !state.complete {
		return true
	}
	late := state.lateBytes.Load()
	if late == 0 {
		return false
	}
	h := makeHeader(t.id, f.id, state.day)
	size, err := t.store.db.EstimateDiskUsage(appendPartitionStart(nil, h), appendPartitionStart(nil, h.next()))
	return err == nil && uint64(late)*100 >= size*uint64(o.BundleLatePercent)
}

// bundleJob bundles one partition, span by span.
type bundleJob struct {
	t     *Table
	f     *family
	state *dayState
	h     header
	pause int // see bundlePause; 0 is none

	start, end []byte // the span; an open end is the partition's
	cells      bundleCells
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

// plainCell is a cell that stays beside its prefix's bundle.
type plainCell struct{ key, value []byte }

func (j *bundleJob) run(ctx context.Context) error {
	began := time.Now()
	if err := j.t.noteBundled(ctx, j.f, j.state); err != nil {
		return err
	}
	late := j.state.lateBytes.Load()
	j.start = appendPartitionStart(nil, j.h)
	tries := 0
	for {
		err := j.span(ctx)
		if errors.Is(err, errWritten) && tries < bundleTriesMax {
			tries++
			continue
		}
		if err != nil {
			return fmt.Errorf("bundle day %d of family %s: %w", j.state.day, j.f.name, err)
		}
		tries = 0
		if j.end == nil {
			break
		}
		j.start = j.end
	}
	j.state.lateBytes.Add(-late)
	j.state.complete = true
	b := &j.t.store.bundled
	b.days.Add(1)
	b.nanos.Add(uint64(time.Since(began)))
	return j.t.noteComplete(ctx, j.f, j.state, true)
}

// span bundles from j.start on and sets j.end to where it has stopped.
func (j *bundleJob) span(ctx context.Context) (err error) {
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
func (j *bundleJob) open() (*cursor, error) {
	it, err := j.t.store.db.NewIter(nil)
	if err != nil {
		return nil, err
	}
	c := &cursor{it: it, h: j.h, hourKeys: true, ranges: []placeRange{{}}}
	if len(j.start) > headerBytes+1 {
		c.ranges[0].start.place = j.start[headerBytes:]
	}
	c.bundles = j.t.store.bundleCursor(j.state)
	return c, nil
}

// close closes the job's cursor.
func (j *bundleJob) close(c *cursor) error {
	err := c.it.Close()
	if c.bundles != nil {
		err = errors.Join(err, j.t.store.release(c.bundles))
	}
	return err
}

// write writes the series from the cursor on until the file is large or the partition ends.
func (j *bundleJob) write(ctx context.Context, c *cursor) error {
	j.prefix, j.end = j.prefix[:0], nil
	j.worked = time.Now()
	if err := c.open(); err != nil {
		return err
	}
	newest := newestHour(j.h.day())
	for c.valid {
		prefix := c.place[:len(c.place)-hourBytes]
		if !bytes.Equal(prefix, j.prefix) {
			if err := j.writeSeries(ctx); err != nil {
				return err
			}
			if j.sst != nil && j.sst.Raw().EstimatedSize() >= uint64(j.t.store.opts.BundleSpanBytes) {
				j.end = append(append(make([]byte, 0, headerBytes+len(prefix)), j.h[:]...), prefix...)
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

// take keeps the cursor's cell for its series' bundle, or beside it.
func (j *bundleJob) take(c *cursor, newest uint32) error {
	qualifier, tsMs, ok := c.address()
	if !ok {
		return damagedKey(c.key)
	}
	hour := hourOf(c.place[len(c.place)-hourBytes:])
	j.count++
	if tsMs == hourEndMs(hour) && hour >= newest && hour < newest+dayHours && j.cells.count() < bundleCellsMax {
		size := len(j.cells.bytes)
		var err error
		if j.cells.bytes, err = c.appendValue(j.cells.bytes, storage.Plain); err != nil {
			return err
		}
		if len(j.cells.bytes)+len(j.cells.quals) <= bundleBytesMax {
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

// physical returns the key that the cursor's cell has beside a bundle.
func (j *bundleJob) physical(c *cursor, qualifier []byte) []byte {
	if b := c.bundles; b == nil || !b.current {
		return c.key
	}
	split := headerBytes + len(c.place) - hourBytes
	j.key = append(append(append(j.key[:0], j.h[:]...), c.place...), qualifier...)
	j.key = appendTrailer(j.key, split, kindHourEnd)
	return j.key
}

func (j *bundleJob) keep(key, value []byte) {
	j.plain = append(j.plain, plainCell{bytes.Clone(key), bytes.Clone(value)})
}

// writeSeries writes bundle and cells of the series that has been read.
func (j *bundleJob) writeSeries(ctx context.Context) error {
	if j.cells.count() == 0 && len(j.plain) == 0 {
		return nil
	}
	if j.sst == nil {
		if err := j.begin(); err != nil {
			return err
		}
	}
	if j.cells.count() > 0 {
		j.key = appendBundleKey(j.key[:0], j.h, j.prefix)
		j.value = j.cells.appendValue(j.value[:0], j.t.store.opts.Bundle)
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
func (j *bundleJob) rest(ctx context.Context) error {
	if j.series++; j.series%bundleRestEvery != 0 {
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

func (j *bundleJob) begin() error {
	d := j.t.store.load
	path := d.fs.PathJoin(d.dir, fmt.Sprintf("%d%s", d.serial.Add(1), loadSuffix))
	f, err := d.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	j.path = path
	j.sst = sstable.NewWriter(objstorageprovider.NewFileWritable(f), j.t.store.bundleOptions)
	return nil
}

// finish completes and syncs the file.
func (j *bundleJob) finish() error {
	err := j.sst.Close()
	j.sst = nil
	return err
}

// swap puts the file in the place of all that the span has, unless somebody has written to the partition.
func (j *bundleJob) swap(ctx context.Context, writes, after uint64) error {
	s := j.t.store
	end := j.end
	if end == nil {
		end = appendPartitionStart(nil, j.h.next())
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
		return engineError("swap bundled files", err)
	}
	s.bundled.cells.Add(j.count)
	s.bundled.bytesBefore.Add(before)
	s.bundled.bytesAfter.Add(after)
	return s.health.fatal()
}

// noteBundled notes in the table's record that a day may have bundles, durably before the first one comes.
func (t *Table) noteBundled(ctx context.Context, f *family, state *dayState) error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if i := t.record().bundledDay(f, state); i < 0 {
		if err := t.putBundled(ctx, bundledDay{Family: f.id, Day: state.day}); err != nil {
			return err
		}
		if err := t.store.flush(ctx); err != nil {
			return err
		}
	}
	state.bundled.Store(true)
	return nil
}

// noteComplete notes whether a bundled day has little beside its bundles. It is a hint for the next process.
func (t *Table) noteComplete(ctx context.Context, f *family, state *dayState, complete bool) error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if i := t.record().bundledDay(f, state); i < 0 || t.record().Bundled[i].Complete == complete {
		return nil
	}
	return t.putBundled(ctx, bundledDay{Family: f.id, Day: state.day, Complete: complete})
}

// bundledDay returns the index of a day's note, or -1.
func (r *tableRecord) bundledDay(f *family, state *dayState) int {
	return slices.IndexFunc(r.Bundled, func(b bundledDay) bool { return b.Family == f.id && b.Day == state.day })
}

// putBundled replaces a day's note and forgets those of days that are gone. The store's mu is held.
func (t *Table) putBundled(ctx context.Context, want bundledDay) error {
	rec := *t.record()
	rec.Bundle = t.store.opts.Bundle.Name
	rec.Bundled = slices.DeleteFunc(slices.Clone(rec.Bundled), func(b bundledDay) bool {
		return b.Family == want.Family && b.Day == want.Day || !t.hasDay(b)
	})
	rec.Bundled = append(rec.Bundled, want)
	if err := t.store.putRecord(ctx, catalogTables, rec.Name, rec); err != nil {
		return err
	}
	t.replaceRecord(rec)
	return nil
}

// hasDay tells whether a noted day is live still.
func (t *Table) hasDay(b bundledDay) bool {
	return slices.ContainsFunc(t.families, func(f *family) bool {
		return f.id == b.Family && f.days.load().state(b.Day) != nil
	})
}
