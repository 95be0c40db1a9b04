package queries

import (
	"math"

	"halite/api/receiver/opentsdb"
)

// appendDouble appends a double as Java writes it: 1.0, 1.5E-7, and in quotes NaN and infinities.
func appendDouble(to []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(to, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(to, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(to, `"-Infinity"`...)
	}
	return opentsdb.AppendDouble(to, v)
}
