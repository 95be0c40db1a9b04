package keyviz

import (
	"context"
	"fmt"

	"halite/storage/keyviz/heat"
)

// Load returns the counts of key ranges from fromMs to before toMs, in the columns that lie in that time at least partly. Range i
// holds the keys from starts[i] to before starts[i+1]; starts ascend, and the first is "". What was counted for a range that
// several of starts divide spreads evenly over them, so the totals are the totals of the heat map. The error wraps
// ErrBadRequest if the request is at fault.
func (c *Collector) Load(ctx context.Context, fromMs, toMs int64, starts []string) ([]heat.Counts, error) {
	r := Request{FromMs: fromMs, ToMs: toMs, Columns: ColumnsMax}
	if err := r.Validate(c.opts.Now()); err != nil {
		return nil, err
	}
	if len(starts) == 0 || starts[0] != "" {
		return nil, fmt.Errorf("%w: the ranges must begin with the first key", ErrBadRequest)
	}
	l, times := c.grid(&r)
	first, last := times[0], times[len(times)-1]
	other, err := c.others(ctx, l, first, last)
	if err != nil {
		return nil, fmt.Errorf("read the columns of other servers: %w", err)
	}
	out := make([]heat.Counts, len(starts))
	for _, column := range append(c.columns(l, first, last), other...) {
		heat.Spread(column.Starts, starts, func(i, at int, share float64) { out[at].Add(&column.Counts[i], share) })
	}
	return out, nil
}
