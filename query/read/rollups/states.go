package rollups

import (
	"bytes"
	"cmp"
	"context"
	"math/bits"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"halite/keyschema"
	"halite/query/hours"
	"halite/query/read"
	"halite/rollup"
	rollupstore "halite/rollup/store"
	"halite/storage/index"
	"halite/storage/index/presence"
)

const (
	// daysRead is the number of days whose hours are read together.
	daysRead = 32
	// prefixesMin is the number of prefixes from which a read of states is split among workers.
	prefixesMin = 32
)

// stateReader reads the states of a batch. The head must have been read before.
type stateReader struct {
	batch    *read.BatchReader
	session  *Session
	plan     *Plan
	cached   *cachedStates // nil if states are not cached
	prefixes []read.RowPrefix
	keys     [][]byte // each prefix once
	ends     []int    // end of each key's prefixes
	workers  int

	series    []seriesStates
	slab      *[]Span // memory of all spans
	firstHour int64
	// open marks the days for which a series lacks hourly states.
	open []atomic.Bool

	days, hours atomic.Int64
	retired     atomic.Int32
}

// seriesStates holds the states of a series.
type seriesStates struct {
	spans []Span
	done  bitset // hours that states cover, from the first hour of the plan on
	// lacksHours and lacksDays are the days of the plan whose hourly or daily states are not read yet.
	lacksHours, lacksDays bitset
	// rawMs, hoursMs and daysMs are the times before which samples and states are retired.
	rawMs, hoursMs, daysMs int64
	head                   []int64 // hours with samples in the head
	// others are the hours of other parts of the series. No span may extend over them, because spans are joined in the order of
	// time.
	others []index.HourSpan
	// aliasFrom and aliasTo are the first and the last hour in which the stored series has the labels of this one.
	aliasFrom, aliasTo int64
}

// newStateReader returns a reader with memory for room spans of each series.
func newStateReader(s *Session, rd *read.BatchReader, p *Plan, cached *cachedStates, room int) *stateReader {
	r := &stateReader{
		batch: rd, session: s, plan: p, cached: cached, series: make([]seriesStates, len(rd.Series())),
		firstHour: p.firstDay * keyschema.DayHours, open: make([]atomic.Bool, len(p.days)),
	}
	hourWords, dayWords := bitsetWords(len(p.days)*keyschema.DayHours), bitsetWords(len(p.days))
	words := make(bitset, (hourWords+2*dayWords)*len(r.series))
	r.slab, _ = s.reader.spans.Get().(*[]Span)
	if r.slab == nil || len(*r.slab) < room*len(r.series) {
		made := make([]Span, room*len(r.series))
		r.slab = &made
	}
	metric, ages := "", keyschema.RetentionByTier{}
	for i := range r.series {
		one := &r.series[i]
		one.done, words = words[:hourWords], words[hourWords:]
		one.lacksHours, one.lacksDays, words = words[:dayWords], words[dayWords:2*dayWords], words[2*dayWords:]
		one.spans = (*r.slab)[room*i : room*i : room*(i+1)]
		one.head = r.headHours(i)
		if m := rd.Series()[i].Metric(); i == 0 || m != metric {
			metric, ages = m, s.ages.ForMetric(m)
		}
		one.rawMs, one.hoursMs = ages[keyschema.Raw].CutoffMs(p.nowMs), ages[keyschema.Hours].CutoffMs(p.nowMs)
		one.daysMs = ages[keyschema.Days].CutoffMs(p.nowMs)
		one.aliasTo = keyschema.HourMax
		if a := rd.Series()[i].Alias; a != nil {
			one.aliasFrom, one.aliasTo = a.FirstHour, a.LastHour
		}
		if owners := rd.Owners(); owners != nil {
			one.others = othersOf(rd.Series(), owners, i)
			one.addShared(hours.Intersect(rd.Series()[i].Hours, one.others), keyschema.HourOf(one.rawMs))
		}
	}
	return r
}

// headHours lists the hours with samples in the head.
func (r *stateReader) headHours(i int) []int64 {
	var out []int64
	for _, ts := range r.batch.HeadTimes(i) {
		if hour := keyschema.HourOf(ts); len(out) == 0 || out[len(out)-1] != hour {
			out = append(out, hour)
		}
	}
	return out
}

// othersOf returns the hours in which other parts of the same series have samples.
func othersOf(series []index.Series, owners []int, i int) (out []index.HourSpan) {
	for k := i - 1; k >= 0 && owners[k] == owners[i]; k-- {
		out = append(out, series[k].Hours...)
	}
	for k := i + 1; k < len(owners) && owners[k] == owners[i]; k++ {
		out = append(out, series[k].Hours...)
	}
	return presence.Normalize(out)
}

