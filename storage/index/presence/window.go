package presence

import "halite/keyschema"

// Window is the hours that a query asks of each day of a partition; 0 for days that it takes from elsewhere.
type Window [MonthDaysMax]uint32

// DaysWithin is the mask of the days that the window contains whole, counted from the first day of the partition.
func (w *Window) DaysWithin() uint32 {
	mask := uint32(0)
	for d, hours := range w {
		if hours == HoursMask {
			mask |= 1 << d
		}
	}
	return mask
}

// Since removes the hours before one. firstDay is the first day of the partition.
func (w Window) Since(firstDay, hour int64) Window {
	for i := range w {
		w[i] &= HoursWithin(firstDay+int64(i), hour, keyschema.HourMax)
	}
	return w
}
