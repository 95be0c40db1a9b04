package store

import "halite/keyschema"

// OldestNeeded returns the oldest day of a tier that the job still computes states from. Retention may drop anything
// older. ok is false for the days, because nothing is computed from them. The result is meaningful only while the job
// runs: without it, days never close.
func (s *Store) OldestNeeded(tier keyschema.Tier) (day int64, ok bool) {
	view := s.Manifest.View()
	first := view.Closed + 1
	for day := range view.Days {
		first = min(first, day)
	}
	switch tier {
	case keyschema.Raw:
		return min(first, s.firstPartial(keyschema.HourMs)), true
	case keyschema.Hours:
		month := min(MonthOfDay(first), view.ClosedMonth+1, MonthOfDay(s.firstPartial(dayMs)))
		for m := range view.Months {
			month = min(month, m)
		}
		return MonthStart(month), true
	default:
		return 0, false
	}
}

// firstPartial returns the first day with a bucket that a pending deletion removes in part. The job computes the state
// of what remains.
func (s *Store) firstPartial(unitMs int64) (day int64) {
	day = dayMax
	for _, d := range s.PendingDeletions() {
		if d.FromMs%unitMs != 0 {
			day = min(day, DayOf(d.FromMs))
		}
		if (d.ToMs+1)%unitMs != 0 {
			day = min(day, DayOf(d.ToMs))
		}
	}
	return day
}
