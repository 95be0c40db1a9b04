package promql

import (
	"bytes"
	"cmp"
	"context"
	"math/bits"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/tiers"
	"halite/storage/index"
)

const (
	// tierDaysRead is the number of days whose hours are read together.
	tierDaysRead = 32
	// tierPrefixesMin is the number of prefixes from which a read of states is split among workers.
	tierPrefixesMin = 32
)

// stateReader reads the states of a batch. The head was read before.
type stateReader struct {
	*batchReader
	plan     *TierPlan
	prefixes []rowPrefix
	keys     [][]byte // each prefix once
	ends     []int    // end of each key's prefixes
	workers  int

	series    []seriesStates
	firstHour int64
	// finer are days whose hours are wanted because the day's state is not known or does not fit.
	finer []atomic.Bool

	days, hours atomic.Int64
	retired     atomic.Int32
}

// seriesStates is what states say of a series.
type seriesStates struct {
	spans []Span
	done  []uint64 // a bit for each hour that states answer for
	// rawMs and hoursMs are the times before which samples and states of hours are retired.
	rawMs, hoursMs int64
	head           []int64 // hours of which the head has samples
}

func newStateReader(rd *batchReader, p *TierPlan) *stateReader {
	r := &stateReader{
		batchReader: rd, plan: p, series: make([]seriesStates, len(rd.series)),
		firstHour: p.firstDay * keyschema.DayHours, finer: make([]atomic.Bool, len(p.days)),
	}
	words := (len(p.days)*keyschema.DayHours + 63) / 64
	done := make([]uint64, words*len(r.series))
	for i := range r.series {
		r.series[i].done, done = done[:words:words], done[words:]
		r.series[i].head = r.headHours(i)
		ages := rd.opts.TierAges.Of(metricOf(rd.series[i].Labels))
		r.series[i].rawMs, r.series[i].hoursMs = ages[keyschema.Raw].CutoffMs(p.nowMs), ages[keyschema.Hours].CutoffMs(p.nowMs)
	}
	return r
}

// headHours are the hours of which the head has samples.
func (r *stateReader) headHours(i int) []int64 {
	start := 0
	if i > 0 {
		start = r.headEnds[i-1]
	}
	var out []int64
	for _, ts := range r.head.tsMs[start:r.headEnds[i]] {
		if hour := keyschema.HourOf(ts); len(out) == 0 || out[len(out)-1] != hour {
			out = append(out, hour)
		}
	}
	return out
}

