package compaction

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// CompactShared is Compact for tables that several processes share. One process at a time should call it; if two do, the
// work of one is lost.
func (c *Compactor) CompactShared(ctx context.Context) error {
	// A server that did not share the tables may have dropped metrics.
	days, err := c.storedDays(ctx, func(h *segment.Handle) bool { return h.Dropped.Load() })
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	var errs []error
	keep := func(err error) {
		if err != nil && !errors.Is(err, errFenced) {
			errs = append(errs, err)
		}
	}
	for p, gen := range maps.Clone(c.state.begun) {
		// If a compaction stopped before its switch, the next one of the partition cleans up.
		if h := c.store.Closed.Get(p); h != nil && h.Gen.Load() == gen {
			keep(c.clean(ctx, p))
		}
	}
	for _, day := range days {
		if ctx.Err() == nil && dayDue(day, c.opts.Now(), c.state.compactedAt[presence.DayPartition(day)]) {
			keep(c.compactSharedDay(ctx, day))
		}
	}
	keep(c.compactMonths(ctx))
	return errors.Join(errs...)
}

// storedDays finds the partitions with segments. It returns the days with a journal and those with a segment that pass the
// filter, ascending.
func (c *Compactor) storedDays(ctx context.Context, filter func(h *segment.Handle) bool) (days []int64, err error) {
	c.opts.Lock.Lock()
	defer c.opts.Lock.Unlock()
	if err := c.FindPartitions(ctx, storage.Filter{VersionsMax: 1}); err != nil {
		return nil, err
	}
	c.Expire()
	for _, h := range c.store.Closed.DaysBetween(0, presence.DayMax) {
		if filter(h) {
			days = append(days, h.Partition.FirstDay())
		}
	}
	it := c.store.SeriesTable.ReadRows(ctx, segment.PrefixRows(segment.JournalPrefix),
		storage.ReadOptions{Filter: storage.Filter{KeysOnly: true}})
	defer func() { _ = it.Close() }()
	for it.Next() {
		key := it.Row().Key
		_, p, _, err := segment.ParseKey(key)
		if err != nil {
			return nil, envelope.Corrupt(storage.TableSeries, key, nil, err)
		}
		if k := len(days) - 1; k < 0 || days[k] != p.FirstDay() {
			days = append(days, p.FirstDay())
		}
	}
	slices.Sort(days)
	return slices.Compact(days), it.Err()
}

// compactSharedDay makes a new segment of a day's journal and segment.
func (c *Compactor) compactSharedDay(ctx context.Context, day int64) error {
	c.opts.Lock.Lock()
	defer c.opts.Lock.Unlock()
	p := presence.DayPartition(day)
	gen, err := c.reserve(ctx, p)
	if err != nil {
		return fmt.Errorf("day %d: %w", day, err)
	}
	c.state.reserved[p] = gen
	defer delete(c.state.reserved, p)
	// After this point no other process switches the manifest.
	if err := c.readStored(ctx, day); err != nil {
		return fmt.Errorf("day %d: %w", day, err)
	}
	h := c.store.Closed.Day(day)
	dropped := h != nil && h.Dropped.Load()
	switch {
	case c.open.Get(day) != nil || dropped:
		err = c.compactDay(ctx, day, nil)
	case c.state.unclean[p]:
		err = c.sweep(ctx, p) // the segment contains the whole journal
	}
	if err != nil || !dropped {
		return err
	}
	return c.fenceMonth(ctx, p)
}

// readStored reads the manifest and the journal of a day.
func (c *Compactor) readStored(ctx context.Context, day int64) error {
	p := presence.DayPartition(day)
	c.open.Remove(day)
	m, err := c.store.FindManifest(ctx, p)
	if err != nil {
		return err
	}
	if m == nil {
		c.store.Closed.Remove(p)
	} else {
		c.store.Closed.Install(p, m)
	}
	found, err := c.journal.Read(ctx, segment.JournalRows(day), storage.Filter{VersionsMax: 1})
	if err != nil {
		return err
	}
	if len(found.Damaged) > 0 {
		return fmt.Errorf("%w: the day's journal is damaged; the next server that reads it repairs it", storage.ErrCorrupt)
	}
	if len(found.Obsolete) > 0 {
		c.MarkUnclean(p)
	}
	return nil
}

