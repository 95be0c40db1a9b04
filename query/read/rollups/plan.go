package rollups

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/query/column"
	"halite/query/hours"
	"halite/query/read"
	"halite/rollup"
	rollupstore "halite/rollup/store"
	"halite/storage/index"
)

const dayMs = keyschema.DayMs

// Costs for one series in nanoseconds of CPU time. In this order: a row of 60 to 240 samples, the hourly states of a day,
// their join to one state, the daily states of a month. BenchmarkTierCosts in package query measured 0.2 to 0.9, 0.4, 0.15
// and 0.5 µs from the cache, and 2 to 3.5, 2.4, 2.4 and 2.6 µs from the table. The plan cannot know what is cached, so the
// costs are geometric means.
const (
	rowCost       = 1000
	hoursDayCost  = 1000
	joinedDayCost = 600
	monthCost     = 1100
)

// RangeMinMs is the shortest window that uses states. For shorter windows rows are as cheap.
const RangeMinMs = 3 * keyschema.HourMs

// Plan decides which times of windows are answered from states, and which from rows. It belongs to one query.
type Plan struct {
	read.Windows
	// Fields are the fields of states to read.
	Fields rollup.Fields
	// Use says whether to read states. Reason explains the decision.
	Use    bool
	Reason string
	// RetiredBeforeMs is the time before which samples are retired and only states are left; 0 if no samples are retired.
	RetiredBeforeMs int64

	// Bounds divide time into intervals. A window contains an interval as a whole or not at all. Interval a is Bounds[a−1] < time
	// ≤ Bounds[a].
	Bounds []int64
	// Lo[k] ≤ interval < Hi[k] is the window of step k.
	Lo, Hi []int

	always   bool
	nowMs    int64
	used     []bool           // intervals that lie in a window
	clip     column.TimeRange // range of times that can have samples or states
	hours    []index.HourSpan
	firstDay int64
	days     []dayPlan // from firstDay on
	months   []int64   // of these days
	rows     int       // rows to read for a series with all states
	// hourDays, joinedDays and wholeMonths count the days and months that are answered from states.
	hourDays, joinedDays, wholeMonths int
}

// dayPlan is the way to read a day. Missing states are read in the next finer way.
type dayPlan uint8

const (
	dayUnused dayPlan = iota
	dayRows
	dayHours
	dayJoined // its hours, joined to a state of the day
	dayWhole
	dayOnly // like dayWhole, but nothing finer exists
)

// Plan plans how to read windows. It returns nil if the windows are too short and no samples are retired. If always is set,
// the plan uses all states that exist, at any cost.
func (s *Session) Plan(
	ctx context.Context, w read.Windows, fields rollup.Fields, always bool, matchers ...*labels.Matcher,
) *Plan {
	o := &s.reader.opts
	p := &Plan{Windows: w, Fields: fields, always: always, nowMs: o.Now().UnixMilli()}
	ages := s.ages.Longest()
	ages[keyschema.Raw] = s.ages.Shortest()[keyschema.Raw]
	for _, m := range matchers {
		if m.Name == labelMetric && m.Type == labels.MatchEqual {
			ages = s.agesOf(s.read.Stored(ctx, m.Value))
		}
	}
	if !p.prepare(ages) {
		return nil
	}
	p.divide()
	p.planDays(o.Store, ages[keyschema.Hours].CutoffMs(p.nowMs))
	return p
}

// agesOf returns the retention of a metric for some tenants: the shortest for raw samples, the longest for each other tier.
func (s *Session) agesOf(metrics []string) keyschema.RetentionByTier {
	ages := s.ages.ForMetric(metrics[0])
	for _, metric := range metrics[1:] {
		for t, age := range s.ages.ForMetric(metric) {
			if longer := age.Outlives(ages[t]); longer != (keyschema.Tier(t) == keyschema.Raw) && age != ages[t] {
				ages[t] = age
			}
		}
	}
	return ages
}

// prepare restricts the plan to the retention. It reports whether states may be cheaper than rows.
func (p *Plan) prepare(ages keyschema.RetentionByTier) bool {
	p.RetiredBeforeMs = ages[keyschema.Raw].CutoffMs(p.nowMs)
	bounds := p.Windows.Bounds()
	p.clip = column.TimeRange{
		MinMs: max(bounds.MinMs, ages[keyschema.Days].CutoffMs(p.nowMs), 0),
		MaxMs: min(bounds.MaxMs, keyschema.TimeMaxMs),
	}
	if p.clip.Empty() || !p.always && p.RangeMs < RangeMinMs && p.clip.MinMs >= p.RetiredBeforeMs {
		return false
	}
	p.hours = p.Hours(p.clip)
	return len(p.hours) > 0
}

// divide computes the intervals.
func (p *Plan) divide() {
	w := p.Windows
	p.Bounds = make([]int64, 0, 2*w.Steps)
	for k := range w.Steps {
		end := w.FirstEndMs + int64(k)*w.StepMs
		p.Bounds = append(p.Bounds, end-w.RangeMs, end)
	}
	slices.Sort(p.Bounds)
	p.Bounds = slices.Compact(p.Bounds)
	p.used = make([]bool, len(p.Bounds)+1)
	p.Lo, p.Hi = make([]int, w.Steps), make([]int, w.Steps)
	lo, hi, known := 0, 0, 0
	for k := range w.Steps {
		end := w.FirstEndMs + int64(k)*w.StepMs
		lo, hi = p.Interval(end-w.RangeMs, lo)+1, p.Interval(end, hi)+1
		p.Lo[k], p.Hi[k] = lo, hi
		for known = max(known, lo); known < hi; known++ {
			p.used[known] = true
		}
		lo, hi = lo-1, hi-1
	}
}

