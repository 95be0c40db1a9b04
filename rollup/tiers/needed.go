package tiers

import "halite/keyschema"

// Needed returns the first day of a tier from which states are yet to be computed; some is false for the days, from which
// none are. What is older may go. It is of use only while the job runs: without it days are never closed.
func (t *Tiers) Needed(tier keyschema.Tier) (day int64, some bool) {
	view := t.ledger.view()
	first := view.Closed + 1
	for day := range view.Days {
		first = min(first, day)
	}
	switch tier {
	case keyschema.Raw:
		return min(first, t.cut(keyschema.HourMs)), true
	case keyschema.Hours:
		month := min(MonthOfDay(first), view.ClosedMonth+1, MonthOfDay(t.cut(dayMs)))
		for m := range view.Months {
			month = min(month, m)
		}
		return MonthStart(month), true
	default:
		return 0, false
	}
}

// cut is the first day of which a deletion takes a part of an hour, or of a day, and whose rest is to be computed.
func (t *Tiers) cut(unitMs int64) (day int64) {
	day = dayMax
	for _, d := range t.waiting() {
		if d.FromMs%unitMs != 0 {
			day = min(day, floorDay(d.FromMs))
		}
		if (d.ToMs+1)%unitMs != 0 {
			day = min(day, floorDay(d.ToMs))
		}
	}
	return day
}
