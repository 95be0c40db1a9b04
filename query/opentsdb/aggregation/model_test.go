package aggregation_test

import (
	"math"
	"slices"
	"time"
)

// This file is a model of OpenTSDB 2.5 that follows its classes Span, Downsampler, FillingDownsampler, RateSpan and
// AggregationIterator step by step, one point at a time. It shares no code with the package.

// point is a data point. Its value is long if whole is set, otherwise real.
type point struct {
	tsMs  int64
	whole bool
	long  int64
	real  float64
}

func (p point) double() float64 {
	if p.whole {
		return float64(p.long)
	}
	return p.real
}

// view models SeekableView.
type view interface {
	seek(tsMs int64)
	hasNext() bool
	next() point
}

type spanView struct {
	points []point
	at     int
}

func (v *spanView) seek(tsMs int64) {
	for v.at = 0; v.at < len(v.points) && v.points[v.at].tsMs < tsMs; v.at++ {
	}
}
func (v *spanView) hasNext() bool { return v.at < len(v.points) }
func (v *spanView) next() point   { v.at++; return v.points[v.at-1] }

// spec describes a sub-query.
type spec struct {
	aggregator string
	function   string // of the downsampling; "" for none
	count      int
	unit       string
	all        bool
	calendar   bool
	zone       *time.Location
	fill       string
	rate       bool
	counter    bool
	counterMax int64
	reset      int64
	drop       bool
	start, end int64
}

func (s *spec) intervalMs() int64 {
	if s.all || s.function == "" {
		return 0
	}
	return int64(s.count) * map[string]int64{
		"ms": 1, "s": 1e3, "m": 6e4, "h": 36e5, "d": 864e5, "w": 7 * 864e5, "n": 30 * 864e5, "y": 365 * 864e5,
	}[s.unit]
}

func (s *spec) scanStart() int64 {
	start := s.start / 1000
	aligned := start
	if i := s.intervalMs(); i > 0 {
		aligned -= (1000 * start % i) / 1000
	}
	return max(0, aligned-aligned%3600)
}

func (s *spec) scanEnd() int64 {
	end := s.end/1000 + 1
	i := s.intervalMs()
	if i == 0 {
		return end + 3600 - end%3600
	}
	aligned := end + (i-1000*end%i)/1000
	if aligned%3600 == 0 {
		return aligned
	}
	return aligned + 3600 - aligned%3600
}

// add moves a calendar by one interval.
func (s *spec) add(t time.Time, times int) time.Time {
	n := times * s.count
	switch s.unit {
	case "ms":
		return t.Add(time.Duration(n) * time.Millisecond)
	case "s":
		return t.Add(time.Duration(n) * time.Second)
	case "m":
		return t.Add(time.Duration(n) * time.Minute)
	case "h":
		return t.Add(time.Duration(n) * time.Hour)
	case "d":
		return t.AddDate(0, 0, n)
	case "w":
		return t.AddDate(0, 0, 7*n)
	case "n":
		return t.AddDate(0, n, 0)
	}
	return t.AddDate(n, 0, 0)
}

// previous models DateTime.previousInterval: it steps from a base until it has passed the time. In the hour that occurs twice
// when clocks go back, Java finds an interval that does not contain the time. The model does not copy that fault.
func (s *spec) previous(tsMs int64) time.Time {
	t := time.UnixMilli(tsMs).In(s.zone)
	y, mo, d := t.Date()
	step := *s
	var base time.Time
	switch s.unit {
	case "ms":
		base = t.Truncate(time.Second)
		for 1000%s.count != 0 && base.Second() != 0 {
			base = base.Add(-time.Second)
		}
	case "s":
		base = t.Truncate(time.Minute)
		for 60%s.count != 0 && base.Minute() != 0 {
			base = base.Add(-time.Minute)
		}
	case "m":
		for base = t.Truncate(time.Minute); base.Minute() != 0; base = base.Add(-time.Minute) {
		}
		if 60%s.count != 0 {
			base = time.Date(y, mo, d, 0, 0, 0, 0, s.zone)
		}
	case "h":
		if 24%s.count != 0 {
			d = 1
		}
		base = time.Date(y, mo, d, 0, 0, 0, 0, s.zone)
	case "d":
		if s.count == 1 {
			base = time.Date(y, mo, 1, 0, 0, 0, 0, s.zone)
		} else {
			base = time.Date(y, 1, 1, 0, 0, 0, 0, s.zone)
		}
	case "w":
		base = time.Date(y, mo, d, 0, 0, 0, 0, s.zone)
		for base.Weekday() != time.Sunday {
			base = base.AddDate(0, 0, -1)
		}
		step.count = 1
	default:
		base = time.Date(y, 1, 1, 0, 0, 0, 0, s.zone)
	}
	n := 0
	for step.add(base, n+1).UnixMilli() <= tsMs {
		n++
	}
	return step.add(base, n)
}

