package cell

import (
	"errors"
	"fmt"
	"hash/crc32"

	"halite/rollup"
)

var (
	// Errors wrap ErrCorrupt if the bytes are not a cell, or not the cell of the given place.
	ErrCorrupt = errors.New("corrupt rollup cell")
	// Errors wrap ErrInvalidStates if no samples can have the states.
	ErrInvalidStates = errors.New("invalid rollup states")
)

// BucketsMax is the largest number of buckets in a cell: the days of a month.
const BucketsMax = 31

// The first byte of a cell. The bits are stored: never change them.
const (
	version       = 0x30
	versionMask   = 0xf0
	flagGaps      = 0x01 // a bitmap of the buckets with samples follows
	flagStale     = 0x02 // a bitmap of the buckets that end with a stale marker follows
	flagDecimals  = 0x04 // a byte with the decimal exponent follows
	flagFields    = 0x08 // the stored fields follow; otherwise all fields are stored
	checksumBytes = 4
)

// columnID names a column of a cell. Columns are stored in this order, and the numbers are bits of the column mask: never
// change them. A prediction of a column uses only columns before it.
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
	colM2Error // distance of M2 from the value that its integer gives
	columnCount
)

// columnFields returns the field that each column belongs to. The first three columns belong to every state.
func columnFields() [columnCount]rollup.Fields {
	return [columnCount]rollup.Fields{
		colNaNs: rollup.FieldNaNs, colResets: rollup.FieldCounter, colChanges: rollup.FieldChanges,
		colFirst: rollup.FieldEdges, colLast: rollup.FieldEdges, colMin: rollup.FieldMin, colMax: rollup.FieldMax,
		colSum: rollup.FieldSum, colCorrection: rollup.FieldCounter, colSumLow: rollup.FieldSum,
		colMean: rollup.FieldMoments, colM2: rollup.FieldMoments, colM2Error: rollup.FieldMoments,
	}
}

// encoding says how the values of a column become integers. The values are stored: never change them.
type encoding uint8

const (
	asInteger   encoding = 0 // decimal mantissa; for colSumLow and colM2 see FORMAT.md
	asBits      encoding = 1 // bit pattern, ordered as the values are
	asShortBits encoding = 2 // of M2: the bit pattern without its low droppedBits bits, which are 0

	droppedBits = 53 - rollup.MomentBits
)

// A column's tag: its encoding, and which prediction the residuals refer to.
const (
	tagEncoding   = 3 // shift
	tagSecond     = 0x20
	tagUnused     = 0x40
	encodingsMask = 0x03
)

// table holds the columns of one cell without the empty buckets: row i belongs to bucket bucketOf[i].
type table struct {
	buckets, rows int
	bucketOf      [BucketsMax]int
	bucketMs      int64
	exponent      int   // of decimals; −1 if values are bit patterns
	divisor       int64 // of all edges and extremes; set before colM2
	encodings     [columnCount]encoding
	ints          [columnCount][BucketsMax]int64
	floats        [columnCount][BucketsMax]float64
	predicted     [BucketsMax]int64
}

// defaultEncoding is the encoding of a column that is not stored. All its residuals are 0.
func (t *table) defaultEncoding(c columnID) encoding {
	switch {
	case c < colFirst || c == colSumLow || c == colM2Error:
		return asInteger
	case c == colMean || t.exponent < 0 || c == colM2 && t.encodings[colSum] != asInteger:
		return asBits
	}
	return asInteger
}

// permits reports whether a stored column may have an encoding.
func (t *table) permits(c columnID, e encoding) bool {
	switch {
	case c == colM2Error && t.encodings[colM2] != asInteger:
		return false
	case e == t.defaultEncoding(c):
		return true
	case e == asBits:
		return c >= colSum && c != colM2Error
	}
	return e == asShortBits && c == colM2
}

// hasSecondPrediction reports whether the encoder chooses between two predictions of a column.
func (c columnID) hasSecondPrediction() bool { return c == colSum || c == colM2 }

// checksum binds a cell to its row and qualifier.
func checksum(row, qualifier, cell []byte) uint32 {
	castagnoli := crc32.MakeTable(crc32.Castagnoli) // the library makes it once
	sum := crc32.Update(0, castagnoli, row)
	sum = crc32.Update(sum, castagnoli, qualifier)
	return crc32.Update(sum, castagnoli, cell)
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