// addShared excludes hours that several parts have from states, because states cannot show samples with equal times. Hours
// in the head are excluded in the same way. The rows of hours before first have expired, so the states of all parts count
// there.
func (s *seriesStates) addShared(shared []index.HourSpan, first int64) {
	for _, span := range shared {
		for hour := max(span.First, first); hour <= span.Last; hour++ {
			s.head = append(s.head, hour)
		}
	}
	slices.Sort(s.head)
	s.head = slices.Compact(s.head)
}

// read uses the cached states and reads the missing ones. It reads daily states first, then hourly states where daily ones are
// not planned or do not fit.
func (r *stateReader) read(ctx context.Context) error {
	var lacking bool
	if r.cached != nil {
		lacking = r.useCached()
	} else {
		lacking = r.lackAll()
	}
	if !lacking {
		return nil
	}
	r.prefixes = r.batch.RowPrefixes(func(i int) []index.HourSpan {
		if s := &r.series[i]; !s.lacksHours.any() && !s.lacksDays.any() {
			return nil
		}
		return r.batch.Series()[i].Hours
	})
	r.groupPrefixes()
	if err := r.readDays(ctx); err != nil {
		return err
	}
	for i := 0; i < len(r.plan.days); i++ {
		if !r.open[i].Load() {
			continue
		}
		from := i
		for i+1 < len(r.plan.days) && i+1-from < daysRead && r.open[i+1].Load() {
			i++
		}
		err := r.readUnit(ctx, rollupstore.Hours, (r.plan.firstDay+int64(from))*keyschema.DayHours,
			(r.plan.firstDay+int64(i)+1)*keyschema.DayHours-1, r.useHours)
		if err != nil {
			return err
		}
	}
	return nil
}

// readDays reads the daily states of whole months, so that the cache can store them.
func (r *stateReader) readDays(ctx context.Context) error {
	first, last := int64(-1), int64(-1)
	for i := range r.plan.days {
		for k := range r.series {
			if r.series[k].lacksDays.has(int64(i)) {
				if first < 0 {
					first = int64(i)
				}
				last = int64(i)
				break
			}
		}
	}
	if first < 0 {
		return nil
	}
	from := rollupstore.MonthStart(r.plan.months[first])
	return r.readUnit(ctx, rollupstore.Days, from, rollupstore.MonthStart(r.plan.months[last]+1)-1, r.useDays)
}

// lackAll marks all planned states of all series as missing. It returns false if there are none.
func (r *stateReader) lackAll() (lacking bool) {
	for k := range r.series {
		first, last := r.daysOf(k)
		for n := first; n <= last; n++ {
			switch how := r.plan.days[n]; {
			case how >= dayWhole:
				r.series[k].lacksDays.set(n, 1)
				lacking = true
			case how >= dayHours:
				r.lackHours(k, n)
				lacking = true
			}
		}
	}
	return lacking
}

// daysOf returns the first and the last day of the plan for which a series can have states.
func (r *stateReader) daysOf(series int) (first, last int64) {
	hours := r.batch.Series()[series].Hours
	if len(hours) == 0 {
		return 0, -1
	}
	first = max(0, hours[0].First/keyschema.DayHours-r.plan.firstDay)
	return first, min(int64(len(r.plan.days))-1, hours[len(hours)-1].Last/keyschema.DayHours-r.plan.firstDay)
}

// lackHours records that a series lacks the hourly states of a day of the plan.
func (r *stateReader) lackHours(series int, n int64) {
	r.series[series].lacksHours.set(n, 1)
	r.open[n].Store(true)
}

// groupPrefixes lists each prefix once. Workers may read concurrently only if no two of them read the same series.
func (r *stateReader) groupPrefixes() {
	seen := make([]bool, len(r.series))
	r.workers = r.session.read.Concurrency(r.session.reader.opts.Concurrency)
	for i := range r.prefixes {
		p := &r.prefixes[i]
		if seen[p.Series] {
			r.workers = 1
		}
		seen[p.Series] = true
		if i > 0 && bytes.Equal(p.Prefix, r.prefixes[i-1].Prefix) {
			r.ends[len(r.ends)-1] = i + 1
			continue
		}
		r.keys, r.ends = append(r.keys, p.Prefix), append(r.ends, i+1)
	}
}

// readUnit reads the states of a range of buckets and calls use with the states of each prefix. It may overwrite scratch.
func (r *stateReader) readUnit(
	ctx context.Context, unit rollupstore.Unit, from, to int64, use func(p *read.RowPrefix, c, scratch *rollup.Columns),
) error {
	part := max(prefixesMin, (len(r.keys)+r.workers-1)/r.workers)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(r.workers)
	for at := 0; at < len(r.keys); at += part {
		group.Go(func() error {
			req := rollupstore.Request{
				Prefixes: r.keys[at:min(at+part, len(r.keys))], Unit: unit, From: from, To: to, Fields: r.plan.Fields,
				Deletions: r.batch.Deletions(),
			}
			scratch := new(rollup.Columns)
			return r.session.reader.opts.Store.Read(ctx, req, func(i int, c *rollup.Columns) error {
				first := 0
				if at+i > 0 {
					first = r.ends[at+i-1]
				}
				for n := first; n < r.ends[at+i]; n++ {
					use(&r.prefixes[n], c, scratch)
				}
				return nil
			})
		})
	}
	return group.Wait()
}