// downsampler models Downsampler, or FillingDownsampler if the spec fills.
type downsampler struct {
	spec    *spec
	source  view
	init    bool
	have    bool
	nextDP  point
	prevCal time.Time
	nextCal time.Time
	endMs   int64
	// These fields belong to FillingDownsampler.
	fillMs, fillEndMs int64
	fillCal           time.Time
}

func newDownsampler(s *spec, source view) *downsampler {
	d := &downsampler{spec: s, source: source}
	if s.fill == "" || s.all {
		return d
	}
	from, to := 1000*s.scanStart(), 1000*s.scanEnd()
	if !s.calendar {
		d.fillMs, d.fillEndMs = d.align(from), d.align(to)
		return d
	}
	d.fillCal = s.previous(from)
	end := s.previous(to)
	if end.Equal(d.fillCal) {
		end = s.add(end, 1)
	}
	d.fillMs, d.fillEndMs = d.fillCal.UnixMilli(), end.UnixMilli()
	return d
}

func (d *downsampler) align(tsMs int64) int64 { return tsMs - tsMs%d.spec.intervalMs() }

func (d *downsampler) seek(tsMs int64) {
	d.init = false
	switch s := d.spec; {
	case s.all:
		d.source.seek(tsMs)
	case s.calendar:
		c := s.previous(tsMs)
		if tsMs > c.UnixMilli() {
			c = s.add(c, 1)
		}
		d.source.seek(c.UnixMilli())
	default:
		d.source.seek(d.align(tsMs + s.intervalMs() - 1))
	}
}

func (d *downsampler) initialize() {
	if d.init {
		return
	}
	d.init = true
	if !d.source.hasNext() {
		return
	}
	d.moveOn()
	switch s := d.spec; {
	case s.all:
	case s.calendar:
		d.prevCal = s.previous(d.nextDP.tsMs)
		d.nextCal = s.add(d.prevCal, 1)
		d.endMs = d.nextCal.UnixMilli()
	default:
		d.endMs = d.align(d.nextDP.tsMs) + s.intervalMs()
	}
}

func (d *downsampler) moveOn() {
	if !d.source.hasNext() {
		d.have = false
		return
	}
	d.have = true
	if !d.spec.all {
		d.nextDP = d.source.next()
		return
	}
	for d.source.hasNext() {
		d.nextDP = d.source.next()
		if d.nextDP.tsMs < d.spec.start {
			d.have = false
			continue
		}
		d.have = d.nextDP.tsMs < d.spec.end
		return
	}
}

func (d *downsampler) inInterval() bool {
	d.initialize()
	return d.have && (d.spec.all || d.nextDP.tsMs < d.endMs)
}

// join aggregates the interval and moves to the next.
func (d *downsampler) join() (tsMs int64, value float64) {
	var values []float64
	tsMs = d.intervalMs()
	for d.inInterval() {
		values = append(values, d.nextDP.double())
		d.moveOn()
	}
	value = modelDoubles(d.spec.function, values)
	if d.have && !d.spec.all {
		if d.spec.calendar {
			for d.nextDP.tsMs >= d.endMs {
				d.prevCal, d.nextCal = d.spec.add(d.prevCal, 1), d.spec.add(d.nextCal, 1)
				d.endMs = d.nextCal.UnixMilli()
			}
		} else {
			d.endMs = d.align(d.nextDP.tsMs) + d.spec.intervalMs()
		}
	}
	return tsMs, value
}

