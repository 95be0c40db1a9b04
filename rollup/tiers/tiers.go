package tiers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"halite/storage"
	"halite/storage/periodic"
)

// Tiers are the stored states of hours and days. See the package comment.
type Tiers struct {
	opts    Options
	data    storage.Table
	table   storage.Table
	ledger  *ledger
	epochs  *epochs
	metrics *metrics

	passing sync.Mutex // held by the pass under way
	noted   uint64     // the last deletion that is in the tables for sure; guarded by passing
	stop    context.CancelFunc
	work    sync.WaitGroup
	// wait is periodic.Sleep; tests replace it.
	wait func(ctx context.Context, d time.Duration) error
	tick func() time.Time // measures durations, not times of the data
}

// Open reads the ledger. On its first call for a store it plans all closed days that have samples.
func Open(ctx context.Context, opts Options) (*Tiers, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	t := &Tiers{opts: opts.withDefaults(), epochs: new(epochs), wait: periodic.Sleep, tick: time.Now}
	if opts.Shared != nil && opts.Shared.Tick != nil {
		t.tick = opts.Shared.Tick
	}
	var err error
	if t.data, err = opts.Store.EnsureTable(ctx, storage.DataSchema(opts.Raw)); err != nil {
		return nil, fmt.Errorf("open table %s: %w", storage.TableData, err)
	}
	table, err := opts.Store.EnsureTable(ctx, storage.RollupSchema(opts.Hours, opts.Days))
	if err != nil {
		return nil, fmt.Errorf("open table %s: %w", storage.TableRollup, err)
	}
	t.table = &epochTable{table, t.epochs}
	l, found, err := openLedger(ctx, opts.Store, opts.Reset, t.epochs, opts.Shared)
	if err != nil {
		return nil, err
	}
	t.ledger = l
	if !found {
		if err := t.plan(ctx, t.oldest(), t.lastClosed()); err != nil {
			return nil, err
		}
	}
	if t.metrics, err = newMetrics(opts.Registerer, t); err != nil {
		return nil, err
	}
	return t, nil
}

// lastClosed is the last day that is over.
func (t *Tiers) lastClosed() int64 {
	return floorDay(t.opts.Now().Add(-t.opts.Delay).UnixMilli()) - 1
}

func floorDay(tsMs int64) int64 {
	if tsMs < 0 {
		return -1
	}
	return tsMs / dayMs
}

// oldest is the first day that can have samples.
func (t *Tiers) oldest() int64 {
	if t.opts.Raw == 0 {
		return 0
	}
	return max(0, floorDay(t.opts.Now().Add(-t.opts.Raw).UnixMilli()))
}

// plan closes the days up to the last one and puts those from first on that have samples into the ledger.
func (t *Tiers) plan(ctx context.Context, first, last int64) error {
	days, err := daysWith(ctx, t.data, storage.FamilySamples, first, last)
	if err != nil {
		return err
	}
	return t.ledger.close(ctx, last, days)
}

// daysWith lists the days of a span that have cells of a family. Spans are halved: an engine that keeps no days apart reads
// the whole table to find that one has none, and most of a long span are such.
func daysWith(ctx context.Context, table storage.Table, family string, first, last int64) ([]int64, error) {
	if first > last {
		return nil, nil
	}
	has, err := hasRow(ctx, table, family, first, last)
	if err != nil {
		return nil, fmt.Errorf("look for cells of days %d to %d: %w", first, last, err)
	}
	if !has {
		return nil, nil
	}
	if first == last {
		return []int64{first}, nil
	}
	middle := first + (last-first)/2
	days, err := daysWith(ctx, table, family, first, middle)
	if err != nil {
		return nil, err
	}
	more, err := daysWith(ctx, table, family, middle+1, last)
	return append(days, more...), err
}

// hasRow tells whether a table has a cell of the family in a span of days. A span that cannot be read has one.
func hasRow(ctx context.Context, table storage.Table, family string, first, last int64) (bool, error) {
	has, err := storage.HasRow(ctx, table, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.Filter{
		Families: []string{family}, FromMs: first * dayMs, ToMs: (last + 1) * dayMs, KeysOnly: true,
	})
	if errors.Is(err, storage.ErrCorrupt) {
		return true, nil
	}
	return has, err
}

// Start runs the job in the background until Close.
func (t *Tiers) Start() {
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	t.work.Go(func() { periodic.Repeat(ctx, t.opts.Interval, t.drain) })
}

// drain works until there is nothing to do.
func (t *Tiers) drain(ctx context.Context) {
	for ctx.Err() == nil {
		worked, err := t.Step(ctx)
		if err != nil && ctx.Err() == nil {
			t.opts.Logger.Error("computing rollups failed; the next run repeats it", "err", err)
		}
		if err != nil || !worked {
			return
		}
	}
}

// Close ends the background job and waits for it. States that are not computed yet will be after the next Open.
func (t *Tiers) Close() {
	if t.stop != nil {
		t.stop()
		t.work.Wait()
	}
}

// Step does one piece of work: it closes days that are over, then computes one day, what was deleted, or one month. It tells
// whether there was anything to compute.
func (t *Tiers) Step(ctx context.Context) (worked bool, err error) {
	t.passing.Lock()
	defer t.passing.Unlock()
	defer func() {
		if err != nil {
			t.metrics.failures.Inc()
		}
	}()
	if t.opts.Shared != nil {
		if mine, err := t.begin(ctx); err != nil || !mine {
			return false, err
		}
	}
	if view, last := t.ledger.view(), t.lastClosed(); last > view.Closed {
		if err := t.plan(ctx, max(view.Closed+1, t.oldest()), last); err != nil {
			return false, err
		}
	}
	if err := t.ledger.closeMonths(ctx); err != nil {
		return false, err
	}
	if day, ok := t.ledger.next(t.opts.Now(), t.opts.Settle); ok {
		if err := t.computeDay(ctx, day); err != nil {
			if errors.Is(err, storage.ErrCorrupt) {
				t.ledger.leave(day, t.opts.Now())
			}
			return false, fmt.Errorf("compute the hours of %s: %w", dayText(day), err)
		}
		return true, nil
	}
	if t.deletionsDue() {
		return true, t.computeDeleted(ctx, t.opts.Share)
	}
	if month, ok := t.ledger.nextMonth(); ok {
		if err := t.computeMonth(ctx, month); err != nil {
			return false, fmt.Errorf("compute the days of %s: %w", dayText(MonthStart(month))[:7], err)
		}
		return true, nil
	}
	return false, nil
}

func dayText(day int64) string { return time.UnixMilli(day * dayMs).UTC().Format(time.DateOnly) }

// throttle keeps a pass within its share of a core.
type throttle struct {
	t     *Tiers
	since time.Time
	share float64
	calls int
}

const (
	throttleCalls = 16
	throttleBurst = 5 * time.Millisecond
)

// pause sleeps if the pass has worked for a while. It fails once the context has ended.
func (p *throttle) pause(ctx context.Context) error {
	if p.calls++; p.calls%throttleCalls != 0 {
		return nil
	}
	if time.Since(p.since) >= throttleBurst {
		p.rest(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// rest sleeps for as long as the work since the last rest demands, or until the context ends.
func (p *throttle) rest(ctx context.Context) {
	busy := time.Since(p.since)
	p.t.metrics.busySeconds.Add(busy.Seconds())
	if p.share < 1 {
		_ = p.t.wait(ctx, time.Duration(float64(busy)*(1/p.share-1)))
	}
	p.since = time.Now()
}
