package storage

import "time"

// TableSchema declares a table.
type TableSchema struct {
	// Name has 1–50 characters of [a-z0-9_].
	Name string
	// Families, at most FamiliesMax.
	Families []Family
	// HourKeys promises that each row key has the form a#b#c#hhhhhhh: exactly three '#', and seven digits after the last one.
	// Engines may then store the hour in binary and place rows by it. They refuse other keys with ErrBadKey.
	HourKeys bool
}

// Family declares a column family.
type Family struct {
	// Name has 1–16 characters of [a-z0-9_].
	Name string
	Kind FamilyKind
	GC   GCPolicy
}

// FamilyKind is the meaning of a write to a cell. The values are stored on disk: never renumber them.
type FamilyKind uint8

const (
	// Plain cells are overwritten by SetCell.
	Plain FamilyKind = 0
	// SumInt64, MinInt64 and MaxInt64 cells merge each AddToCell into an int64 stored as 8 big-endian bytes.
	SumInt64 FamilyKind = 1
	MinInt64 FamilyKind = 2
	MaxInt64 FamilyKind = 3
)

// GCPolicy says which cells of a family are garbage. The zero value keeps all cells. Reads hide garbage at once. The engine
// frees its space later.
type GCPolicy struct {
	// MaxAge makes cells garbage whose timestamp is older than now − MaxAge; 0 means no limit.
	MaxAge time.Duration
	// MaxVersions makes all but the newest MaxVersions cells of each column garbage; 0 means no limit. Until the garbage is
	// collected, a read with a time range counts only versions in that range.
	MaxVersions int
	// Intersection makes a cell garbage only if both limits do. Otherwise either limit suffices.
	Intersection bool
}
