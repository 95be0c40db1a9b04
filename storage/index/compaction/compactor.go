package compaction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/journal"
	"halite/storage/index/lookup"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// Options configure a Compactor.
type Options struct {
	// Active, Open, Segments, Journal and Lookup are the parts of the index.
	Active   *memory.Index
	Open     *memory.OpenDays
	Segments *segment.Store
	Journal  *journal.Journal
	Lookup   *lookup.Reader
	// Sync makes earlier changes of the tables durable.
	Sync func(ctx context.Context) error
	// Lock serialises the changes of tables. Every method locks it, except methods that say otherwise.
	Lock *sync.Mutex
	// Shared is set if several processes share the tables. The Compactor then compacts for all of them, with an active index
	// that nothing else uses.
	Shared bool
	// CompactedAt holds the last compaction of each partition. Several Compactors may use it, but not concurrently.
	CompactedAt map[presence.Partition]time.Time
	// MonthSeriesMax bounds the series of a month; 0 means no limit.
	MonthSeriesMax int
	Now            func() time.Time
	Logger         *slog.Logger
	Metrics        Metrics
}

// Metrics count compactions.
type Metrics struct {
	Days, Months, Failures, Seconds prometheus.Counter
	// DamagedDays is the number of damaged days that their months omit.
	DamagedDays prometheus.Gauge
}

// Compactor writes the segments of days and months.
type Compactor struct {
	opts    Options
	active  *memory.Index
	open    *memory.OpenDays
	store   *segment.Store
	journal *journal.Journal
	lookup  *lookup.Reader
	state   generationState
}

// New returns a Compactor of an index.
func New(o Options) *Compactor {
	c := &Compactor{opts: o, active: o.Active, open: o.Open, store: o.Segments, journal: o.Journal, lookup: o.Lookup}
	c.state = generationState{
		compactedAt: o.CompactedAt, damaged: map[presence.Partition]damagedDay{}, reserved: map[presence.Partition]uint32{},
	}
	c.state.reset()
	return c
}

// Reset drops the segments that FindPartitions has found. The caller holds the lock.
func (c *Compactor) Reset() {
	c.store.Closed.Reset()
	c.state.reset()
}

// Compact compacts the closed days and their months, deletes the cells of interrupted compactions, and drops days beyond
// retention from memory. A failed compaction leaves its partition unchanged. Compact continues with the others and returns
// the first error.
func (c *Compactor) Compact(ctx context.Context) error {
	c.locked(func() error { c.Expire(); return nil })
	var first error
	keep := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	for _, p := range c.uncleanPartitions() {
		keep(c.clean(ctx, p))
	}
	for _, d := range c.open.All() {
		if err := ctx.Err(); err != nil {
			keep(err)
			break
		}
		keep(c.locked(func() error {
			if !dayDue(d.Day, c.opts.Now(), c.state.compactedAt[presence.DayPartition(d.Day)]) {
				return nil
			}
			return c.compactDay(ctx, d.Day, nil)
		}))
	}
	keep(c.compactMonths(ctx))
	return first
}

func (c *Compactor) locked(fn func() error) error {
	c.opts.Lock.Lock()
	defer c.opts.Lock.Unlock()
	return fn()
}

func (c *Compactor) uncleanPartitions() (all []presence.Partition) {
	_ = c.locked(func() error {
		all = slices.Collect(maps.Keys(c.state.unclean))
		return nil
	})
	return all
}

// clean deletes the cells of an interrupted compaction of a partition.
func (c *Compactor) clean(ctx context.Context, p presence.Partition) error {
	err := c.locked(func() error { return c.sweep(ctx, p) })
	if err != nil {
		return fmt.Errorf("clean up %v: %w", p, err)
	}
	return nil
}

// Expire drops the days that ended before retention from memory, and returns the oldest remaining day. The GC policies of
// the tables delete the cells of dropped days. The caller holds the lock.
func (c *Compactor) Expire() (oldest int64) {
	oldest = presence.DayOf(keyschema.HourOf(c.opts.Lookup.OldestMs()))
	for _, d := range c.open.Between(0, oldest-1) {
		c.open.Remove(d.Day)
	}
	for _, h := range append(c.store.Closed.DaysBetween(0, oldest-1), c.store.Closed.AllMonths()...) {
		if h.Partition.LastDay() < oldest {
			c.store.Closed.Remove(h.Partition)
			c.store.Cache.Drop(h.Partition)
		}
	}
	c.journal.Expire(oldest)
	c.state.expire(oldest)
	c.opts.Metrics.DamagedDays.Set(float64(len(c.state.damaged)))
	return oldest
}

