package index

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"halite/storage/index/presence"
	"halite/storage/periodic"
)

// foldRemovals folds the days of whose segments hours were removed, with pauses: it is in no hurry.
func (x *Index) foldRemovals(ctx context.Context) error {
	var first error
	for _, c := range x.closed.between(0, presence.DayMax) {
		if !c.removed.Load() {
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

func (x *Index) foldRemoved(ctx context.Context, c *folded) (err error) {
	x.maint.Lock()
	defer x.maint.Unlock()
	if !c.removed.Load() || x.closed.period(c.of) != c {
		return nil
	}
	if err := x.foldRest(ctx, c); err != nil {
		x.metrics.foldFailures.Inc()
		return fmt.Errorf("index: fold what is left of %v: %w", c.of, err)
	}
	return nil
}

// foldRest makes a day's segment anew without the hours that were removed. The caller holds maint.
func (x *Index) foldRest(ctx context.Context, c *folded) error {
	sources, err := x.formerSegment(ctx, c.of.FirstDay())
	if err != nil {
		return err
	}
	r, err := x.root(ctx, c)
	if err != nil {
		return err
	}
	return x.foldInto(ctx, c.of, sources, contents{journalSeq: r.journalSeq}, func() {})
}
