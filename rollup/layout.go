package rollup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"halite/keyschema"
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
	cellVersion   = 0x10
	versionMask   = 0xf0
	flagGaps      = 0x01 // a bitmap of the buckets with samples follows
	flagStale     = 0x02 // a bitmap of the buckets that end stale follows
	flagDecimals  = 0x04 // values are whole numbers; the decimal exponent follows
	flagFields    = 0x08 // the fields that are stored follow; else all are
	checksumBytes = 4
)

// columnID names a column of a cell. The order is stored: never change it.
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
	colSquares
	colM2
	columnsAll
)

// isInteger tells whether the column has whole numbers by its nature.
func (c columnID) isInteger() bool { return c <= colChanges || c == colSumLow || c == colSquares }

// isMantissa tells whether the column has whole numbers in a cell of decimals.
func (c columnID) isMantissa() bool { return c >= colFirst && c <= colCorrection }

// columnFields are the fields that each column belongs to; those of the first three belong to every state.
func columnFields() [columnsAll]Fields {
	return [columnsAll]Fields{
		colNaNs: FieldNaNs, colResets: FieldCounter, colChanges: FieldChanges, colFirst: FieldEdges, colLast: FieldEdges,
		colMin: FieldMin, colMax: FieldMax, colSum: FieldSum, colCorrection: FieldCounter, colSumLow: FieldSum,
		colMean: FieldMoments, colSquares: FieldMoments, colM2: FieldMoments,
	}
}

// form says how a column is written, in the low two bits of its length. The values are stored: never change them.
type form uint8

const (
	// Columns of whole numbers.
	formPlain    form = 0 // the numbers
	formResidual form = 1 // less the first prediction
	formSecond   form = 2 // less the second prediction
	formFloats   form = 3 // not whole after all: a byte, 1 if there are special values, and then as formAll
	// Columns of floats.
	formAll          form = 0 // the values
	formSome         form = 1 // a bitmap of those that differ from the prediction, and these
	formAllSpecials  form = 2 // as formAll and formSome, with special values among them
	formSomeSpecials form = 3
)

// scratch holds a cell's columns, packed to the buckets that have samples: numbers[c][i] belongs to bucket at[i].
type scratch struct {
	n, k     int // buckets, and those with samples
	at       [BucketsMax]int
	exponent int // of decimals, −1 if values are floats
	numbers  [columnsAll][BucketsMax]int64
	floats   [columnsAll][BucketsMax]float64
}

// predict returns the first or second prediction of number i of a column of whole numbers, from columns before it.
func (s *scratch) predict(c columnID, f form, i int) int64 {
	n := &s.numbers
	if f == formSecond {
		switch c {
		case colChanges:
			return n[colCount][i] - 1
		case colSum:
			return n[colCount][i] * ((n[colMin][i] + n[colMax][i]) / 2)
		case colCorrection:
			if n[colResets][i] == 1 {
				return n[colMax][i]
			}
			return n[colResets][i] * s.middle(i)
		case colSquares:
			return s.squaresOfLine(i)
		}
		return 0
	}
	switch c {
	case colFirst:
		if i > 0 {
			return n[colLast][i-1]
		}
	case colLast:
		return n[colFirst][i]
	case colMin:
		return min(n[colFirst][i], n[colLast][i])
	case colMax:
		return max(n[colFirst][i], n[colLast][i])
	case colSum:
		return sumOfLine(n[colCount][i], n[colFirst][i], n[colLast][i])
	}
	return 0
}

// sumOfLine is the sum of so many numbers from first to last at equal distances, modulo 2^64.
func sumOfLine(count, first, last int64) int64 {
	twice := first + last
	return count*(twice>>1) + (twice&1)*(count>>1)
}

// middle is the mean of bucket i, or what it may be if the sum is no whole number.
func (s *scratch) middle(i int) int64 {
	n := &s.numbers
	if sum := n[colSum][i]; sum != 0 {
		return sum / n[colCount][i]
	}
	return (n[colMin][i] + n[colMax][i]) / 2
}

// squaresOfLine is what colSquares is for numbers from first to last at equal distances, or 0 if that is too large.
func (s *scratch) squaresOfLine(i int) int64 {
	count, rise := float64(s.numbers[colCount][i]), float64(s.numbers[colLast][i]-s.numbers[colFirst][i])
	if count < 2 {
		return 0
	}
	x := float64(rise*rise) * float64(count*count*(count+1)/(12*(count-1)))
	if !(x < 1<<53) {
		return 0
	}
	return int64(x)
}

// lowUnit is the unit in which SumLow is stored: a part of the last bit of a sum.
func lowUnit(sum float64) float64 {
	_, exponent := math.Frexp(sum)
	return math.Ldexp(1, exponent-53-lowBits)
}

// predictFloat returns the prediction of value i of a column of floats, from columns before it.
func (s *scratch) predictFloat(c columnID, i int) float64 {
	v := &s.floats
	switch c {
	case colLast:
		return v[colFirst][i]
	case colMin:
		return lower(v[colFirst][i], v[colLast][i])
	case colMax:
		return higher(v[colFirst][i], v[colLast][i])
	case colMean:
		st := State{
			Count: s.numbers[colCount][i], Sum: v[colSum][i], SumLow: v[colSumLow][i], Min: v[colMin][i], Max: v[colMax][i],
		}
		return plainNaN(st.predictedMean())
	case colM2:
		if x := s.numbers[colSquares][i]; x != 0 && s.exponent >= 0 {
			return s.squaresToM2(i, x)
		}
	}
	return 0
}

// squaresToM2 is M2 of bucket i by the whole number in colSquares: M2 · Count · 10^(2 · exponent).
func (s *scratch) squaresToM2(i int, x int64) float64 {
	p := power(s.exponent)
	return roundBits(float64(x)/(float64(s.numbers[colCount][i])*(p*p)), momentBits)
}

// needs are the columns that must be read before c.
func needs() [columnsAll]uint16 {
	bits := func(columns ...columnID) (mask uint16) {
		for _, c := range columns {
			mask |= 1 << c
		}
		return mask
	}
	edges := bits(colFirst, colLast)
	extremes := edges | bits(colMin, colMax)
	return [columnsAll]uint16{
		colLastMs: bits(colCount), colChanges: bits(colCount), colFirst: bits(colLast), colLast: bits(colFirst),
		colMin: edges, colMax: edges, colSum: extremes | bits(colCount), colCorrection: extremes | bits(colResets, colCount, colSum),
		colSumLow: bits(colSum), colMean: extremes | bits(colCount, colSum, colSumLow),
		colSquares: edges | bits(colCount), colM2: bits(colCount, colSquares),
	}
}

// appendRunHead appends the start that every run of k values in a column has: one a second, from 0 on. Cells leave it
// out but for the flag of special values.
func appendRunHead(dst []byte, k int, specials bool) []byte {
	at := len(dst)
	if k == 1 {
		dst = append(dst, 0x87, 0, 0, 0)
	} else {
		dst = binary.AppendUvarint(append(dst, 0x89, 0, 0, 0), uint64(keyschema.HourMs/1000-k))
	}
	if specials {
		dst[at] |= runSpecials
	}
	return dst
}

// runSpecials is the flag of special values in the first byte of a run.
const runSpecials = 0x10

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
