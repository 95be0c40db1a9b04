package opentsdb

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema/tsuid"
	"halite/query/opentsdb/aggregation"
	"halite/query/opentsdb/request"
)

// divide groups series by the values of the group-by tags and sorts the groups by these values. Without group-by tags, all
// series form one group. With the aggregator none, each series forms a group.
func divide(members []member, s *request.SubQuery) [][]member {
	if len(members) == 0 {
		return nil
	}
	if !s.Aggregator.Groups() {
		return slices.Collect(slices.Chunk(members, 1))
	}
	keys := s.GroupBy()
	if len(keys) == 0 {
		return [][]member{members}
	}
	slices.Sort(keys)
	groups := map[string][]member{}
	for _, m := range members {
		var group strings.Builder
		for _, key := range keys {
			group.WriteString(m.labels.Get(key))
			group.WriteByte(0)
		}
		groups[group.String()] = append(groups[group.String()], m)
	}
	out := make([][]member, 0, len(groups))
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, groups[name])
	}
	return out
}

// aggregate computes the series of a group.
func (r *subRun) aggregate(members []member) Series {
	g := aggregation.Group{
		Aggregator: r.sub.Aggregator, Downsampled: r.sub.Down != nil, Rate: r.sub.Rate != nil,
		Series: make([]aggregation.Points, len(members)),
	}
	for i := range members {
		g.Series[i] = members[i].points
	}
	s := Series{Sub: r.sub}
	s.Metric, s.Result = r.metric, g.Aggregate(r.query.StartMs, r.query.EndMs)
	s.Tags, s.AggregateTags = commonTags(members)
	if r.query.ShowTSUIDs {
		s.TSUIDs = ids(members)
		s.FormerTSUIDs = r.formerIDs(s.TSUIDs)
	}
	return s
}

// commonTags returns the tags that have the same value in every series with the tag, and the keys of all other tags.
func commonTags(members []member) (common []labels.Label, differing []string) {
	values, differ := map[string]string{}, map[string]bool{}
	for _, m := range members {
		m.labels.Range(func(l labels.Label) {
			if l.Name == model.MetricNameLabel {
				return
			}
			if v, seen := values[l.Name]; seen && v != l.Value {
				differ[l.Name] = true
			}
			values[l.Name] = l.Value
		})
	}
	for name, v := range values {
		if !differ[name] {
			common = append(common, labels.Label{Name: name, Value: v})
		}
	}
	slices.SortFunc(common, func(a, b labels.Label) int { return cmp.Compare(a.Name, b.Name) })
	return common, slices.Sorted(maps.Keys(differ))
}

func ids(members []member) []string {
	out := make([]string, 0, len(members))
	for _, m := range members {
		out = append(out, tsuid.Text(m.labels))
	}
	slices.Sort(out)
	return out
}

// formerIDs returns the tsuids of the given series under their stored names.
func (r *subRun) formerIDs(ids []string) (former []string) {
	for _, id := range ids {
		former = append(former, r.former[id]...)
	}
	return former
}
