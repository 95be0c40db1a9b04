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
	// Of hours that are deleted in part, the rest is to be computed.
	for _, d := range t.waiting() {
		if d.FromMs%keyschema.HourMs != 0 {
			first = min(first, floorDay(d.FromMs))
		}
		if (d.ToMs+1)%keyschema.HourMs != 0 {
			first = min(first, floorDay(d.ToMs))
		}
	}
	switch tier {
	case keyschema.Raw:
		return first, true
	case keyschema.Hours:
		month := min(MonthOfDay(first), view.ClosedMonth+1)
		for m := range view.Months {
			month = min(month, m)
		}
		return MonthStart(month), true
	default:
		return 0, false
	}
}
