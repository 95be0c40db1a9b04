package promql

import (
	"bytes"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index"
)

// rowPrefix is the part before the hour of a series' row keys, as one generation of the schema makes them.
type rowPrefix struct {
	prefix           []byte
	series           int // its position in the batch
	fromHour, toHour int64
	lead             int                   // see condition.leadOf
	rule             *keyschema.Generation // in force, in the hours of the months that were asked for
}

// dayRead is one read of the data table: row ranges within one day, sorted and apart from each other.
type dayRead struct {
	day    int64
	ranges []storage.RowRange
	owners []rowPrefix // of each range
	// merged, if not nil, are ranges that hold all of these and nothing else in the hours from fromHour to toHour.
	merged           []storage.RowRange
	fromHour, toHour int64
}

// labelMetric is the label that holds the metric.
const labelMetric = "__name__"

// rangesSplitMin is the number of ranges from which a day's read is worth splitting among workers.
const rangesSplitMin = 256

// makePrefixes lists the row prefixes of the series that have hours, sorted by key, so that the ranges of any day taken
// from them in turn are sorted too.
func (rd *batchReader) makePrefixes(hoursOf func(series int) []index.HourSpan) []rowPrefix {
	var (
		out         = make([]rowPrefix, 0, len(rd.series))
		arena       []byte
		builder     = labels.NewScratchBuilder(16)
		tags        []keyschema.Tag
		generations = map[string][]keyschema.Generation{}
		first, last = wholeMonths(keyschema.HourOf(rd.window.mintMs), keyschema.HourOf(rd.window.maxtMs))
	)
	for i, s := range rd.series {
		hours := hoursOf(i)
		if len(hours) == 0 {
			continue
		}
		var metric string
		metric, tags = split(s.AllLabels(&builder), tags[:0])
		gens, ok := generations[metric]
		if !ok {
			gens = rd.opts.Schema.Generations(metric, first, last)
			generations[metric] = gens
		}
		for n := range gens {
			g := &gens[n]
			from, to := max(g.FromHour, hours[0].First), min(g.ToHour, hours[len(hours)-1].Last)
			if from > to {
				continue
			}
			start := len(arena)
			arena = g.Rule.AppendPrefix(arena, metric, tags)
			prefix := arena[start:len(arena):len(arena)]
			lead := rd.condition.leadOf(g.Rule, prefix, tags)
			out = append(out, rowPrefix{prefix: prefix, series: i, fromHour: from, toHour: to, lead: lead, rule: g})
		}
	}
	slices.SortFunc(out, func(a, b rowPrefix) int { return bytes.Compare(a.prefix, b.prefix) })
	return out
}

// wholeMonths widens a span of hours so that it has all months that it meets.
func wholeMonths(first, last int64) (int64, int64) {
	const monthHoursMax = 31 * keyschema.DayHours
	return first - monthHoursMax, last + monthHoursMax
}

// split takes labels apart into metric and tags.
func split(ls labels.Labels, tags []keyschema.Tag) (string, []keyschema.Tag) {
	var metric string
	ls.Range(func(l labels.Label) {
		if l.Name == labelMetric {
			metric = l.Value
			return
		}
		tags = append(tags, keyschema.Tag{Name: l.Name, Value: l.Value})
	})
	return metric, tags
}

// plan lists the reads of the piece: one a day, or several when a day has many ranges.
func (p *piece) plan() []dayRead {
	prefixes := p.prefixes
	switch {
	case prefixes != nil:
	case p.wanted != nil:
		prefixes = p.makePrefixes(p.wantedOf)
	default:
		prefixes = p.makePrefixes(func(i int) []index.HourSpan { return p.series[i].Hours })
		p.prefixes = prefixes
	}
	firstDay, lastDay := int64(math.MaxInt64), int64(math.MinInt64)
	for _, r := range prefixes {
		if hours := p.wantedOf(r.series); len(hours) > 0 {
			firstDay = min(firstDay, max(r.fromHour, hours[0].First)/keyschema.DayHours)
			lastDay = max(lastDay, min(r.toHour, hours[len(hours)-1].Last)/keyschema.DayHours)
		}
	}
	var reads []dayRead
	for day := firstDay; day <= lastDay; day++ {
		dayFrom, dayTo := day*keyschema.DayHours, (day+1)*keyschema.DayHours-1
		read := dayRead{day: day, fromHour: dayFrom, toHour: dayTo}
		for _, r := range prefixes {
			from, to := max(r.fromHour, dayFrom), min(r.toHour, dayTo)
			if p.needed != nil {
				read.addEach(r, p.wantedOf(r.series), from, to)
			} else if from, to, ok := hull(p.wantedOf(r.series), from, to); ok {
				read.add(r, from, to)
			}
		}
		reads = read.appendSplit(reads, p.opts.Concurrency)
	}
	return reads
}

// add adds the row range of a prefix for some hours.
func (d *dayRead) add(p rowPrefix, from, to int64) {
	start, end := keyschema.SeriesRange(p.prefix, from, to)
	d.ranges = append(d.ranges, storage.RowRange{Start: start, End: end})
	d.owners = append(d.owners, p)
}

// addEach adds a row range for each of the spans within [from, to]. The latest comes first: hours are reversed in keys.
func (d *dayRead) addEach(p rowPrefix, spans []index.HourSpan, from, to int64) {
	for _, span := range slices.Backward(spans) {
		if span.Last < from {
			return
		}
		if span.First <= to {
			d.add(p, max(span.First, from), min(span.Last, to))
		}
	}
}

// appendSplit appends the read to reads, in up to parts pieces; a read without ranges is left out.
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

// hull is the smallest span that holds all hours of spans within [from, to]; not ok when there are none.
func hull(spans []index.HourSpan, from, to int64) (first, last int64, ok bool) {
	for at := searchSpan(spans, from); at < len(spans) && spans[at].First <= to; at++ {
		if !ok {
			first, ok = max(spans[at].First, from), true
		}
		last = min(spans[at].Last, to)
	}
	return first, last, ok && from <= to
}

// searchSpan is the number of spans that end before an hour.
func searchSpan(spans []index.HourSpan, hour int64) int {
	at, _ := slices.BinarySearchFunc(spans, hour, func(s index.HourSpan, hour int64) int {
		if s.Last < hour {
			return -1
		}
		return 1
	})
	return at
}