// Interval returns the interval of a time. The search begins at interval from, because callers pass ascending times.
func (p *Plan) Interval(tsMs int64, from int) int {
	if at := from + 1; at >= len(p.Bounds) || p.Bounds[at] >= tsMs { // the usual case
		for from < len(p.Bounds) && p.Bounds[from] < tsMs {
			from++
		}
		return from
	}
	at, _ := slices.BinarySearch(p.Bounds[from:], tsMs)
	return from + at
}

// Retired reports whether samples of the windows may be retired.
func (p *Plan) Retired() bool { return p.clip.MinMs < p.RetiredBeforeMs }

// Used reports whether an interval lies in a window.
func (p *Plan) Used(interval int) bool { return p.used[interval] }

// planDays decides how to read each day.
func (p *Plan) planDays(t Store, hoursFromMs int64) {
	all := 0
	splitHours, splitDays := p.splitBuckets(keyschema.HourMs), p.splitBuckets(dayMs)
	firstHour, lastHour := p.hours[0].First, p.hours[len(p.hours)-1].Last
	p.firstDay = firstHour / keyschema.DayHours
	p.days = make([]dayPlan, lastHour/keyschema.DayHours-p.firstDay+1)
	p.months = make([]int64, len(p.days))
	month := int64(-1)
	for i := range p.days {
		day := p.firstDay + int64(i)
		p.months[i] = rollupstore.MonthOfDay(day)
		hours, split := p.hoursOfDay(day), splitHours.within(day*keyschema.DayHours, (day+1)*keyschema.DayHours)
		all += hours
		if hours == 0 {
			continue
		}
		retired := day*dayMs < p.RetiredBeforeMs
		fresh := hoursFromMs <= (day+1)*dayMs-1 // hourly states are still kept
		hasHours := fresh && t.Has(rollupstore.Hours, day)
		only := retired && !hasHours
		whole := only || hours == keyschema.DayHours && splitDays.within(day, day+1) == 0
		switch {
		case whole && t.Has(rollupstore.Days, day):
			if p.days[i] = dayWhole; only {
				p.days[i] = dayOnly
			}
			if p.months[i] != month {
				month = p.months[i]
				p.wholeMonths++
			}
		case hasHours && whole:
			p.days[i] = dayJoined
			p.joinedDays++
		case hasHours && (retired || p.always || (hours-split)*rowCost > hoursDayCost):
			p.days[i] = dayHours
			p.hourDays++
			p.rows += split
		default:
			p.days[i] = dayRows
			p.rows += hours
		}
	}
	p.decide(all)
}

// decide compares the costs.
func (p *Plan) decide(all int) {
	raw := all * rowCost
	tier := p.rows*rowCost + p.hourDays*hoursDayCost + p.joinedDays*joinedDayCost + p.wholeMonths*monthCost
	cost := fmt.Sprintf("%s a series from %d rows, %s from states of %d months and %d days and from %d rows",
		time.Duration(raw), all, time.Duration(tier), p.wholeMonths, p.joinedDays+p.hourDays, p.rows)
	switch {
	case p.clip.MinMs < p.RetiredBeforeMs:
		p.Use, p.Reason = true, "raw samples are retired; "+cost
	case p.always && p.hourDays+p.joinedDays+p.wholeMonths > 0:
		p.Use, p.Reason = true, "requested; "+cost
	case tier*10 < raw*9:
		p.Use, p.Reason = true, "cheaper: "+cost
	default:
		p.Reason = "states are not cheaper: " + cost
	}
}

// splitBuckets lists the hours or days that have a bound between their first and last millisecond, ascending.
func (p *Plan) splitBuckets(bucketMs int64) bucketList {
	var out bucketList
	for _, b := range p.Bounds {
		if b < p.clip.MinMs || b >= p.clip.MaxMs {
			continue
		}
		bucket := b / bucketMs
		if start := bucket * bucketMs; b == start || b == start+bucketMs-1 {
			continue
		}
		if n := len(out); n == 0 || out[n-1] != bucket {
			out = append(out, bucket)
		}
	}
	return out
}

// bucketList is a list of hours or days, ascending.
type bucketList []int64

// within counts the buckets in [first, end).
func (l bucketList) within(first, end int64) int {
	from, _ := slices.BinarySearch(l, first)
	to, _ := slices.BinarySearch(l[from:], end)
	return to
}

// hoursOfDay counts the hours of a day that overlap a window.
func (p *Plan) hoursOfDay(day int64) int {
	first, last := day*keyschema.DayHours, (day+1)*keyschema.DayHours-1
	n := 0
	for at := hours.Search(p.hours, first); at < len(p.hours) && p.hours[at].First <= last; at++ {
		n += int(min(last, p.hours[at].Last) - max(first, p.hours[at].First) + 1)
	}
	return n
}

// planOf returns how to read a day.
func (p *Plan) planOf(day int64) dayPlan {
	if i := day - p.firstDay; i >= 0 && i < int64(len(p.days)) {
		return p.days[i]
	}
	return dayUnused
}
