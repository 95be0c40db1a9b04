package read

import (
	"math"
	"slices"

	"halite/keyschema"
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

// rangesSplitMin is the number of ranges from which a day's read is split among workers.
const rangesSplitMin = 256

// planReads lists the reads of days: one for each day, or up to concurrency reads for a day with many ranges. With apart, each
// span of hours gets its own range. Otherwise one range covers all hours of a day.
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
			} else if from, to, ok := hours.Hull(hoursOf(r.Series), from, to); ok {
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
