package head

import (
	"sync/atomic"

	"halite/keyschema"
)

// hourCounters is the number of counters of rows, a power of two that a count of hours rarely exceeds.
const hourCounters = 64

// hourCounts counts rows by their hour: those of hours that are hourCounters apart together. A row is counted from before
// its first sample is stored, under the lock of its stripe, until it is freed.
type hourCounts [hourCounters]atomic.Int32

func (c *hourCounts) add(hour int64, rows int32) { c[hour&(hourCounters-1)].Add(rows) }

// any reports whether a row of the hours from the first to the last may be there.
func (c *hourCounts) any(first, last int64) bool {
	for hour := first; hour <= min(last, first+hourCounters-1); hour++ {
		if c[hour&(hourCounters-1)].Load() != 0 {
			return true
		}
	}
	return false
}

// Holds reports whether there may be samples in [mintMs, maxtMs]. If it says no, AppendSamples would have found none of
// any series at that moment: every Append that has returned is considered, and what was freed was no longer needed. It
// takes no lock.
func (h *Head) Holds(mintMs, maxtMs int64) bool {
	return mintMs <= maxtMs && h.hours.any(keyschema.HourOf(mintMs), keyschema.HourOf(maxtMs))
}