func (d *downsampler) intervalMs() int64 {
	switch {
	case d.spec.all:
		return d.spec.start
	case d.spec.calendar:
		return d.prevCal.UnixMilli()
	}
	return d.align(d.endMs - d.spec.intervalMs())
}

func (d *downsampler) hasNext() bool {
	if d.spec.fill == "" || d.spec.all {
		return d.inInterval()
	}
	return d.fillMs < d.fillEndMs
}

func (d *downsampler) next() point {
	if d.spec.fill == "" || d.spec.all {
		d.initialize()
		tsMs, v := d.join()
		return point{tsMs: tsMs, real: v}
	}
	actual := func() int64 {
		if d.inInterval() {
			return d.intervalMs()
		}
		return math.MaxInt64
	}
	for actual() < d.fillMs {
		d.join()
	}
	p := point{tsMs: d.fillMs, real: math.NaN()}
	if actual() == d.fillMs {
		_, p.real = d.join()
	} else if d.spec.fill == "zero" {
		p.real = 0
	}
	if d.spec.calendar {
		d.fillCal = d.spec.add(d.fillCal, 1)
		d.fillMs = d.fillCal.UnixMilli()
	} else {
		d.fillMs += d.spec.intervalMs()
	}
	return p
}

// rateView models RateSpan.
type rateView struct {
	spec     *spec
	source   view
	init     bool
	last     point
	nextRate point
	done     bool
}

func (r *rateView) seek(tsMs int64) { r.source.seek(tsMs); r.init = false }

func (r *rateView) hasNext() bool {
	if !r.init {
		r.init, r.done = true, false
		r.last = point{whole: true}
		r.populate()
	}
	return !r.done
}

func (r *rateView) next() point {
	r.hasNext()
	p := r.nextRate
	r.populate()
	return p
}

func (r *rateView) populate() {
	for {
		if !r.source.hasNext() {
			r.done = true
			return
		}
		before := r.last
		r.last = r.source.next()
		seconds := float64(r.last.tsMs-before.tsMs) / 1000
		both := before.whole && r.last.whole
		var difference float64
		if both {
			difference = float64(r.last.long - before.long)
		} else {
			difference = r.last.double() - before.double()
		}
		r.nextRate = point{tsMs: r.last.tsMs, real: difference / seconds}
		if !r.spec.counter || !(difference < 0) {
			return
		}
		if r.spec.drop {
			continue
		}
		if both {
			difference = float64(r.spec.counterMax - before.long + r.last.long)
		} else {
			difference = float64(r.spec.counterMax) - before.double() + r.last.double()
		}
		r.nextRate.real = difference / seconds
		if r.spec.reset > 0 && r.nextRate.real > float64(r.spec.reset) {
			r.nextRate.real = 0
		}
		return
	}
}

// groupView models AggregationIterator. now and upcoming have the current and the next point of each series; a point with time
// 0 is missing. ended marks a series without a next point.
type groupView struct {
	spec          *spec
	sources       []view
	now, upcoming []point
	ended         []bool
	current       int
}

func newGroupView(s *spec, sources []view) *groupView {
	n := len(sources)
	g := &groupView{
		spec: s, sources: sources, now: make([]point, n), upcoming: make([]point, n), ended: make([]bool, n),
	}
	startMs := 1000 * s.scanStart()
	for i, v := range sources {
		v.seek(startMs)
		found := false
		for v.hasNext() && !found {
			g.upcoming[i] = v.next()
			found = g.upcoming[i].tsMs >= startMs
		}
		switch {
		case !found:
			g.ended[i] = true
		case s.rate && v.hasNext():
			g.move(i)
		case s.rate:
			g.ended[i] = true
		}
	}
	return g
}

