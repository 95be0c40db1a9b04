package read

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/query/column"
	"halite/query/hours"
	"halite/storage"
	"halite/storage/index"
)

// dayRead is one read of the data table: row ranges within one day, sorted and disjoint.
type dayRead struct {
	day    int64
	ranges []storage.RowRange
	owners []RowPrefix // of each range
	// merged, if not nil, are ranges that cover exactly these ranges in the hours from fromHour to toHour.
	merged           []storage.RowRange
	fromHour, toHour int64
}

// rangesSplitMin is the number of ranges above which a day's read is split among workers.
const rangesSplitMin = 256

// planReads lists the reads of days: one for each day, or up to concurrency reads for a day with many ranges. If apart is
// set, each span of hours gets its own range. Otherwise one range covers all hours of a day.
func planReads(prefixes []RowPrefix, hoursOf func(series int) []index.HourSpan, apart bool, concurrency int) []dayRead {
	firstDay, lastDay := int64(math.MaxInt64), int64(math.MinInt64)
	for _, r := range prefixes {
		if spans := hoursOf(r.Series); len(spans) > 0 {
			firstDay = min(firstDay, max(r.FromHour, spans[0].First)/keyschema.DayHours)
			lastDay = max(lastDay, min(r.ToHour, spans[len(spans)-1].Last)/keyschema.DayHours)
		}
	}
	var reads []dayRead
	for day := firstDay; day <= lastDay; day++ {
		dayFrom, dayTo := day*keyschema.DayHours, (day+1)*keyschema.DayHours-1
		read := dayRead{day: day, fromHour: dayFrom, toHour: dayTo}
		for _, r := range prefixes {
			from, to := max(r.FromHour, dayFrom), min(r.ToHour, dayTo)
			if apart {
				read.addEach(r, hoursOf(r.Series), from, to)
			} else if from, to, ok := hours.Bounds(hoursOf(r.Series), from, to); ok {
				read.add(r, from, to)
			}
		}
		reads = read.appendSplit(reads, concurrency)
	}
	return reads
}

// add adds the row range of a prefix for some hours.
func (d *dayRead) add(p RowPrefix, from, to int64) {
	start, end := keyschema.SeriesRange(p.Prefix, from, to)
	d.ranges = append(d.ranges, storage.RowRange{Start: start, End: end})
	d.owners = append(d.owners, p)
}

// addEach adds a row range for each of the spans within [from, to]. The latest comes first: hours are reversed in keys.
func (d *dayRead) addEach(p RowPrefix, spans []index.HourSpan, from, to int64) {
	for _, span := range slices.Backward(spans) {
		if span.Last < from {
			return
		}
		if span.First <= to {
			d.add(p, max(span.First, from), min(span.Last, to))
		}
	}
}

// appendSplit appends the read to reads, in up to parts pieces. A read without ranges is omitted.
func (d dayRead) appendSplit(reads []dayRead, parts int) []dayRead {
	n := len(d.ranges)
	size := max(rangesSplitMin, (n+parts-1)/parts)
	for from := 0; from < n; from += size {
		to := min(from+size, n)
		part := d
		part.ranges, part.owners = d.ranges[from:to], d.owners[from:to]
		reads = append(reads, part)
	}
	return reads
}

// requested returns the ranges to read.
func (d *dayRead) requested() []storage.RowRange {
	if d.merged != nil {
		return d.merged
	}
	return d.ranges
}

// coalescer joins row ranges of neighbouring series.
type coalescer struct {
	opts               *Options
	neighbours         *neighbours
	series             []index.Series
	window             column.TimeRange
	hoursOf, missingOf func(series int) []index.HourSpan
	cached             bool // some rows were found in the row cache
	// values lists the encoded tags that follow the same leading tags in row keys, sorted; nil if there are too many.
	values map[string][]string
}

