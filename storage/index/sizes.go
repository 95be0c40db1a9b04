package index

import "halite/storage/index/memory"

// Sizes are the numbers of series and values in the active index. They include values and rows of recently retired series,
// so they are upper bounds.
type Sizes struct {
	// Series counts the active series exactly.
	Series int
	// SeriesByMetric and ValuesByLabel have the largest counts, descending.
	SeriesByMetric, ValuesByLabel []NameCount
}

// Sizes returns the sizes of the active index. limit bounds each ranking; 0 means 10. Unlike Stats, it reads no series, so
// callers may call it every minute.
func (x *Index) Sizes(limit int) Sizes {
	if limit <= 0 {
		limit = statsLimitDefault
	}
	out := Sizes{Series: int(x.active.SeriesCount())}
	labels := map[*memory.Dictionary]struct{}{}
	var v memory.View
	for _, t := range x.active.Tables() {
		v.Load(t)
		out.SeriesByMetric = append(out.SeriesByMetric, NameCount{t.Metric, uint64(v.Rows)})
		for _, c := range v.Columns {
			labels[c.Dict] = struct{}{}
		}
	}
	for d := range labels {
		out.ValuesByLabel = append(out.ValuesByLabel, NameCount{d.Name, uint64(d.Len())})
	}
	out.SeriesByMetric, out.ValuesByLabel = largest(out.SeriesByMetric, limit), largest(out.ValuesByLabel, limit)
	return out
}
