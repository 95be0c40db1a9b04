package lookup

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"halite/storage/index/memory"
)

// Estimate returns an upper bound of the active series that the matchers select. It uses the metric name and the matchers
// that list their values. It ignores other regular expressions, the time range and closed days, so it is cheap.
func (x *Reader) Estimate(ctx context.Context, matchers ...*labels.Matcher) (int, error) {
	q := &query{reader: x, ctx: ctx}
	for _, m := range newMatchers(matchers) {
		if m.finite {
			q.matchers = append(q.matchers, m)
		}
	}
	if len(q.matchers) == 0 {
		return int(x.active.SeriesCount()), nil
	}
	n := 0
	err := q.scanActive(func(_ *memory.View, rows []uint32) error {
		n += len(rows)
		return nil
	})
	return n, err
}
