package rollups

import (
	"slices"

	"halite/keyschema"
	"halite/query/hours"
	"halite/rollup"
	"halite/storage/index"
)

// spanWriter appends states to the spans of a series.
type spanWriter struct {
	r        *stateReader
	s        *seriesStates
	spans    []index.HourSpan // hours of the series
	c        *rollup.Columns
	interval int
	open     bool // the last span can grow
	used     int64
}

func (r *stateReader) writer(series int, c *rollup.Columns) spanWriter {
	return spanWriter{r: r, s: &r.series[series], spans: r.batch.Series()[series].Hours, c: c}
}

// place finds the interval of bucket i. It returns false if the bucket does not fit into one interval. If only is set, such a
// bucket belongs to the interval of its last sample.
func (w *spanWriter) place(i int, only bool, res Resolution) bool {
	p := w.r.plan
	interval := p.Interval(w.c.FirstMs[i], w.interval)
	last := p.Interval(w.c.LastMs[i], interval)
	if last != interval && !only {
		return false
	}
	w.open = w.open && last == w.interval
	w.interval = last
	if w.c.FromMs+int64(i)*w.c.BucketMs < w.s.rawMs && p.used[last] {
		w.r.noteRetired(res)
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

// join merges buckets [i, j), which lie in one interval, and counts the states used. It does nothing if states is 0.
func (w *spanWriter) join(i, j int, states int64) {
	if states == 0 || !w.r.plan.used[w.interval] {
		return
	}
	w.used += states
	if !w.open {
		w.s.spans = append(w.s.spans, Span{Interval: w.interval})
		w.open = true
	}
	w.c.JoinTo(&w.s.spans[len(w.s.spans)-1].State, i, j)
}

// day uses the state of a whole day, bucket i. It returns false if the state is unknown or does not fit.
func (w *spanWriter) day(day int64, i int, only bool) bool {
	first, last := day*keyschema.DayHours, (day+1)*keyschema.DayHours-1
	res, states := HourlyStates, int64(1)
	switch {
	case w.r.plan.planOf(day) == dayJoined:
		states = keyschema.DayHours
	case only:
		res = DailyStates
	}
	partly := first < w.s.aliasFrom || last > w.s.aliasTo
	switch {
	case !w.c.Known[i] || w.s.inHead(first, last) || partly && !only:
		return false
	case partly && first < w.s.aliasFrom:
		// Only the daily state is left, and it cannot be divided. It belongs to the alias of its first hour.
		w.open = false
	case w.c.Count[i] == 0:
		w.open = w.open && !w.s.meetsOthers(first, last)
	case !only && w.s.meetsOthers(first, last):
		return false
	case w.place(i, only, res):
		w.join(i, i+1, states)
	default:
		return false
	}
	w.s.done.set(first-w.r.firstHour, keyschema.DayHours)
	return true
}

// hours uses the hourly states of a day within [fromHour, toHour]. Bucket i is the first hour of the day.
func (w *spanWriter) hours(firstHour int64, i int, fromHour, toHour int64) {
	at := hours.Search(w.spans, firstHour)
	start, states := i, int64(0) // buckets to merge
	for n := range int64(keyschema.DayHours) {
		hour, b := firstHour+n, i+int(n)
		for at < len(w.spans) && w.spans[at].Last < hour {
			at++
		}
		known, some := w.c.Known[b] && !w.s.inHead(hour, hour), w.c.Count[b] > 0
		done := hour - w.r.firstHour
		if w.s.meetsOthers(hour, hour) {
			w.join(start, b, states)
			start, states, w.open = b, 0, false
		}
		switch {
		case at == len(w.spans) || w.spans[at].First > hour || w.s.done.has(done) || hour < fromHour || hour > toHour:
			w.join(start, b, states)
			start, states = b+1, 0
			w.open = w.open && w.c.Known[b] && !some
			continue
		case !known:
			w.join(start, b, states)
			start, states, w.open = b+1, 0, false
			continue
		case some && !w.sameInterval(b):
			w.join(start, b, states)
			if start, states = b, 0; !w.place(b, keyschema.HourStartMs(hour) < w.s.rawMs, HourlyStates) {
				start, w.open = b+1, false
				continue
			}
		}
		if some {
			states++
		}
		w.s.done.set(done, 1)
	}
	w.join(start, i+keyschema.DayHours, states)
}

// sameInterval reports whether bucket i lies in the interval of the bucket before it and its samples are not retired.
func (w *spanWriter) sameInterval(i int) bool {
	p := w.r.plan
	return w.c.FromMs+int64(i)*w.c.BucketMs >= w.s.rawMs &&
		(w.interval == 0 || w.c.FirstMs[i] > p.Bounds[w.interval-1]) &&
		(w.interval == len(p.Bounds) || w.c.LastMs[i] <= p.Bounds[w.interval])
}

// meetsOthers reports whether another part of the series has samples in the hours [first, last].
func (s *seriesStates) meetsOthers(first, last int64) bool {
	at := hours.Search(s.others, first)
	return at < len(s.others) && s.others[at].First <= last
}

// inHead reports whether the head has samples in the hours [first, last].
func (s *seriesStates) inHead(first, last int64) bool {
	if len(s.head) == 0 || s.head[0] > last {
		return false
	}
	at, _ := slices.BinarySearch(s.head, first)
	return at < len(s.head) && s.head[at] <= last
}