func (g *groupView) move(i int) {
	g.now[i] = g.upcoming[i]
	if g.sources[i].hasNext() {
		g.upcoming[i] = g.sources[i].next()
	} else {
		g.ended[i] = true
	}
}

func (g *groupView) hasNext() bool { return slices.Contains(g.ended, false) }

// next returns the values of all series at the next time, with whether they are integers.
func (g *groupView) next() point {
	for i := g.current; i < len(g.sources); i++ {
		if g.ended[i] {
			g.now[i].tsMs = 0
		}
	}
	least := int64(math.MaxInt64)
	for i := range g.sources {
		if !g.ended[i] && g.upcoming[i].tsMs < least {
			least, g.current = g.upcoming[i].tsMs, i
		}
	}
	for i := range g.sources {
		if !g.ended[i] && g.upcoming[i].tsMs == least {
			g.move(i)
		}
	}
	whole := !g.spec.rate
	for i := range g.sources {
		whole = whole && (g.now[i].whole || g.now[i].tsMs == 0) && (g.upcoming[i].whole || g.ended[i])
	}
	var longs []int64
	var doubles []float64
	for i := range g.sources {
		if g.now[i].tsMs == 0 {
			continue
		}
		if whole {
			longs = append(longs, g.long(i, least))
		} else {
			doubles = append(doubles, g.double(i, least))
		}
	}
	if whole {
		return point{tsMs: least, whole: true, long: modelLongs(g.spec.aggregator, longs)}
	}
	return point{tsMs: least, real: modelDoubles(g.spec.aggregator, doubles)}
}

func interpolation(aggregator string) string {
	switch aggregator {
	case "zimsum", "squareSum", "count", "first", "last", "none":
		return "zim"
	case "mimmin":
		return "max"
	case "mimmax":
		return "min"
	case "pfsum":
		return "prev"
	}
	return "lerp"
}

func (g *groupView) long(i int, tsMs int64) int64 {
	p, q := g.now[i], g.upcoming[i]
	if p.tsMs == tsMs {
		return p.long
	}
	switch interpolation(g.spec.aggregator) {
	case "zim":
		return 0
	case "max":
		return math.MaxInt64
	case "min":
		return math.MinInt64
	case "prev":
		return p.long
	}
	return p.long + (tsMs-p.tsMs)*(q.long-p.long)/(q.tsMs-p.tsMs)
}

func (g *groupView) double(i int, tsMs int64) float64 {
	p, q := g.now[i], g.upcoming[i]
	if p.tsMs == tsMs || g.spec.rate {
		return p.double()
	}
	switch interpolation(g.spec.aggregator) {
	case "zim":
		return 0
	case "max":
		return math.MaxFloat64
	case "min":
		return -math.MaxFloat64
	case "prev":
		return p.double()
	}
	return p.double() + float64(tsMs-p.tsMs)*(q.double()-p.double())/float64(q.tsMs-p.tsMs)
}

// modelResult returns the result of the model, clipped to the query's range.
func modelResult(s *spec, series [][]point) (out []point) {
	var views []view
	for _, points := range series {
		inRows := slices.DeleteFunc(slices.Clone(points), func(p point) bool {
			return p.tsMs < 1000*s.scanStart() || p.tsMs >= 1000*s.scanEnd()
		})
		if len(inRows) == 0 {
			continue
		}
		var v view = &spanView{points: inRows}
		if s.function != "" {
			v = newDownsampler(s, v)
		}
		if s.rate {
			v = &rateView{spec: s, source: v}
		}
		views = append(views, v)
	}
	groups := [][]view{views}
	if s.aggregator == "none" {
		groups = groups[:0]
		for _, v := range views {
			groups = append(groups, []view{v})
		}
	}
	for _, g := range groups {
		for it := newGroupView(s, g); it.hasNext(); {
			if p := it.next(); p.tsMs >= s.start && p.tsMs <= s.end {
				out = append(out, p)
			}
		}
	}
	return out
}
