package keyviz

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"halite/keyschema"
	"halite/storage/keyviz/heat"
	"halite/storage/keyviz/ranges"
	"halite/storage/periodic"
)

// Keys appends the row key of a series and hour, or nothing if the series is unknown.
type Keys func(dst []byte, ref uint32, hour int64) []byte

// Collector counts load by key range and time. Its methods may be called concurrently. A nil Collector counts nothing.
type Collector struct {
	opts   Options
	set    *ranges.Set
	series *ranges.Series
	keys   atomic.Pointer[Keys]
	divide atomic.Int64 // number of look-ups of series at which the ranges divide next
	jobs   periodic.Jobs
	hour   atomic.Int64 // hour of the last tick
	begun  time.Time
	past   atomic.Int64 // samples since the last division

	storing  sync.Mutex // held while columns are written to table meta
	dividing sync.Mutex // guards divided and took
	divided  time.Time
	took     time.Duration

	mu       sync.Mutex // guards what follows
	pyramid  *pyramid
	drained  time.Time
	counted  float64 // samples since ticked
	ticked   time.Time
	changes  []Change
	failures atomic.Int64 // failures to store columns
}

// Change is a split or merge of key ranges.
type Change struct {
	Time time.Time
	ranges.Change
}

// changesMax bounds the changes that a Collector remembers.
const changesMax = 1000

// Open returns a Collector with the columns of table meta. Call Start when the keys of series are known.
func Open(ctx context.Context, o Options) (*Collector, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	codec, err := heat.NewCodec()
	if err != nil {
		return nil, err
	}
	c := &Collector{opts: o, pyramid: newPyramid(codec, o.MemoryBytesMax, o.RangesMax), begun: o.Now(), ticked: o.Now()}
	if err := c.load(ctx); err != nil {
		return nil, fmt.Errorf("read the columns of the key heat map: %w", err)
	}
	c.set, err = ranges.New(ranges.Options{
		RangesMax: o.RangesMax, Stripes: stripes(), Levels: levels(),
		Key: func(ref uint32) string { return c.keyOf(ref, c.opts.Now().UnixMilli()) },
	}, c.pyramid.newestStarts())
	if err != nil {
		return nil, err
	}
	c.series = ranges.NewSeries(c.set, c.keyOf)
	c.divide.Store(firstDivision)
	c.register()
	return c, nil
}

// Start begins to count samples, whose keys are now available, and to store columns each minute. With interval 0 nothing
// runs in the background.
func (c *Collector) Start(keys Keys, interval time.Duration) {
	if c == nil {
		return
	}
	c.keys.Store(&keys)
	if interval > 0 {
		c.jobs.Add(interval, nil, func(ctx context.Context) { c.Tick(ctx) })
	}
}

// Close stores the counts and ends the background work.
func (c *Collector) Close(ctx context.Context) {
	if c == nil {
		return
	}
	c.jobs.Stop()
	c.jobs.Wait()
	c.Tick(ctx)
}

// keyOf returns the row key of a series at a time.
func (c *Collector) keyOf(ref uint32, tsMs int64) string {
	keys := c.keys.Load()
	if keys == nil {
		return ""
	}
	return string((*keys)(nil, ref, keyschema.HourOf(min(max(tsMs, 0), keyschema.TimeMaxMs))))
}

// Begin returns a batch for the samples of a request, or nil if they do not count. The caller ends it with End.
func (c *Collector) Begin(samples int) *ranges.Batch {
	if c == nil || c.keys.Load() == nil {
		return nil
	}
	return c.series.Begin(c.opts.Now().UnixMilli(), samples)
}

const (
	// firstDivision is the number of new series after which the ranges divide for the first time. Later they divide again
	// whenever the number has grown by 1/divisionGrowth. So the first load of a new server already has ranges.
	firstDivision  = 64
	divisionGrowth = 4
)

