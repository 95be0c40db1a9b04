package queries

import (
	"bytes"
	"math"
	"strconv"
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
	at := len(to)
	if size := math.Abs(v); size == 0 || size >= 1e-3 && size < 1e7 {
		to = strconv.AppendFloat(to, v, 'f', -1, 64)
		if bytes.IndexByte(to[at:], '.') < 0 {
			to = append(to, ".0"...)
		}
		return to
	}
	to = strconv.AppendFloat(to, v, 'E', -1, 64)
	e := at + bytes.IndexByte(to[at:], 'E')
	exponent, _ := strconv.Atoi(string(to[e+1:]))
	digits := to[:e]
	if bytes.IndexByte(digits[at:], '.') < 0 {
		digits = append(digits, ".0"...)
	}
	return strconv.AppendInt(append(digits, 'E'), int64(exponent), 10)
}
