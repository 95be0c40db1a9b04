package storage

// Row is one row of a read. Its cells are ordered by family name, then qualifier, then timestamp with the newest first.
type Row struct {
	Key   []byte
	Cells []Cell
}

// Cell is one version of one column. Aggregate cells hold 8 big-endian bytes.
type Cell struct {
	Family    string
	Qualifier []byte
	TsMs      int64
	Value     []byte
}

// RowMutation changes one row. It has at least one entry. Entries apply in order and atomically.
type RowMutation struct {
	Key     []byte
	Entries []Entry
}

// EntryKind is the kind of an Entry.
type EntryKind uint8

const (
	// SetCell writes Value at (Family, Qualifier, TsMs) of a plain family.
	SetCell EntryKind = iota
	// AddToCell merges the int64 in Add into the aggregate cell at (Family, Qualifier, TsMs).
	AddToCell
	// DeleteCells removes the versions of the column (Family, Qualifier) with FromMs ≤ timestamp < ToMs; ToMs 0 is open.
	DeleteCells
	// DeleteFamily removes all cells of Family.
	DeleteFamily
	// DeleteRow removes the whole row.
	DeleteRow
)

// Entry is one change within a RowMutation.
type Entry struct {
	Kind         EntryKind
	Family       string
	Qualifier    []byte
	TsMs         int64 // SetCell, AddToCell: 0 ≤ TsMs ≤ TsMsMax
	Value        []byte
	Add          int64
	FromMs, ToMs int64
}

// RowSet names the rows to read: single keys and ranges, in any order, which may overlap. An empty set reads nothing.
type RowSet struct {
	Keys   [][]byte
	Ranges []RowRange
}

// RowRange is the half-open range [Start, End); an empty End is unbounded.
type RowRange struct {
	Start, End []byte
}

// ReadOptions restricts a read.
type ReadOptions struct {
	Filter Filter
	// Reverse returns rows in descending key order.
	Reverse bool
	// RowsMax bounds the number of rows; 0 means no limit.
	RowsMax int
	// Deletions are the deletions that the data table hides from the read. nil means the deletions that are in force at the
	// time of the call. Engines ignore it.
	Deletions Deletions
}

// Deletions are the deletions in force at one moment. The package tombstone makes them.
type Deletions interface {
	// Current reports whether the deletions in force are still the same.
	Current() bool
	// Release frees the view. The caller must not use it afterwards.
	Release()
}

// Filter passes cells that meet every field. Zero fields pass all cells. A read returns only rows with a passing cell.
type Filter struct {
	// Families by name; empty means all.
	Families []string
	// QualifierStart ≤ qualifier < QualifierEnd; an empty end is unbounded.
	QualifierStart, QualifierEnd []byte
	// FromMs ≤ cell timestamp < ToMs; ToMs 0 is unbounded. An engine that places cells by time reads only the days in
	// between. So a caller that knows the time of its cells sets the bounds, even if the row key alone would suffice.
	FromMs, ToMs int64
	// VersionsMax bounds the cells of each column. Among the cells that pass all other fields, the newest VersionsMax pass.
	// 0 means all.
	VersionsMax int
	// KeysOnly returns cells with empty values.
	KeysOnly bool
}

// TabletChange is a change of the tablets of a table.
type TabletChange struct {
	// Kind is TabletSplit, TabletMerge or TabletMove.
	Kind  string
	Table string
	// Key is the first row of the tablet that a split created, a merge removed or a move affected.
	Key []byte
	// Reason says why, with figures, for operators.
	Reason string
}

// Kinds of a TabletChange.
const (
	TabletSplit = "split"
	TabletMerge = "merge"
	TabletMove  = "move"
)

// Tablet is a contiguous row range with its load since its creation, or since the store was opened if that is later.
type Tablet struct {
	Range                   RowRange
	SizeBytes               uint64
	RowsWritten, RowsRead   uint64
	BytesWritten, BytesRead uint64
}

// HotTablet is a tablet that took much of the CPU of a node, as the service of an engine reports it.
type HotTablet struct {
	Table string
	// StartKey and EndKey are the first and the last row of the tablet.
	StartKey, EndKey []byte
	// FromMs and ToMs bound the time of the load, milliseconds since 1970.
	FromMs, ToMs int64
	// CPUPercent is the average share of one node's CPU that the tablet took in that time: 0 to 100.
	CPUPercent float64
}
