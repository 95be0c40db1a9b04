package chunk

import (
	"encoding/binary"
	"math"

	"halite/keyschema/column"
)

// AppendSampleValue appends the cell value of a single sample: the eight bytes of its bit pattern, big-endian.
func AppendSampleValue(dst []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v))
}

// ParseSampleValue is the inverse of AppendSampleValue.
func ParseSampleValue(src []byte) (float64, error) {
	if len(src) != sampleBytes {
		return 0, column.Corrupt("single sample of %d bytes, want %d", len(src), sampleBytes)
	}
	return math.Float64frombits(binary.BigEndian.Uint64(src)), nil
}
