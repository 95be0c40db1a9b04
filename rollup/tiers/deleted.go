package tiers

import (
	"context"
	"fmt"
	"iter"

	"halite/keyschema"
)

// MarkDeleted tells that samples from fromMs to toMs are about to be deleted, without a write to their rows, and lets
// change do it. rows lists the row key prefixes of a day that are concerned, with a mask of hours.
func (t *Tiers) MarkDeleted(
	ctx context.Context, fromMs, toMs int64, rows func(day int64) iter.Seq2[[]byte, uint32], change func() error,
) error {
	l := t.ledger
	l.gate.RLock()
	defer l.gate.RUnlock()
	last := min(floorDay(toMs), l.record.Closed)
	for day := max(floorDay(fromMs), t.oldestKept()); day <= last; day++ {
		var stale []staleHours
		for prefix, hours := range rows(day) {
			if hours &= 1<<keyschema.DayHours - 1; hours != 0 {
				stale = append(stale, staleHours{prefix, day, hours})
			}
		}
		if len(stale) == 0 {
			continue
		}
		if err := t.mark(ctx, stale); err != nil {
			return fmt.Errorf("mark states of %s as stale: %w", dayText(day), err)
		}
	}
	return change()
}

// oldestKept is the first day that can have states of hours.
func (t *Tiers) oldestKept() int64 {
	if t.opts.Hours == 0 {
		return 0
	}
	return max(0, floorDay(t.opts.Now().Add(-t.opts.Hours).UnixMilli()))
}
