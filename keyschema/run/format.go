package run

import (
	"errors"
	"fmt"

	"halite/keyschema"
)

// The first byte of a run.
const (
	version       = 0x40 // bits 6–7: the format's version, 1
	versionMask   = 0xc0
	flagIrregular = 0x20 // the timestamps are a column, not start and interval
	flagSpecials  = 0x10 // a list of special values follows the timestamps
	modeMask      = 0x0f // mode of the value column
	scaleMask     = 0x1f // in the byte after: decimal exponent of the value column, or scaleRaw
	flagStep      = 0x20 // a common divisor of the differences follows the column's lead
	flagUlps      = 0x40 // in the scale byte: a column of distances in floats follows the value column
	flagGrid      = 0x40 // in the byte of a column of timestamps: it holds distances from a grid
	scaleRaw      = 31   // the column holds bit patterns
	exponentMax   = 22   // 10^22 is the largest power of ten that a float64 holds exactly
	countMax      = keyschema.HourMs
	mantissaLimit = 1 << 53
	sampleBytes   = 8
)

// Errors. Both are wrapped with what is wrong.
var (
	// ErrCorrupt: the bytes are not a run, or a cell of the samples family, that this version writes. The cell is
	// damaged or was written by a newer version; no retry helps.
	ErrCorrupt = errors.New("corrupt run")
	// ErrBadColumns: the columns cannot be a run: not of equal length, empty, not strictly ascending, or not inside
	// the hour. The caller has to sort and split them.
	ErrBadColumns = errors.New("bad columns")
)

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// powers of ten that are exact; never written to.
var powers = [exponentMax + 1]float64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}
