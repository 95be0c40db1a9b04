package keyviz

import (
	"context"
	"fmt"

	"halite/storage/keyviz/heat"
)

// Load returns the counts of key ranges in the columns that overlap [fromMs, toMs). Range i holds the keys in [starts[i],
// starts[i+1]); starts ascend, and the first is "". If starts divide a recorded range, its counts spread evenly over the
// parts. So the totals equal the totals of the heat map. The error wraps ErrBadRequest if the request is invalid.
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
