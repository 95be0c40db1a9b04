package lookup

import (
	"context"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/storage/index/memory"
	"halite/storage/index/segment"
	"halite/storage/index/valueid"
)

// A matcher is evaluated once for each distinct value of its label, never for each series. The result is the set of matching
// value ids. Id 0 means that the label is absent, which Prometheus treats as the empty string.

// matcher is a labels.Matcher with properties that the scans need often.
type matcher struct {
	*labels.Matcher
	metric bool // of the metric's name
	absent bool // the matcher accepts series without the label
	// finite says that values has all values that the matcher accepts. Series without the label may also match.
	finite bool
	values []string

	dict *memory.Dictionary // the last active dictionary; nil before the first
	set  *valueid.Set       // the values of dict that the matcher accepts
}

func newMatchers(ms []*labels.Matcher) []matcher {
	out := make([]matcher, 0, len(ms))
	for _, m := range ms {
		if m == nil {
			continue
		}
		finite, values := listValues(m)
		out = append(out, matcher{
			Matcher: m, metric: m.Name == model.MetricNameLabel, absent: m.Matches(""), finite: finite, values: values,
		})
	}
	return out
}

// listValues returns the values that a matcher lists, if it can match no others.
func listValues(m *labels.Matcher) (finite bool, values []string) {
	switch m.Type {
	case labels.MatchEqual:
		return true, []string{m.Value}
	case labels.MatchRegexp:
		if set := m.SetMatches(); len(set) > 0 {
			return true, set
		}
		values, finite = alternatives(m.Value)
	}
	return finite, values
}

// matchMetric reports whether all matchers on the metric's name accept it.
func matchMetric(ms []matcher, metric string) bool {
	for i := range ms {
		if ms[i].metric && !ms[i].Matches(metric) {
			return false
		}
	}
	return true
}

// metricNamed returns the metric that the matchers name.
func metricNamed(ms []matcher) (metric string, ok bool) {
	for i := range ms {
		if ms[i].metric && ms[i].Type == labels.MatchEqual {
			return ms[i].Value, true
		}
	}
	return "", false
}

// matchActive evaluates a matcher on the current values of an active dictionary, and counts the values that it compares.
func matchActive(ctx context.Context, m *matcher, d *memory.Dictionary, work *Work) (*valueid.Set, error) {
	if m.finite {
		return matchFinite(m, d.Len(), func(v string) (uint32, error) { return d.Lookup(v), nil })
	}
	values := d.Snapshot()
	work.Values += int64(len(values))
	set := valueid.NewSet(uint32(len(values)))
	if m.absent {
		set.Add(0)
	}
	for i, v := range values {
		if i%4096 == 4095 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if m.Matches(v) {
			set.Add(uint32(i) + 1)
		}
	}
	return set, nil
}

// matchFinite looks up the values that a matcher lists.
func matchFinite(m *matcher, idMax uint32, lookup func(string) (uint32, error)) (*valueid.Set, error) {
	var ids []uint32
	for _, v := range m.values {
		if v == "" {
			continue
		}
		id, err := lookup(v)
		if err != nil {
			return nil, err
		}
		if id != 0 {
			ids = append(ids, id)
			idMax = max(idMax, id)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if !m.absent && len(ids) == 1 {
		return valueid.NewSingleton(ids[0]), nil
	}
	if !m.absent && len(ids) == 0 {
		return &valueid.Set{}, nil
	}
	set := valueid.NewSet(idMax)
	if m.absent {
		set.Add(0)
	}
	for _, id := range ids {
		set.Add(id)
	}
	return set, nil
}

// matchClosed evaluates a matcher on a segment's dictionary. It caches the results of regular expressions, because the
// dictionary never changes.
func matchClosed(ctx context.Context, m *matcher, d *segment.Dict, work *Work) (*valueid.Set, error) {
	if m.finite {
		return matchFinite(m, d.Header.Values, func(v string) (uint32, error) { return d.Lookup(ctx, v) })
	}
	key := d.Segment.Key(segment.KindMatch, m.String(), 0)
	if set, ok := segment.Cached[*valueid.Set](d.Segment.Store.Cache, key); ok {
		return set, nil
	}
	set := valueid.NewSet(d.Header.Values)
	if m.absent {
		set.Add(0)
	}
	prefix := ""
	if m.Type == labels.MatchRegexp {
		prefix = m.Prefix()
	}
	first := 0
	if prefix != "" {
		first = max(0, d.Header.ChunkOfValue(prefix))
	}
	for i := first; i < len(d.Header.Chunks); i++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if prefix != "" && i > first && !hasPrefixOrLess(d.Header.Chunks[i].Value, prefix) {
			break
		}
		c, err := d.Chunk(ctx, i)
		if err != nil {
			return nil, err
		}
		work.Values += int64(c.Count)
		matchChunk(m, c, prefix, set)
	}
	d.Segment.Store.Cache.Put(key, set, set.SizeBytes())
	return set, nil
}

// hasPrefixOrLess reports whether v, or a value that sorts after it, may have the prefix.
func hasPrefixOrLess(v, prefix string) bool {
	return v < prefix || len(v) >= len(prefix) && v[:len(prefix)] == prefix
}

func matchChunk(m *matcher, c *segment.ValueChunk, prefix string, set *valueid.Set) {
	id := c.First
	if prefix != "" {
		id = c.Seek(prefix)
	}
	for ; id < c.First+c.Count; id++ {
		v := c.Value(id)
		if prefix != "" && !hasPrefixOrLess(v, prefix) {
			return
		}
		if m.Matches(v) {
			set.Add(id)
		}
	}
}
