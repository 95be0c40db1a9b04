package index

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"halite/storage/index/presence"
	"halite/storage/index/segment"
	"halite/storage/periodic"
)

// foldRemovals folds the days of whose segments hours were removed, with pauses: it is in no hurry.
func (x *Index) foldRemovals(ctx context.Context) error {
	var first error
	for _, c := range x.store.Closed.DaysBetween(0, presence.DayMax) {
		if !c.Removed.Load() {
			continue
		}
		start := time.Now() // a duration, not a time of the data
		if err := x.foldRemoved(ctx, c); err != nil && first == nil {
			first = err
		}
		if err := periodic.Sleep(ctx, removalPause*time.Since(start)); err != nil {
			return cmp.Or(first, err)
		}
	}
	return first
}

// removalPause is for how many times as long as a fold of removals took nothing is done after it.
const removalPause = 3

func (x *Index) foldRemoved(ctx context.Context, c *segment.Handle) (err error) {
	x.maint.Lock()
	defer x.maint.Unlock()
	if !c.Removed.Load() || x.store.Closed.Get(c.Of) != c {
		return nil
	}
	if err := x.foldRest(ctx, c); err != nil {
		x.metrics.foldFailures.Inc()
		return fmt.Errorf("index: fold what is left of %v: %w", c.Of, err)
	}
	return nil
}

// foldRest makes a day's segment anew without the hours that were removed. The caller holds maint.
func (x *Index) foldRest(ctx context.Context, c *segment.Handle) error {
	sources, err := x.formerSegment(ctx, c.Of.FirstDay())
	if err != nil {
		return err
	}
	r, err := x.store.Manifest(ctx, c)
	if err != nil {
		return err
	}
	return x.foldInto(ctx, c.Of, sources, contents{journalSeq: r.JournalSeq}, func() {})
}
