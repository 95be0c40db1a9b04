package rollup

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
)

var (
	// ErrCorrupt is wrapped by errors about bytes that are no cell of states, or not one of that place.
	ErrCorrupt = errors.New("corrupt rollup cell")
	// ErrBadStates is wrapped by errors about states that cannot be packed.
	ErrBadStates = errors.New("states cannot be packed")
)

// BucketsMax is the largest number of buckets in a cell.
const BucketsMax = 31

// The first byte of a cell. The bits are stored: never change them.
const (
	cellVersion   = 0x20
	versionMask   = 0xf0
	flagGaps      = 0x01 // a bitmap of the buckets with samples follows
	flagStale     = 0x02 // a bitmap of the buckets that end stale follows
	flagDecimals  = 0x04 // values are decimals
	flagFields    = 0x08 // the fields that are stored follow; else all are
	checksumBytes = 4
)

// columnID names a column of a cell. Cells store columns in the order of scratch.order, not of these numbers.
type columnID uint8

const (
	colCount columnID = iota
	colFirstMs
	colLastMs
	colNaNs
	colResets
	colChanges
	colFirst
	colLast
	colMin
	colMax
	colSum
	colCorrection
	colSumLow
	colMean
	colM2
	columnsAll
)

// columnFields are the fields that each column belongs to; those of the first three belong to every state.
func columnFields() [columnsAll]Fields {
	return [columnsAll]Fields{
		colNaNs: FieldNaNs, colResets: FieldCounter, colChanges: FieldChanges, colFirst: FieldEdges, colLast: FieldEdges,
		colMin: FieldMin, colMax: FieldMax, colSum: FieldSum, colCorrection: FieldCounter, colSumLow: FieldSum,
		colMean: FieldMoments, colM2: FieldMoments,
	}
}

// scratch holds a cell's columns, packed to the buckets that have samples: numbers[c][i] belongs to bucket at[i].
type scratch struct {
	n, k     int // buckets, and those with samples
	at       [BucketsMax]int
	exponent int   // of decimals, −1 if values are floats
	divisor  int64 // of all mantissas
	falls    bool  // there is a bucket with more resets than restarts explain
	numbers  [columnsAll][BucketsMax]int64
	floats   [columnsAll][BucketsMax]float64
	floated  uint16 // columns whose floats are there
	kinds    [columnsAll]kind

	bucketMs, intervalMs, phaseMs int64 // length of a bucket, and the grid of its samples

	guessed [BucketsMax]int64
	rise    [BucketsMax]int64 // the last value less its prediction
	lows    [columnsAll]uint  // low bits of the columns so far
}

// sumOfLine is the sum of so many numbers from first to last at equal distances, modulo 2^64.
func sumOfLine(count, first, last int64) int64 {
	twice := first + last
	return count*(twice>>1) + (twice&1)*(count>>1)
}

// lowUnit is the unit in which SumLow is stored: a part of the last bit of a sum.
func lowUnit(sum float64) float64 {
	_, exponent := math.Frexp(sum)
	return math.Ldexp(1, exponent-53-lowBits)
}

// checksum binds a cell to its row and qualifier.
func checksum(row, qualifier, cell []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // made once by the library
	sum := crc32.Update(0, table, row)
	sum = crc32.Update(sum, table, qualifier)
	return crc32.Update(sum, table, cell)
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// exponentMax is the largest decimal exponent of a cell.
const exponentMax = 15

// power is 10^e, exact.
func power(e int) float64 {
	p := 1.0
	for range e {
		p *= 10
	}
	return p
}

// mantissa returns the whole number m with m / p = v, bit by bit.
func mantissa(v, p float64) (int64, bool) {
	rounded := math.Round(v * p)
	if !(math.Abs(rounded) < 1<<53) {
		return 0, false
	}
	m := int64(rounded)
	return m, math.Float64bits(float64(m)/p) == math.Float64bits(v)
}

const (
	exponentBits = 4
	intervalBits = 3
	fallsFrom    = 4 // resets in a bucket
)

// usualIntervals are those that a number stands for; 0 stands for others. The places are stored: never change them.
func usualIntervals() [1 << intervalBits]int64 {
	return [...]int64{0, 1000, 5000, 10_000, 15_000, 30_000, 60_000, 3_600_000}
}

// phaseBits is the number of bits of a phase.
func phaseBits(intervalMs int64) uint { return uint(bits.Len64(uint64(intervalMs - 1))) }
