package keyviz

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"halite/storage/keyviz/heat"
)

// LoadRequest asks for the load of key ranges from FromMs to before ToMs, in the columns that overlap that time.
type LoadRequest struct {
	FromMs, ToMs int64
	// Starts ascend, and the first is "". Range i holds the keys from Starts[i] to before Starts[i+1].
	Starts []string
	// SeriesMax bounds the ranges that get a series: those with the most load. 0 makes none.
	SeriesMax int
}

// Load is the load of key ranges. If they divide a range of the heat map, its counts spread evenly over them. So the totals
// equal the totals of the heat map.
type Load struct {
	// Counts are the counts by range.
	Counts []heat.Counts
	// TimesMs are the starts of the columns, and the end of the last one: at most ColumnsDefault columns.
	TimesMs []int64
	// Series are the counts by range and column; nil for a range without a series.
	Series [][]heat.Counts
}

// Load returns the load of key ranges. The error wraps ErrBadRequest if the request is at fault.
func (c *Collector) Load(ctx context.Context, req LoadRequest) (*Load, error) {
	r := Request{FromMs: req.FromMs, ToMs: req.ToMs, Columns: ColumnsDefault}
	if err := r.Validate(c.opts.Now()); err != nil {
		return nil, err
	}
	if len(req.Starts) == 0 || req.Starts[0] != "" {
		return nil, fmt.Errorf("%w: the ranges must begin with the first key", ErrBadRequest)
	}
	l, times := c.grid(&r)
	first, last := times[0], times[len(times)-1]
	other, err := c.others(ctx, l, first, last)
	if err != nil {
		return nil, fmt.Errorf("read the columns of other servers: %w", err)
	}
	columns := append(c.columns(l, first, last), other...)
	out := &Load{Counts: make([]heat.Counts, len(req.Starts)), TimesMs: times, Series: make([][]heat.Counts, len(req.Starts))}
	for _, column := range columns {
		heat.Spread(column.Starts, req.Starts, func(i, at int, share float64) { out.Counts[at].Add(&column.Counts[i], share) })
	}
	for _, at := range out.hottest(req.SeriesMax) {
		out.Series[at] = make([]heat.Counts, len(times)-1)
	}
	step := times[1] - times[0]
	for _, column := range columns {
		n := (column.StartMs - first) / step
		heat.Spread(column.Starts, req.Starts, func(i, at int, share float64) {
			if series := out.Series[at]; series != nil {
				series[n].Add(&column.Counts[i], share)
			}
		})
	}
	return out, nil
}

// hottest returns the ranges with the most load.
func (l *Load) hottest(most int) []int {
	at := make([]int, len(l.Counts))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(l.Counts[b].Heat(), l.Counts[a].Heat()) })
	return at[:min(most, len(at))]
}