// useDays uses the daily states of a series.
func (r *stateReader) useDays(p *read.RowPrefix, c, _ *rollup.Columns) {
	w := r.writer(p.Series, c)
	for i := range c.Known {
		day := c.FromMs/dayMs + int64(i)
		n := day - r.plan.firstDay
		if n < 0 || n >= int64(len(r.plan.days)) || !w.s.lacksDays.has(n) || !meets(p, day) {
			w.open = false
			continue
		}
		if !covers(p, day) || !w.day(day, i, r.only(w.s, day)) {
			r.lackHours(p.Series, n)
			w.open = false
		}
	}
	r.days.Add(w.used)
	if r.cached != nil {
		r.cached.putMonths(r, p, c)
	}
}

// only reports whether the daily state is the finest data left for a day.
func (r *stateReader) only(s *seriesStates, day int64) bool {
	return r.plan.planOf(day) == dayOnly || (day+1)*dayMs-1 < s.hoursMs && day*dayMs < s.rawMs
}

// useHours uses the hourly states of a series for hours that daily states do not cover.
func (r *stateReader) useHours(p *read.RowPrefix, c, joined *rollup.Columns) {
	w := r.writer(p.Series, c)
	firstDay := c.FromMs / dayMs
	for i := 0; i < c.Len(); i += keyschema.DayHours {
		day := firstDay + int64(i/keyschema.DayHours)
		n := day - r.plan.firstDay
		if !w.s.lacksHours.has(n) || !meets(p, day) {
			w.open = false
			continue
		}
		covers := covers(p, day)
		if covers && r.plan.days[n] == dayJoined && !slices.Contains(c.Known[i:i+keyschema.DayHours], false) {
			joined.Reset(day*dayMs, dayMs, 1, c.Fields)
			joined.Set(0, c.Join(i, i+keyschema.DayHours))
			if r.cached != nil {
				r.cached.put(r, p.Series, kindJoined, day, joined, 0, 1)
			}
			w.c = joined
			used := w.day(day, 0, false)
			w.c = c
			if used {
				continue
			}
		}
		if covers && r.cached != nil {
			r.cached.put(r, p.Series, kindHours, day, c, i, keyschema.DayHours)
		}
		w.hours(day*keyschema.DayHours, i, max(p.FromHour, day*keyschema.DayHours), p.ToHour)
	}
	r.hours.Add(w.used)
}

// meets reports whether a prefix has needed hours of a day.
func meets(p *read.RowPrefix, day int64) bool {
	return p.ToHour >= day*keyschema.DayHours && p.FromHour < (day+1)*keyschema.DayHours
}

// covers reports whether a prefix covers all hours of a day.
func covers(p *read.RowPrefix, day int64) bool {
	return p.Generation.FromHour <= day*keyschema.DayHours && p.Generation.ToHour >= (day+1)*keyschema.DayHours-1
}

// openHours returns the series with the hours that states do not cover and that are not retired. It marks series with very
// many such hours as incomplete and omits their hours.
func (r *stateReader) openHours(incomplete []bool) []index.Series {
	out := slices.Clone(r.batch.Series())
	var arena []index.HourSpan
	for i := range out {
		oldest := max(r.firstHour, keyschema.HourOf(max(0, r.series[i].rawMs)))
		start, rows := len(arena), 0
		for _, span := range out[i].Hours {
			for hour := max(span.First, oldest); hour <= span.Last; hour++ {
				n := hour - r.firstHour
				if done := r.series[i].done[n/64] >> (n % 64); done&1 != 0 {
					hour += int64(bits.TrailingZeros64(^done)) - 1
					continue
				}
				rows++
				if k := len(arena); k > start && arena[k-1].Last == hour-1 {
					arena[k-1].Last = hour
					continue
				}
				arena = append(arena, index.HourSpan{First: hour, Last: hour})
			}
		}
		if rows > rowsMax {
			arena, incomplete[i] = arena[:start], true
		}
		out[i].Hours = arena[start:len(arena):len(arena)]
	}
	return out
}

// spans returns the spans of each series and reserves their memory in the budget.
func (r *stateReader) spans() (all [][]Span, reserved int64, err error) {
	all = make([][]Span, len(r.series))
	for i := range r.series {
		s := &r.series[i]
		if !slices.IsSortedFunc(s.spans, bySpanTime) {
			slices.SortFunc(s.spans, bySpanTime)
		}
		all[i] = s.spans
		reserved += int64(cap(s.spans)) * spanBytes
	}
	return all, reserved, r.session.read.Budget().Reserve(reserved)
}

func bySpanTime(a, b Span) int { return cmp.Compare(a.FirstMs, b.FirstMs) }
