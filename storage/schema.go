package storage

import "time"

// TableSchema declares a table.
type TableSchema struct {
	// Name has 1–50 characters of [a-z0-9_].
	Name string
	// Families, at most FamiliesMax.
	Families []Family
	// HourKeys promises that each row key has the form a#b#c#hhhhhhh: exactly three '#' and seven digits after the last.
	// Engines may then store the hour in binary and place rows by it; keys of another form are refused with ErrBadKey.
	HourKeys bool
}

// Family declares a column family.
type Family struct {
	// Name has 1–16 characters of [a-z0-9_].
	Name string
	Kind FamilyKind
	GC   GCPolicy
}

// FamilyKind says what writing to a cell means. The values are stored on disk: never renumber them.
type FamilyKind uint8

const (
	// Plain cells are overwritten by SetCell.
	Plain FamilyKind = 0
	// SumInt64, MinInt64 and MaxInt64 cells merge each AddToCell into an int64 stored as 8 big-endian bytes.
	SumInt64 FamilyKind = 1
	MinInt64 FamilyKind = 2
	MaxInt64 FamilyKind = 3
)

// GCPolicy says which cells of a family are garbage. The zero value keeps all. Reads hide garbage at once; its space is
// freed later.
type GCPolicy struct {
	// MaxAge makes cells whose timestamp is older than now − MaxAge garbage; 0 means no limit.
	MaxAge time.Duration
	// MaxVersions keeps the newest that many cells of each column; 0 means no limit. A read with a time range sees the
	// column as if it had no cells outside that range, and counts versions accordingly, until the garbage is collected.
	MaxVersions int
	// Intersection makes a cell garbage only if both limits say so; otherwise either suffices.
	Intersection bool
}