// fenceMonth stops any process that is compacting the month of a day, perhaps with an old generation of the day. If the
// month already contains an old generation, fenceMonth voids it.
func (c *Compactor) fenceMonth(ctx context.Context, day presence.Partition) error {
	month := presence.MonthOf(day.FirstDay())
	gen, err := c.reserve(ctx, month)
	if err != nil {
		return err
	}
	m, err := c.store.FindManifest(ctx, month)
	if err != nil || m == nil {
		return err
	}
	c.store.Closed.Install(month, m)
	if gen := m.Days[day.FirstDay()-month.FirstDay()].Gen; gen == 0 || gen == c.store.Closed.Get(day).Gen.Load() {
		return nil
	}
	c.state.reserved[month] = gen
	defer delete(c.state.reserved, month)
	return c.VoidMonth(ctx, month)
}

// reserveMonth reserves a month's next generation. It fails if the inputs have changed since the caller read them. After it, a
// process that removes rows from a day fences the month.
func (c *Compactor) reserveMonth(
	ctx context.Context, month presence.Partition, previous *segment.Segment, due []*segment.Handle,
) error {
	gen, err := c.reserve(ctx, month)
	if err != nil {
		return err
	}
	m, err := c.store.FindManifest(ctx, month)
	if err != nil {
		return err
	}
	if m != nil && previous != nil && m.Gen != previous.Manifest.Gen {
		return errFenced
	}
	for _, h := range due {
		if m, err := c.store.ReadManifest(ctx, h.Partition); err != nil || m.Gen != h.Gen.Load() {
			return errors.Join(err, errFenced)
		}
	}
	c.state.reserved[month] = gen
	return nil
}

// removeTriesMax bounds the attempts to remove hours from a day that other processes compact.
const removeTriesMax = 8

// RemoveHoursShared is RemoveHours for tables that several processes share. Other processes see the result at their next
// Refresh. A writer may add an hour at the same time. The hour stays if the writer adds it again (MarkDirty) after it
// stores the samples.
//
// If a process adds another hour of the same day before its next Refresh, a removed hour comes back, without samples.
func (c *Compactor) RemoveHoursShared(ctx context.Context, r HourRemoval) error {
	return c.forEachStoredDay(ctx, r.First, r.Last, func(day int64) error {
		if len(r.Matchers(day)) == 0 {
			return nil
		}
		err := errFenced
		again := func() bool { return errors.Is(err, errFenced) || errors.Is(err, segment.ErrStale) }
		for n := 0; again() && n < removeTriesMax; n++ {
			err = c.removeFromSharedDay(ctx, day, r)
		}
		if again() {
			err = fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
		}
		return err
	})
}

// FenceShared stops every earlier RemoveHoursShared that overlaps the hours from first to last, in any process. Such a call
// fails or calls Held.
func (c *Compactor) FenceShared(ctx context.Context, first, last int64) error {
	return c.forEachStoredDay(ctx, first, last, func(day int64) error {
		_, err := c.reserve(ctx, presence.DayPartition(day))
		return err
	})
}

// forEachStoredDay calls fn with the days of hours from first to last that the tables have.
func (c *Compactor) forEachStoredDay(ctx context.Context, first, last int64, fn func(day int64) error) error {
	days, err := c.storedDays(ctx, func(*segment.Handle) bool { return true })
	if err != nil {
		return err
	}
	for _, day := range days {
		if day < presence.DayOf(first) || day > presence.DayOf(last) {
			continue
		}
		if err := fn(day); err != nil {
			return fmt.Errorf("day %d: %w", day, err)
		}
	}
	return nil
}

// removeFromSharedDay rewrites a day's segment if the day has hours without samples.
func (c *Compactor) removeFromSharedDay(ctx context.Context, day int64, r HourRemoval) error {
	c.opts.Lock.Lock()
	defer c.opts.Lock.Unlock()
	defer c.open.Remove(day)
	p := presence.DayPartition(day)
	// On most days of a long time range no series matches. So the first pass only reads, and only the second pass fences.
	var gen uint32
	for fenced := false; ; fenced = true {
		if err := c.readStored(ctx, day); err != nil {
			return err
		}
		removed, err := c.emptyHours(ctx, day, r)
		if err != nil || len(removed.hours) == 0 {
			return err
		}
		if fenced {
			c.state.reserved[p] = gen
			defer delete(c.state.reserved, p)
			if err := c.compactDay(ctx, day, removed); err != nil {
				return err
			}
			return c.fenceMonth(ctx, p)
		}
		if gen, err = c.reserve(ctx, p); err != nil {
			return err
		}
		if r.Held != nil {
			if err := r.Held(ctx); err != nil {
				return err
			}
		}
	}
}
