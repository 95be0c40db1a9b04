package head

import (
	"sync/atomic"

	"halite/keyschema"
)

// hourCounters is the number of counters, a power of two. A head rarely has rows of more hours.
const hourCounters = 64

// hourCounts counts rows by hour. Hours that are a multiple of hourCounters apart share a counter. A row counts from before
// its first sample until it is freed. The lock of its stripe guards both changes.
type hourCounts [hourCounters]atomic.Int32

// rowCounts counts rows by hour. It also counts rows by kind, except rows of floats.
type rowCounts struct {
	hours hourCounts
	kinds [keyschema.SampleKinds]atomic.Int32
}

func (c *rowCounts) add(where place, rows int32) {
	c.hours[where.hour()&(hourCounters-1)].Add(rows)
	if kind := where.kind(); kind != keyschema.Floats {
		c.kinds[kind].Add(rows)
	}
}

func (c *rowCounts) has(kind keyschema.SampleKind) bool {
	return kind == keyschema.Floats || c.kinds[kind].Load() != 0
}

// any reports whether there may be a row of the hours from first to last.
func (c *hourCounts) any(first, last int64) bool {
	for hour := first; hour <= min(last, first+hourCounters-1); hour++ {
		if c[hour&(hourCounters-1)].Load() != 0 {
			return true
		}
	}
	return false
}

// Holds reports whether there may be samples in [mintMs, maxtMs]. If it returns false, no series has samples of any kind
// there at that moment. It considers every Append that has returned, and takes no lock.
func (h *Head) Holds(mintMs, maxtMs int64) bool {
	return mintMs <= maxtMs && h.counts.hours.any(keyschema.HourOf(mintMs), keyschema.HourOf(maxtMs))
}
