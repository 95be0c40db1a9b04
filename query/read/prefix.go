package read

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/query/column"
	"halite/storage/index"
)

// RowPrefix is the part of a series' row keys before the hour, in one generation of the schema.
type RowPrefix struct {
	Prefix           []byte
	Series           int // index of the series in the batch
	FromHour, ToHour int64
	Generation       *keyschema.Generation
	lead             int // see neighbours.leadOf
}

// rowPrefixes lists the row prefixes of the series that have hours, sorted by key. This order also sorts the row ranges of
// each day.
func rowPrefixes(
	schema *keyschema.Schema, window column.TimeRange, n *neighbours, series []index.Series,
	hoursOf func(series int) []index.HourSpan,
) []RowPrefix {
	var (
		out         = make([]RowPrefix, 0, len(series))
		arena       []byte
		builder     = labels.NewScratchBuilder(16)
		tags        []keyschema.Tag
		generations = map[string][]keyschema.Generation{}
		first, last = wholeMonths(keyschema.HourOf(window.MinMs), keyschema.HourOf(window.MaxMs))
	)
	for i, s := range series {
		hours := hoursOf(i)
		if len(hours) == 0 {
			continue
		}
		metric := s.Metric()
		tags = s.AppendTags(tags[:0], &builder)
		gens, ok := generations[metric]
		if !ok {
			gens = schema.Generations(metric, first, last)
			generations[metric] = gens
		}
		for k := range gens {
			g := &gens[k]
			from, to := max(g.FromHour, hours[0].First), min(g.ToHour, hours[len(hours)-1].Last)
			if from > to {
				continue
			}
			start := len(arena)
			arena = g.Rule.AppendPrefix(arena, metric, tags)
			prefix := arena[start:len(arena):len(arena)]
			lead := n.leadOf(g.Rule, prefix, tags)
			out = append(out, RowPrefix{Prefix: prefix, Series: i, FromHour: from, ToHour: to, lead: lead, Generation: g})
		}
	}
	// Of equal prefixes the later hours come first: hours are reversed in keys.
	slices.SortFunc(out, func(a, b RowPrefix) int {
		return cmp.Or(bytes.Compare(a.Prefix, b.Prefix), cmp.Compare(b.FromHour, a.FromHour))
	})
	return out
}

// wholeMonths widens a span of hours to all months that it overlaps.
func wholeMonths(first, last int64) (int64, int64) {
	const monthHoursMax = 31 * keyschema.DayHours
	return first - monthHoursMax, last + monthHoursMax
}
