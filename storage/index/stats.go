package index

import (
	"cmp"
	"slices"

	"github.com/prometheus/common/model"

	"halite/storage/index/memory"
	"halite/storage/index/presence"
)

// NameCount is one line of a ranking in Stats.
type NameCount struct {
	Name  string
	Count uint64
}

// Stats describes the active index, as /api/v1/status/tsdb shows it.
type Stats struct {
	// Series counts the active series. LabelPairs counts their distinct name=value pairs.
	Series, LabelPairs int
	// SeriesByMetric counts the series of each metric. ValuesByLabel counts the distinct values of each label name.
	// BytesByLabel counts the bytes of a label's values over all series. SeriesByPair counts the series with each name=value
	// pair. Each list has the largest counts, descending.
	SeriesByMetric, ValuesByLabel, BytesByLabel, SeriesByPair []NameCount
	// ActiveBytes is the approximate memory of the active index. CacheBytes is the memory of cached segments.
	ActiveBytes, CacheBytes int64
	// OpenDays counts the days in memory. ClosedDays counts the days with segments.
	OpenDays, ClosedDays int
}

const statsLimitDefault = 10

// Stats describes the active index. limit bounds each ranking; 0 means 10. Stats reads every series.
func (x *Index) Stats(limit int) Stats {
	if limit <= 0 {
		limit = statsLimitDefault
	}
	out := Stats{CacheBytes: x.store.Cache.SizeBytes(), ActiveBytes: x.SizeBytes()}
	out.OpenDays, out.ClosedDays = len(x.open.All()), len(x.store.Closed.DaysBetween(0, presence.DayMax))
	pairs := map[string]map[*memory.Dictionary][]uint64{}
	var v memory.View
	for _, t := range x.active.Tables() {
		v.Load(t)
		live := uint64(0)
		for row := range v.Rows {
			if v.Ref(row) == 0 {
				continue
			}
			live++
			for pos, c := range v.Columns {
				countPair(pairs, c.Dict, v.Data[pos].At(row))
			}
		}
		if live > 0 {
			out.Series += int(live)
			out.LabelPairs++
			out.SeriesByMetric = append(out.SeriesByMetric, NameCount{t.Metric, live})
			out.SeriesByPair = append(out.SeriesByPair, NameCount{model.MetricNameLabel + "=" + t.Metric, live})
		}
	}
	bytes := uint64(0)
	for _, m := range out.SeriesByMetric {
		bytes += uint64(len(m.Name)) * m.Count
	}
	out.ValuesByLabel = append(out.ValuesByLabel, NameCount{model.MetricNameLabel, uint64(len(out.SeriesByMetric))})
	out.BytesByLabel = append(out.BytesByLabel, NameCount{model.MetricNameLabel, bytes})
	for name, dicts := range pairs {
		out.addLabel(name, dicts)
	}
	for _, ranking := range []*[]NameCount{
		&out.SeriesByMetric, &out.ValuesByLabel, &out.BytesByLabel, &out.SeriesByPair,
	} {
		*ranking = largest(*ranking, limit)
	}
	return out
}

func countPair(pairs map[string]map[*memory.Dictionary][]uint64, d *memory.Dictionary, id uint32) {
	if id == 0 {
		return
	}
	dicts := pairs[d.Name]
	if dicts == nil {
		dicts = map[*memory.Dictionary][]uint64{}
		pairs[d.Name] = dicts
	}
	counts := dicts[d]
	if int(id) >= len(counts) {
		counts = append(counts, make([]uint64, max(int(id), int(d.Len()))+1-len(counts))...)
		dicts[d] = counts
	}
	counts[id]++
}

func (s *Stats) addLabel(name string, dicts map[*memory.Dictionary][]uint64) {
	byValue := map[string]uint64{}
	for d, counts := range dicts {
		for id, n := range counts {
			if n > 0 {
				byValue[d.Value(uint32(id))] += n
			}
		}
	}
	bytes := uint64(0)
	for value, n := range byValue {
		bytes += uint64(len(value)) * n
		s.SeriesByPair = append(s.SeriesByPair, NameCount{name + "=" + value, n})
	}
	s.LabelPairs += len(byValue)
	s.ValuesByLabel = append(s.ValuesByLabel, NameCount{name, uint64(len(byValue))})
	s.BytesByLabel = append(s.BytesByLabel, NameCount{name, bytes})
}

// largest returns the entries with the largest counts; names decide ties.
func largest(all []NameCount, limit int) []NameCount {
	slices.SortFunc(all, func(a, b NameCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return slices.Clone(all[:min(limit, len(all))])
}