// coalesce joins the row ranges of neighbouring series if every row between them is also selected. The read also returns
// rows that are written between them later, which is harmless.
func (c *coalescer) coalesce(ctx context.Context, r *dayRead) error {
	if !slices.ContainsFunc(r.owners, func(o RowPrefix) bool { return o.lead > 0 }) {
		return nil
	}
	from, to, ok := c.commonHours(r.fromHour, r.toHour)
	if !ok {
		return nil
	}
	merged := make([]storage.RowRange, 0, len(r.ranges))
	for k := range r.ranges {
		if k > 0 {
			ok, err := c.adjoin(ctx, r.owners, k)
			if err != nil {
				return err
			}
			if ok {
				merged[len(merged)-1].End = r.ranges[k].End
				continue
			}
		}
		merged = append(merged, r.ranges[k])
	}
	if len(merged) < len(r.ranges) {
		r.merged, r.fromHour, r.toHour = merged, from, to
	}
	return nil
}

// commonHours returns the hours within [first, last] in which the rows of all series are needed. It returns false if rows between
// them were found in the cache.
func (c *coalescer) commonHours(first, last int64) (from, to int64, ok bool) {
	from, to = last+1, first-1
	for i := range c.series {
		if a, b, some := hours.Bounds(c.missingOf(i), first, last); some {
			from, to = min(from, a), max(to, b)
		}
	}
	for i := range c.series {
		if c.cached && hours.CountWithin(c.hoursOf(i), from, to) != hours.CountWithin(c.missingOf(i), from, to) {
			return 0, 0, false
		}
	}
	return from, to, from <= to
}

// adjoin reports whether only selected series lie between owner k and its predecessor.
func (c *coalescer) adjoin(ctx context.Context, owners []RowPrefix, k int) (bool, error) {
	a, b := owners[k-1], owners[k]
	if a.lead == 0 || b.lead == 0 {
		return false, nil
	}
	before, lead := a.Prefix[:a.lead], b.Prefix[:b.lead]
	if bytes.Equal(before, lead) {
		return true, nil
	}
	if c.neighbours.divided {
		return false, nil
	}
	// They differ in promoted tags. If they differ only in the last one, all its values between the two must be selected.
	stem := bytes.LastIndexAny(lead, ",#") + 1
	if !bytes.HasPrefix(before, lead[:stem]) || bytes.ContainsAny(before[stem:], ",#") {
		return false, nil
	}
	values, known := c.values[string(lead[:stem])]
	if !known {
		var err error
		if values, err = c.occurring(ctx, owners, k, lead[:stem]); err != nil {
			return false, err
		}
		c.values[string(lead[:stem])] = values
	}
	at, found := slices.BinarySearch(values, string(before[stem:]))
	return found && at+1 < len(values) && values[at+1] == string(lead[stem:]), nil
}

// occurring lists the values of the last tag of a lead in all series with the same leading tags, selected or not. It returns nil
// if there are many more values than selected ones, or if their order differs from the order of row keys.
func (c *coalescer) occurring(ctx context.Context, owners []RowPrefix, k int, stem []byte) ([]string, error) {
	builder := labels.NewScratchBuilder(16)
	ls := c.series[owners[k].Series].AllLabels(&builder)
	rule := c.opts.Schema.RuleAt(c.series[owners[k].Series].Metric(), owners[k].FromHour)
	depth := c.neighbours.depth(rule)
	name := rule.Promoted[depth-1]
	if slices.Contains(c.neighbours.equal, name) {
		return nil, nil
	}
	matchers := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, labelMetric, ls.Get(labelMetric))}
	for _, before := range rule.Promoted[:depth-1] {
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, before, ls.Get(before)))
	}
	selected := 0
	for i := k - 1; i < len(owners) && bytes.HasPrefix(owners[i].Prefix, stem); i++ {
		selected++
	}
	limit := 4*selected + occurringSlack
	list, err := c.opts.Index.LabelValues(ctx, name, c.window.MinMs, c.window.MaxMs, limit, matchers...)
	if err != nil {
		return nil, Classify("look up promoted tags", err)
	}
	if len(list) == limit {
		return nil, nil
	}
	out := make([]string, len(list))
	for i, value := range list {
		out[i] = string(rule.AppendTag(nil, &keyschema.Tag{Name: name, Value: value}))
	}
	slices.SortFunc(out, strings.Compare)
	return out, nil
}

// occurringSlack is the number of values to list beyond four times the selected values.
const occurringSlack = 64
