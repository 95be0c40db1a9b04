package promql

import (
	"slices"

	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/cell"
	rollupstore "halite/rollup/store"
)

// States are kept decoded in the table of the row cache: those of a day's hours, what they join to where a window has the
// whole day, and those of a month's days. An entry is used as long as nothing of its day or month was changed.

// keptKind is what an entry of states holds.
type keptKind uint64

const (
	keptJoined keptKind = iota
	keptHours
	keptMonth
	keptKinds
)

// fieldSetsMax is the number of sets of fields that keys tell apart.
const fieldSetsMax = 32 / int(keptKinds)

// keptLayout is how a selection keeps states.
type keptLayout struct {
	*rowCache
	packing *rollup.Packing
	set     uint64 // of fields
}

// newKeptLayout returns nil if the states of a selection are not to be kept.
func newKeptLayout(c *rowCache, p *TierPlan, series int) *keptLayout {
	packing := rollup.NewPacking(p.Fields)
	entry := func(n int) int64 { return int64(packing.Words(n)*8 + rowSlotBytes + rowKeyBytes) }
	sizeBytes := int64(p.joinedDays)*entry(1) + int64(p.hourDays)*entry(keyschema.DayHours) +
		int64(p.wholeMonths)*entry(cell.BucketsMax)
	if !c.admitsBytes(sizeBytes * int64(series)) {
		return nil
	}
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	set := slices.Index(c.fieldSets, p.Fields)
	if set < 0 {
		if len(c.fieldSets) == fieldSetsMax {
			return nil
		}
		set = len(c.fieldSets)
		c.fieldSets = append(c.fieldSets, p.Fields)
	}
	return &keptLayout{c, packing, uint64(set)}
}

// keptStates are the states that are kept as of a moment. Its head was read before.
type keptStates struct {
	*keptLayout
	plan         *TierPlan
	days, months []uint64 // epochs, from the first day of the plan and its month on
}

func (l *keptLayout) asOfNow(t Tiers, p *TierPlan) *keptStates {
	if l == nil {
		return nil
	}
	last := len(p.days) - 1
	return &keptStates{
		keptLayout: l, plan: p, days: t.AppendVersions(nil, rollupstore.Hours, p.firstDay, p.firstDay+int64(last)),
		months: t.AppendVersions(nil, rollupstore.Days, p.months[0], p.months[last]),
	}
}

// place is the key of the states of a day or month, given the beginning of the keys of its series, and their epoch.
func (k *keptStates) place(number uint64, kind keptKind, bucket int64) (key, epoch uint64) {
	key = number | keyOfStates | uint64(bucket)<<keyHourShift | (uint64(kind)*uint64(fieldSetsMax)+k.set)<<keyHoursShift
	if kind == keptMonth {
		return key, k.months[bucket-k.plan.months[0]]
	}
	return key, k.days[bucket-k.plan.firstDay]
}

// put keeps n buckets of a series, from i on.
func (k *keptStates) put(r *stateReader, series int, kind keptKind, bucket int64, c *rollup.Columns, i, n int) {
	words := k.packing.Words(n)
	if words > k.table.entryWordsMax() {
		return
	}
	u := rowCacheUser{rowCache: k.rowCache}
	k.table.mu.Lock()
	defer k.table.mu.Unlock()
	if number, ok := u.makeNumber(&r.batchReader.series[series]); ok {
		key, epoch := k.place(number, kind, bucket)
		k.table.put(key, epoch, rowShape{}, words, func(words []uint64) { k.packing.Pack(words, c, i, n) })
	}
}

// putMonths keeps the states of the months of which a series lacked some day.
func (k *keptStates) putMonths(r *stateReader, p *rowPrefix, c *rollup.Columns) {
	s := &r.series[p.series]
	first := c.FromMs / dayMs
	for from := first; from < first+int64(c.Len()); {
		month := rollupstore.MonthOfDay(from)
		end := rollupstore.MonthStart(month + 1)
		lacks := false
		for day := max(from, k.plan.firstDay); day < min(end, k.plan.firstDay+int64(len(k.plan.days))); day++ {
			lacks = lacks || s.lacksDays.has(day-k.plan.firstDay)
		}
		if lacks && p.covers(from) && p.covers(end-1) {
			k.put(r, p.series, keptMonth, month, c, int(from-first), int(end-from))
		}
		from = end
	}
}

// keptSearch looks for the states of one series after another.
type keptSearch struct {
	*keptStates
	r       *stateReader
	u       rowCacheUser
	number  uint64 // the beginning of the series' keys
	known   bool   // it has one
	columns rollup.Columns
	month   int64 // that columns show, or that is not kept
	found   bool

	days, hours  int64 // states used
	hits, misses int
}

// takeKept takes the states that are kept; it tells whether any is lacking.
func (r *stateReader) takeKept() (lacking bool) {
	s := keptSearch{keptStates: r.kept, r: r, u: rowCacheUser{rowCache: r.kept.rowCache}}
	s.table.mu.RLock()
	defer s.table.mu.RUnlock()
	for i := range r.series {
		lacking = s.series(i) || lacking
	}
	r.days.Add(s.days)
	r.hours.Add(s.hours)
	s.stateHits.Add(float64(s.hits))
	s.stateMisses.Add(float64(s.misses))
	return lacking
}

// series takes what is kept of a series.
func (s *keptSearch) series(i int) (lacking bool) {
	r := s.r
	s.number, s.known = s.u.number(&r.batchReader.series[i])
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
		case how == dayJoined && s.showDay(&w, keptJoined, day, dayMs, 1) && w.day(day, 0, false):
			continue
		}
		if !s.showDay(&w, keptHours, day, keyschema.HourMs, keyschema.DayHours) {
			r.lackHours(i, n)
			lacking, w.open = true, false
			continue
		}
		w.hours(day*keyschema.DayHours, 0, 0, keyschema.HourMax)
	}
	s.hours += w.used
	return lacking
}

// showDay lets the columns show the hours of a day, or what they join to, if they are kept.
func (s *keptSearch) showDay(w *spanWriter, kind keptKind, day, bucketMs int64, n int) bool {
	s.month = -1
	if (day+1)*dayMs-1 < w.s.hoursMs {
		return false
	}
	return s.show(kind, day, day*dayMs, bucketMs, n)
}

// showMonth lets the columns show the days of the month that has day n of the plan, if they are kept.
func (s *keptSearch) showMonth(w *spanWriter, n int64) bool {
	month := s.plan.months[n]
	if month == s.month {
		return s.found
	}
	start, end := rollupstore.MonthStart(month), rollupstore.MonthStart(month+1)
	s.month = month
	s.found = end*dayMs-1 >= w.s.daysMs && s.show(keptMonth, month, start*dayMs, dayMs, int(end-start))
	return s.found
}

func (s *keptSearch) show(kind keptKind, bucket, fromMs, bucketMs int64, n int) bool {
	if s.known {
		if e := s.table.get(s.place(s.number, kind, bucket)); e != nil {
			s.hits++
			s.packing.View(&s.columns, s.table.words(e.place, s.packing.Words(n)), fromMs, bucketMs, n)
			return true
		}
	}
	s.misses++
	return false
}
