package rollups

import (
	"halite/keyschema"
	"halite/query/read"
	"halite/query/rowcache"
	"halite/rollup"
	"halite/rollup/cell"
	rollupstore "halite/rollup/store"
)

// The row cache holds decoded states. An entry has the states of a day's hours, their join if a window covers the whole day,
// or the states of a month's days. It is valid until samples of its day or month change.

// stateKind is the kind of states in an entry.
type stateKind uint64

const (
	kindJoined stateKind = iota
	kindHours
	kindMonth
)

// cacheLayout describes how a selection caches states.
type cacheLayout struct {
	cache   *rowcache.Cache
	packing *rollup.Packing
	set     uint64 // of fields
}

// newCacheLayout returns nil if the states of a selection are not cached.
func newCacheLayout(c *rowcache.Cache, p *Plan, series int) *cacheLayout {
	packing := rollup.NewPacking(p.Fields)
	entry := func(n int) int64 { return rowcache.EntryBytes(packing.Words(n)) }
	sizeBytes := int64(p.joinedDays)*entry(1) + int64(p.hourDays)*entry(keyschema.DayHours) +
		int64(p.wholeMonths)*entry(cell.BucketsMax)
	if !c.AdmitsBytes(sizeBytes * int64(series)) {
		return nil
	}
	set, ok := c.FieldSet(p.Fields)
	if !ok {
		return nil
	}
	return &cacheLayout{c, packing, set}
}

// cachedStates are the cached states of the versions at its creation, which must come after the read of the head.
type cachedStates struct {
	layout       *cacheLayout
	plan         *Plan
	days, months []uint64 // versions of days and months, from the first day of the plan on
}

func (l *cacheLayout) snapshot(t Store, p *Plan) *cachedStates {
	if l == nil {
		return nil
	}
	last := len(p.days) - 1
	return &cachedStates{
		layout: l, plan: p, days: t.AppendVersions(nil, rollupstore.Hours, p.firstDay, p.firstDay+int64(last)),
		months: t.AppendVersions(nil, rollupstore.Days, p.months[0], p.months[last]),
	}
}

// key returns the key of the states of a day or month, and their version.
func (k *cachedStates) key(kind stateKind, bucket int64) (rowcache.StateKey, uint64) {
	key := rowcache.StateKey{Kind: uint64(kind), Bucket: bucket, FieldSet: k.layout.set}
	if kind == kindMonth {
		return key, k.months[bucket-k.plan.months[0]]
	}
	return key, k.days[bucket-k.plan.firstDay]
}

// put caches n buckets of a series, from i on.
func (k *cachedStates) put(r *stateReader, series int, kind stateKind, bucket int64, c *rollup.Columns, i, n int) {
	packing := k.layout.packing
	key, version := k.key(kind, bucket)
	k.layout.cache.PutStates(&r.batch.Series()[series], key, version, packing.Words(n),
		func(words []uint64) { packing.Pack(words, c, i, n) })
}

// putMonths caches the states of the months in which a series lacked the state of a day.
func (k *cachedStates) putMonths(r *stateReader, p *read.RowPrefix, c *rollup.Columns) {
	s := &r.series[p.Series]
	first := c.FromMs / dayMs
	for from := first; from < first+int64(c.Len()); {
		month := rollupstore.MonthOfDay(from)
		end := rollupstore.MonthStart(month + 1)
		lacks := false
		for day := max(from, k.plan.firstDay); day < min(end, k.plan.firstDay+int64(len(k.plan.days))); day++ {
			lacks = lacks || s.lacksDays.has(day-k.plan.firstDay)
		}
		if lacks && covers(p, from) && covers(p, end-1) {
			k.put(r, p.Series, kindMonth, month, c, int(from-first), int(end-from))
		}
		from = end
	}
}

// cacheSearch finds the states of one series after another.
type cacheSearch struct {
	states  *cachedStates
	plan    *Plan
	r       *stateReader
	lookup  *rowcache.StateLookup
	columns rollup.Columns
	month   int64 // the month in columns, or a month that is not cached
	found   bool

	days, hours int64 // states used
}

// useCached uses the cached states. It reports whether some states are missing.
func (r *stateReader) useCached() (lacking bool) {
	s := cacheSearch{states: r.cached, plan: r.plan, r: r, lookup: r.cached.layout.cache.LookupStates()}
	defer s.lookup.End()
	for i := range r.series {
		lacking = s.series(i) || lacking
	}
	r.days.Add(s.days)
	r.hours.Add(s.hours)
	return lacking
}

// series uses the cached states of a series.
func (s *cacheSearch) series(i int) (lacking bool) {
	r := s.r
	s.lookup.Series(&r.batch.Series()[i])
	s.month = -1
	w := r.writer(i, &s.columns)
	first, last := r.daysOf(i)
	for n := first; n <= last; n++ {
		how, day := s.plan.days[n], s.plan.firstDay+n
		switch {
		case how < dayHours:
			w.open = false
			continue
		case how >= dayWhole && !s.showMonth(&w, n):
			w.s.lacksDays.set(n, 1)
			lacking, w.open = true, false
			continue
		case how >= dayWhole:
			s.hours += w.used
			w.used = 0
			if w.day(day, int(day-s.columns.FromMs/dayMs), r.only(w.s, day)) {
				s.days += w.used
				w.used = 0
				continue
			}
		case how == dayJoined && s.showDay(&w, kindJoined, day, dayMs, 1) && w.day(day, 0, false):
			continue
		}
		if !s.showDay(&w, kindHours, day, keyschema.HourMs, keyschema.DayHours) {
			r.lackHours(i, n)
			lacking, w.open = true, false
			continue
		}
		w.hours(day*keyschema.DayHours, 0, 0, keyschema.HourMax)
	}
	s.hours += w.used
	return lacking
}

// showDay sets the columns to the cached hours of a day, or to their join, and reports whether they are cached.
func (s *cacheSearch) showDay(w *spanWriter, kind stateKind, day, bucketMs int64, n int) bool {
	s.month = -1
	if (day+1)*dayMs-1 < w.s.hoursMs {
		return false
	}
	return s.show(kind, day, day*dayMs, bucketMs, n)
}

// showMonth sets the columns to the cached days of the month of day n of the plan, and reports whether they are cached.
func (s *cacheSearch) showMonth(w *spanWriter, n int64) bool {
	month := s.plan.months[n]
	if month == s.month {
		return s.found
	}
	start, end := rollupstore.MonthStart(month), rollupstore.MonthStart(month+1)
	s.month = month
	s.found = end*dayMs-1 >= w.s.daysMs && s.show(kindMonth, month, start*dayMs, dayMs, int(end-start))
	return s.found
}

func (s *cacheSearch) show(kind stateKind, bucket, fromMs, bucketMs int64, n int) bool {
	packing := s.states.layout.packing
	key, version := s.states.key(kind, bucket)
	words := s.lookup.Find(key, version, packing.Words(n))
	if words == nil {
		return false
	}
	packing.View(&s.columns, words, fromMs, bucketMs, n)
	return true
}