// End adds a batch from Begin.
func (c *Collector) End(b *ranges.Batch) {
	past := b.End()
	found, due := c.series.Found.Load(), c.divide.Load()
	if found >= due && c.divide.CompareAndSwap(due, found+found/divisionGrowth) {
		c.Divide()
		return
	}
	if past > 0 && c.past.Add(past) >= pastSamples && c.dividing.TryLock() {
		defer c.dividing.Unlock()
		began := time.Now()
		if began.Sub(c.divided) < pastPause*c.took {
			return
		}
		c.past.Store(0)
		c.Divide()
		c.divided = time.Now()
		c.took = c.divided.Sub(began)
	}
}

const (
	// pastSamples is the number of past samples after which the ranges divide. A backfill writes hours of samples within
	// seconds, so a division each minute would be too rare.
	pastSamples = 1 << 14
	// pastPause is the ratio of the pause between divisions to the time of the last division. So divisions take at most 1 %
	// of a CPU.
	pastPause = 100
)

// Divide splits hot ranges and merges cold ones.
func (c *Collector) Divide() {
	c.mu.Lock() // so that DropTenant finds the columns either in the set or in the pyramid
	defer c.mu.Unlock()
	now := c.opts.Now()
	for _, change := range c.set.Divide(c.adder(now)) {
		c.changes = append(c.changes, Change{now, change})
	}
	if n := len(c.changes) - changesMax; n > 0 {
		c.changes = append([]Change(nil), c.changes[n:]...)
	}
}

// Tick divides the ranges and stores the changed columns. It runs each minute.
func (c *Collector) Tick(ctx context.Context) {
	now := c.opts.Now()
	hour := keyschema.HourOf(now.UnixMilli())
	newHour := c.hour.Swap(hour) != hour
	c.Divide()
	if newHour { // rules for keys come into force at the start of an hour
		c.set.Renumber()
	}
	c.setLoad(now)
	err := c.store(ctx, now.UnixMilli())
	if err == nil && newHour && c.opts.Shared {
		err = c.expireOthers(ctx, now.UnixMilli())
	}
	if err != nil {
		c.failures.Add(1)
		c.opts.Logger.Warn("cannot store columns of the key heat map; they stay in memory", "err", err)
	}
}

// DropTenant drops the load of a tenant other than the default one. The caller blocks all requests of the tenant. When
// DropTenant returns, the columns in table meta no longer name the tenant. That is durable after the next Sync of the store.
// A nil Collector has nothing to drop.
func (c *Collector) DropTenant(ctx context.Context, tenant string) error {
	if c == nil {
		return nil
	}
	from, to := keyschema.TenantRows(tenant)
	start, end, now := string(from), string(to), c.opts.Now()
	c.mu.Lock()
	c.set.Drop(start, end, c.adder(now))
	c.pyramid.drop(start, end)
	c.changes = slices.DeleteFunc(c.changes, func(x Change) bool { return x.Start >= start && x.Start < end })
	c.mu.Unlock()
	if err := c.store(ctx, now.UnixMilli()); err != nil {
		return fmt.Errorf("drop tenant %q from the key heat map: %w", tenant, err)
	}
	return nil
}

// drainEvery is the largest age of counts that a heat map may lack.
const drainEvery = time.Second

// drain adds the pending counts to the columns. The caller holds mu.
func (c *Collector) drain() {
	now := c.opts.Now()
	if now.Sub(c.drained) < drainEvery && now.After(c.drained) {
		return
	}
	c.drained = now
	c.set.Drain(c.adder(now))
}

// adder returns a function that adds drained counts to the columns. The caller holds mu.
func (c *Collector) adder(now time.Time) func(*heat.Column) {
	return func(column *heat.Column) {
		for i := range column.Counts {
			c.counted += column.Counts[i][heat.WriteCells]
		}
		c.pyramid.add(column, now.UnixMilli())
	}
}

// setLoad passes the number of samples since its last call to the counters.
func (c *Collector) setLoad(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if minutes := now.Sub(c.ticked).Minutes(); minutes > 0 {
		c.series.SetLoad(c.counted / minutes)
	}
	c.counted, c.ticked = 0, now
}