// read reads states of days, then those of hours where days were not planned or do not do.
func (r *stateReader) read(ctx context.Context) error {
	r.prefixes = r.makePrefixes(func(i int) []index.HourSpan { return r.batchReader.series[i].Hours })
	r.groupPrefixes()
	first, last := int64(-1), int64(-1)
	for i, how := range r.plan.days {
		if how >= dayWhole {
			if first < 0 {
				first = int64(i)
			}
			last = int64(i)
		}
	}
	if first >= 0 {
		err := r.readUnit(ctx, tiers.Days, r.plan.firstDay+first, r.plan.firstDay+last, r.takeDays)
		if err != nil {
			return err
		}
	}
	for i := 0; i < len(r.plan.days); i++ {
		if !r.wantsHours(i) {
			continue
		}
		from := i
		for i+1 < len(r.plan.days) && i+1-from < tierDaysRead && r.wantsHours(i+1) {
			i++
		}
		err := r.readUnit(ctx, tiers.Hours, (r.plan.firstDay+int64(from))*keyschema.DayHours,
			(r.plan.firstDay+int64(i)+1)*keyschema.DayHours-1, r.takeHours)
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *stateReader) wantsHours(i int) bool { return r.plan.days[i] == dayHours || r.finer[i].Load() }

// groupPrefixes lists each prefix once. Several workers may only read if none of them meets another's series.
func (r *stateReader) groupPrefixes() {
	seen := make([]bool, len(r.series))
	r.workers = r.opts.Concurrency
	for i := range r.prefixes {
		p := &r.prefixes[i]
		if seen[p.series] {
			r.workers = 1
		}
		seen[p.series] = true
		if i > 0 && bytes.Equal(p.prefix, r.prefixes[i-1].prefix) {
			r.ends[len(r.ends)-1] = i + 1
			continue
		}
		r.keys, r.ends = append(r.keys, p.prefix), append(r.ends, i+1)
	}
}

// readUnit reads the states of the buckets from one to another and has take look at those of each prefix.
func (r *stateReader) readUnit(
	ctx context.Context, unit tiers.Unit, from, to int64, take func(p *rowPrefix, c *rollup.Columns),
) error {
	part := max(tierPrefixesMin, (len(r.keys)+r.workers-1)/r.workers)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(r.workers)
	for at := 0; at < len(r.keys); at += part {
		group.Go(func() error {
			req := tiers.Request{
				Prefixes: r.keys[at:min(at+part, len(r.keys))], Unit: unit, From: from, To: to, Fields: r.plan.Fields,
			}
			return r.opts.Tiers.Read(ctx, req, func(i int, c *rollup.Columns) error {
				first := 0
				if at+i > 0 {
					first = r.ends[at+i-1]
				}
				for n := first; n < r.ends[at+i]; n++ {
					take(&r.prefixes[n], c)
				}
				return nil
			})
		})
	}
	return group.Wait()
}

// spanWriter appends states to the spans of a series.
type spanWriter struct {
	r    *stateReader
	s    *seriesStates
	c    *rollup.Columns
	atom int
	open bool // the last span goes on
	used int64
}

// fits finds the atom of bucket i. If there is nothing finer, a bucket that does not fit goes where its last sample lies.
func (w *spanWriter) fits(i int, unit tiers.Unit, only bool) bool {
	p := w.r.plan
	atom := p.Atom(w.c.FirstMs[i], w.atom)
	last := p.Atom(w.c.LastMs[i], atom)
	if last != atom && !only {
		return false
	}
	w.open = w.open && last == w.atom
	w.atom = last
	if w.c.FromMs+int64(i)*w.c.BucketMs < w.s.rawMs && p.used[last] {
		if unit == tiers.Days && only {
			w.r.noteRetired(OfDays)
		} else {
			w.r.noteRetired(OfHours)
		}
	}
	return true
}

func (r *stateReader) noteRetired(res Resolution) {
	for {
		now := r.retired.Load()
		if now >= int32(res) || r.retired.CompareAndSwap(now, int32(res)) {
			return
		}
	}
}

// add joins bucket i, of which fits was true.
func (w *spanWriter) add(i int) {
	if !w.r.plan.used[w.atom] {
		return
	}
	w.used++
	if !w.open {
		w.s.spans = append(w.s.spans, Span{Atom: w.atom})
		w.open = true
	}
	w.c.JoinTo(&w.s.spans[len(w.s.spans)-1].State, i)
}

// takeDays takes the states of whole days of a series.
func (r *stateReader) takeDays(p *rowPrefix, c *rollup.Columns) {
	w := spanWriter{r: r, s: &r.series[p.series], c: c}
	for i := range c.Known {
		day := c.FromMs/dayMs + int64(i)
		first, last := day*keyschema.DayHours, (day+1)*keyschema.DayHours-1
		if r.plan.plan(day) < dayWhole || last < p.fromHour || first > p.toHour {
			w.open = false
			continue
		}
		known := c.Known[i] && first >= p.rule.FromHour && last <= p.rule.ToHour && !w.s.inHead(first, last)
		if known && c.Count[i] == 0 {
			w.s.setDone(first-r.firstHour, keyschema.DayHours)
			continue
		}
		only := r.plan.plan(day) == dayOnly || (day+1)*dayMs-1 < w.s.hoursMs && day*dayMs < w.s.rawMs
		if !known || !w.fits(i, tiers.Days, only) {
			r.finer[day-r.plan.firstDay].Store(true)
			w.open = false
			continue
		}
		w.s.setDone(first-r.firstHour, keyschema.DayHours)
		w.add(i)
	}
	r.days.Add(w.used)
}

// takeHours takes the states of the hours of a series that days have left open.
func (r *stateReader) takeHours(p *rowPrefix, c *rollup.Columns) {
	w := spanWriter{r: r, s: &r.series[p.series], c: c}
	fromHour := c.FromMs / keyschema.HourMs
	spans := r.batchReader.series[p.series].Hours
	at := searchSpan(spans, fromHour)
	for i := range c.Known {
		hour := fromHour + int64(i)
		for at < len(spans) && spans[at].Last < hour {
			at++
		}
		n := hour - r.firstHour
		if at == len(spans) || spans[at].First > hour || w.s.isDone(n) || hour < p.fromHour || hour > p.toHour {
			w.open = w.open && c.Known[i] && c.Count[i] == 0
			continue
		}
		known := c.Known[i] && !w.s.inHead(hour, hour)
		if known && c.Count[i] == 0 {
			w.s.setDone(n, 1)
			continue
		}
		if !known || !w.fits(i, tiers.Hours, keyschema.HourStartMs(hour) < w.s.rawMs) {
			w.open = false
			continue
		}
		w.s.setDone(n, 1)
		w.add(i)
	}
	r.hours.Add(w.used)
}

// inHead tells whether the head has samples of the hours from first to last.
func (s *seriesStates) inHead(first, last int64) bool {
	if len(s.head) == 0 || s.head[0] > last {
		return false
	}
	at, _ := slices.BinarySearch(s.head, first)
	return at < len(s.head) && s.head[at] <= last
}

func (s *seriesStates) isDone(n int64) bool { return s.done[n/64]>>(n%64)&1 != 0 }

func (s *seriesStates) setDone(n, hours int64) {
	for ; hours > 0; n, hours = n+1, hours-1 {
		s.done[n/64] |= 1 << (n % 64)
	}
}

// openHours are the series with the hours that states leave open and that are not retired. Of those with very many of
// them, which are marked as incomplete, none is read.
func (r *stateReader) openHours(incomplete []bool) []index.Series {
	out := slices.Clone(r.batchReader.series)
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
		if rows > tieredRowsMax {
			arena, incomplete[i] = arena[:start], true
		}
		out[i].Hours = arena[start:len(arena):len(arena)]
	}
	return out
}

// spans are those of each series, charged to the budget.
func (r *stateReader) spans() (all [][]Span, charged int64, err error) {
	all = make([][]Span, len(r.series))
	for i := range r.series {
		s := &r.series[i]
		if !slices.IsSortedFunc(s.spans, bySpanTime) {
			slices.SortFunc(s.spans, bySpanTime)
		}
		all[i] = s.spans
		charged += int64(cap(s.spans)) * spanBytes
	}
	return all, charged, r.budget.take(charged)
}

func bySpanTime(a, b Span) int { return cmp.Compare(a.FirstMs, b.FirstMs) }

// clipHours leaves out hours that do not meet a window.
func clipHours(hours []index.HourSpan, w window) []index.HourSpan {
	return intersect(hours, []index.HourSpan{{First: keyschema.HourOf(w.mintMs), Last: keyschema.HourOf(w.maxtMs)}})
}
