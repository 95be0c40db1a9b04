package presence

import "halite/keyschema"

// Window has the hours that a query needs from each day of a partition, or 0 for days that the query reads
// elsewhere.
type Window [MonthDaysMax]uint32

// DaysWithin returns the mask of the days that lie entirely in the window. Bit 0 is the first day of the
// partition.
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
