package chunk

import (
	"errors"

	"halite/keyschema"
	"halite/keyschema/column"
)

// The first byte of a chunk.
const (
	version        = 0x80 // bits 6–7: the format's version, 2
	versionMask    = 0xc0
	flagIrregular  = 0x20 // the timestamps are a column; bits 0–3 are 0
	flagExceptions = 0x10 // a list of exception values follows the timestamps
	flagPartial    = 0x08 // the samples do not fill the hour
	intervalMask   = 0x07 // index in intervals
)

// The byte in front of a column.
const (
	flagGrid   = 0x08 // timestamps only: they are distances from a grid
	scaleShift = 3    // values only: bits 3–6 are the decimal exponent, or one of the scale codes
	scaleMask  = 0x0f

	scaleRaw  = 13 // the column holds bit patterns
	scaleNear = 14 // a byte with the exponent follows; a second column holds the distances from the decimals
	scaleLong = 15 // a byte with the exponent follows
)

const (
	exponentRaw   = -1 // stands for bit patterns where a decimal exponent is expected
	exponentMax   = 22 // 10^22 is the largest power of ten that a float64 holds exactly
	countMax      = keyschema.HourMs
	mantissaLimit = 1 << 53
	sampleBytes   = 8
)

// intervals holds the interval of each code in the format byte. Code 0 means that the interval follows. Never written to.
var intervals = [intervalMask + 1]int64{0, 1000, 5000, 10_000, 15_000, 30_000, 60_000, keyschema.HourMs}

// Errors. Callers wrap both with what is wrong.
var (
	// ErrCorrupt means that this version cannot have written the bytes as a chunk or as a cell of the samples family. The
	// cell is damaged, or a newer version wrote it. No retry helps.
	ErrCorrupt = column.ErrCorrupt
	// ErrBadColumns means that the columns cannot be a chunk: they have different lengths, are empty, do not ascend
	// strictly, or leave the hour. The caller must sort and split them.
	ErrBadColumns = errors.New("bad columns")
)

// powers of ten that are exact; never written to.
var powers = [exponentMax + 1]float64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}