// compactDay writes the next generation of a day. It merges the journal in memory and the segment without the removed hours.
// removed is nil if no hours are removed. The caller holds the lock.
func (c *Compactor) compactDay(ctx context.Context, day int64, removed *removedHours) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("compact day %d: %w", day, err)
			c.opts.Metrics.Failures.Inc()
		}
	}()
	sources, inputs, err := c.segmentOf(ctx, day, removed)
	if err != nil {
		return err
	}
	p, d := presence.DayPartition(day), c.open.Get(day)
	if d == nil {
		return c.Replace(ctx, p, sources, inputs, nil)
	}
	if err := c.journal.Locate(ctx, d); err != nil {
		return err
	}
	hours, records := d.Snapshot(), d.Records
	end := d.Journal.Seq
	if !c.opts.Shared {
		end++ // a failed write may have stored its record, whose content is in memory
	}
	inputs.JournalSeq = max(inputs.JournalSeq, end)
	sources = append([]Source{NewActiveSource(c.active, hours)}, sources...)
	if err := c.Replace(ctx, p, sources, inputs, func() { c.open.Release(d, hours) }); err != nil {
		return err
	}
	return c.journal.Delete(ctx, records)
}

// segmentOf returns the segment of a day, without the removed hours, as a source of the next segment. It returns no source
// if the day has no segment. If the next segment lacks rows of the previous one, segmentOf voids the month, because
// compactions of a month only add rows.
func (c *Compactor) segmentOf(ctx context.Context, day int64, removed *removedHours) (sources []Source, in Inputs, err error) {
	var s *segment.Segment
	if h := c.store.Closed.Day(day); h != nil {
		if s, err = c.store.Open(ctx, h); err != nil {
			return nil, in, err
		}
		in.JournalSeq = s.Manifest.JournalSeq
	}
	if s == nil || removed != nil || len(s.Manifest.Dropped) > 0 {
		if err := c.voidMonthOf(ctx, presence.DayPartition(day)); err != nil {
			return nil, in, err
		}
	}
	if s == nil {
		return nil, in, nil
	}
	if removed != nil {
		if s.Lost, err = c.removedRows(ctx, day, removed); err != nil {
			return nil, in, err
		}
	}
	src, err := NewDaySource(ctx, s)
	return []Source{src}, in, err
}

// damagedDay is a generation of a day that a month cannot contain because it is damaged.
type damagedDay struct {
	gen   uint32
	tried time.Time
}

// noteDamaged makes the month omit a day for some hours, or until the day is rebuilt. The caller holds the lock.
func (c *Compactor) noteDamaged(h *segment.Handle, err error) {
	gen := h.Gen.Load()
	if was, ok := c.state.damaged[h.Partition]; !ok || was.gen != gen {
		c.opts.Logger.Error("index day is damaged and its month omits it; rebuild the day", "day", h.Partition.FirstDay(), "err", err)
	}
	c.state.damaged[h.Partition] = damagedDay{gen: gen, tried: c.opts.Now()}
	c.opts.Metrics.DamagedDays.Set(float64(len(c.state.damaged)))
}

// isDamaged reports whether this generation of a day was found damaged. The caller holds the lock.
func (c *Compactor) isDamaged(h *segment.Handle) bool {
	was, ok := c.state.damaged[h.Partition]
	if ok && was.gen != h.Gen.Load() {
		delete(c.state.damaged, h.Partition)
		c.opts.Metrics.DamagedDays.Set(float64(len(c.state.damaged)))
		return false
	}
	return ok && c.opts.Now().Sub(was.tried) < MonthInterval
}

// noteDamagedSources records the damaged sources that made a compaction fail. It reports whether it found any.
func (c *Compactor) noteDamagedSources(sources []Source, err error) (found bool) {
	if !errors.Is(err, storage.ErrCorrupt) {
		return false
	}
	for _, src := range sources {
		s, ok := src.(SegmentSource)
		switch {
		case !ok || !s.Segment.Damaged:
			continue
		case s.Segment.Handle.Partition.IsMonth():
			c.store.MarkBroken(s.Segment.Handle, err)
		default:
			c.noteDamaged(s.Segment.Handle, err)
		}
		found = true
	}
	return found
}

// HasEnded reports whether a day has ended.
func (c *Compactor) HasEnded(day int64) bool { return dayEnded(day, c.opts.Now(), 0) }
