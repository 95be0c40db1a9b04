package opentsdb

import (
	"bytes"
	"math"
	"strconv"
)

// AppendDouble appends a finite double as Java writes it: 1.0, 1.5E-7.
func AppendDouble(to []byte, v float64) []byte {
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

// appendValue appends a finite value as the text of the same value. Whole values below 2^53 are integers, except -0.
func appendValue(to []byte, v float64) []byte {
	if math.Trunc(v) == v && math.Abs(v) < exactMax && (v != 0 || !math.Signbit(v)) {
		return strconv.AppendInt(to, int64(v), 10)
	}
	return AppendDouble(to, v)
}
