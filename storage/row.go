package storage

// Row is one row as read: its cells ordered by family name, then qualifier, then timestamp, newest first.
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

// RowMutation changes one row; its entries, at least one, apply in order and atomically.
type RowMutation struct {
	Key     []byte
	Entries []Entry
}

// EntryKind tells the entries of a mutation apart.
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

// RowSet names the rows to read: single keys and ranges, in any order, overlaps allowed. An empty set reads nothing.
type RowSet struct {
	Keys   [][]byte
	Ranges []RowRange
}

// RowRange is the half-open range [Start, End); an empty End is unbounded.
type RowRange struct {
	Start, End []byte
}

// ReadOptions narrows a read.
type ReadOptions struct {
	Filter Filter
	// Reverse yields rows in descending key order.
	Reverse bool
	// RowsMax ends the read after that many rows; 0 means no limit.
	RowsMax int
}

// Filter passes a cell that meets every field; zero fields pass all. Rows without a passing cell are not returned.
type Filter struct {
	// Families by name; empty means all.
	Families []string
	// QualifierStart ≤ qualifier < QualifierEnd; an empty end is unbounded.
	QualifierStart, QualifierEnd []byte
	// FromMs ≤ cell timestamp < ToMs; ToMs 0 is unbounded. An engine that places cells by time reads no other days, so a
	// caller who knows the cells' time should give it even where the row key alone would do.
	FromMs, ToMs int64
	// VersionsMax keeps the newest that many cells of each column that passed the rest; 0 means all.
	VersionsMax int
	// KeysOnly leaves the cells' values empty.
	KeysOnly bool
}

// Tablet is a contiguous row range with its load since it came to be, or since the store was opened if that is later.
type Tablet struct {
	Range                   RowRange
	SizeBytes               uint64
	RowsWritten, RowsRead   uint64
	BytesWritten, BytesRead uint64
}
