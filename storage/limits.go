package storage

import (
	"bytes"
	"fmt"
	"time"
)

// Limits of Bigtable. They hold for every engine.
const (
	// KeyBytesMax bounds a row key, which also must not be empty.
	KeyBytesMax = 4 << 10
	// QualifierBytesMax bounds a column qualifier, which may be empty.
	QualifierBytesMax = 16 << 10
	// CellBytesMax bounds the value of one cell.
	CellBytesMax = 10 << 20
	// RowMutationBytesMax bounds the qualifiers and values of one row mutation together.
	RowMutationBytesMax = 100 << 20
	// RowBytesMax is the size of the largest row that Bigtable reads. WideRowBytes is 1 % of it: a row of that size is wide.
	RowBytesMax  = 256 << 20
	WideRowBytes = RowBytesMax / 100
	// FamiliesMax bounds the families of a table.
	FamiliesMax = 100
	// TablesMax bounds the tables of a store.
	TablesMax = 1000
	// EntriesMax bounds the entries of one row mutation and of all mutations of one Apply together.
	EntriesMax = 100_000
	// TsMsMax is the largest cell timestamp: the last millisecond of the year 9999.
	TsMsMax = 253_402_300_799_999

	tableNameBytesMax  = 50
	familyNameBytesMax = 16

	hourKeySeparators = 3
	hourKeyDigits     = 7
)

// Validate reports every breach of the rules for names and numbers, joined into one error that wraps ErrBadMutation.
func (s TableSchema) Validate() error {
	var faults []string
	if !validName(s.Name, tableNameBytesMax) {
		faults = append(faults, fmt.Sprintf("table name %q must have 1-%d characters of [a-z0-9_]", s.Name, tableNameBytesMax))
	}
	if n := len(s.Families); n == 0 || n > FamiliesMax {
		faults = append(faults, fmt.Sprintf("%d families, need 1-%d", n, FamiliesMax))
	}
	seen := make(map[string]bool, len(s.Families))
	for _, f := range s.Families {
		if !validName(f.Name, familyNameBytesMax) {
			faults = append(faults, fmt.Sprintf("family name %q must have 1-%d characters of [a-z0-9_]", f.Name,
				familyNameBytesMax))
		}
		if seen[f.Name] {
			faults = append(faults, fmt.Sprintf("family %q declared twice", f.Name))
		}
		seen[f.Name] = true
		if f.Kind > MaxInt64 {
			faults = append(faults, fmt.Sprintf("family %q has unknown kind %d", f.Name, f.Kind))
		}
		if f.GC.MaxAge < 0 || f.GC.MaxVersions < 0 {
			faults = append(faults, fmt.Sprintf("family %q has a negative GC limit", f.Name))
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: table schema: %q", ErrBadMutation, faults)
	}
	return nil
}

func validName(name string, bytesMax int) bool {
	if name == "" || len(name) > bytesMax {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// Family returns the family with this name.
func (s *TableSchema) Family(name string) (Family, bool) {
	for i := range s.Families {
		if s.Families[i].Name == name {
			return s.Families[i], true
		}
	}
	return Family{}, false
}

// CheckKey returns an error that wraps ErrBadKey if the key cannot name a row of the table.
func CheckKey(schema *TableSchema, key []byte) error {
	switch {
	case len(key) == 0:
		return fmt.Errorf("%w: empty", ErrBadKey)
	case len(key) > KeyBytesMax:
		return fmt.Errorf("%w: %d bytes, at most %d allowed", ErrBadKey, len(key), KeyBytesMax)
	case schema.HourKeys && !isHourKey(key):
		return fmt.Errorf("%w: %.80q does not have the form a#b#c#hhhhhhh that table %s requires", ErrBadKey, key, schema.Name)
	}
	return nil
}

// isHourKey reports whether the key has exactly three '#' and exactly seven digits after the last one.
func isHourKey(key []byte) bool {
	last := len(key) - hourKeyDigits - 1
	if last < hourKeySeparators-1 || key[last] != '#' {
		return false
	}
	for _, c := range key[last+1:] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return bytes.Count(key[:last], []byte{'#'}) == hourKeySeparators-1
}

// CheckMutation checks a mutation against the table's schema and all limits for one row. Its error wraps ErrBadKey or
// ErrBadMutation. Every engine calls it before it changes anything.
func CheckMutation(schema *TableSchema, m *RowMutation) error {
	if err := CheckKey(schema, m.Key); err != nil {
		return err
	}
	if n := len(m.Entries); n == 0 || n > EntriesMax {
		return fmt.Errorf("%w: %d entries, need 1-%d", ErrBadMutation, n, EntriesMax)
	}
	sizeBytes := 0
	for i := range m.Entries {
		e := &m.Entries[i]
		if err := checkEntry(schema, e); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		sizeBytes += len(e.Qualifier) + len(e.Value)
	}
	if sizeBytes > RowMutationBytesMax {
		return fmt.Errorf("%w: %d bytes in one row, at most %d allowed", ErrBadMutation, sizeBytes, RowMutationBytesMax)
	}
	return nil
}

func checkEntry(schema *TableSchema, e *Entry) error {
	if e.Kind > DeleteRow {
		return fmt.Errorf("%w: unknown kind %d", ErrBadMutation, e.Kind)
	}
	if e.Kind == DeleteRow {
		return nil
	}
	f, ok := schema.Family(e.Family)
	if !ok {
		return fmt.Errorf("%w: table %s has no family %q", ErrBadMutation, schema.Name, e.Family)
	}
	if len(e.Qualifier) > QualifierBytesMax {
		return fmt.Errorf("%w: qualifier of %d bytes, at most %d allowed", ErrBadMutation, len(e.Qualifier),
			QualifierBytesMax)
	}
	switch e.Kind {
	case SetCell, AddToCell:
		if (e.Kind == SetCell) != (f.Kind == Plain) {
			return fmt.Errorf("%w: SetCell needs a plain family, AddToCell needs an aggregate; %q has kind %d",
				ErrBadMutation, f.Name, f.Kind)
		}
		if e.TsMs < 0 || e.TsMs > TsMsMax {
			return fmt.Errorf("%w: timestamp %d outside 0-%d", ErrBadMutation, e.TsMs, int64(TsMsMax))
		}
		if len(e.Value) > CellBytesMax {
			return fmt.Errorf("%w: cell of %d bytes, at most %d allowed", ErrBadMutation, len(e.Value), CellBytesMax)
		}
	case DeleteCells:
		if e.FromMs < 0 || e.ToMs < 0 || e.ToMs != 0 && e.ToMs <= e.FromMs {
			return fmt.Errorf("%w: time range [%d,%d) is negative or empty", ErrBadMutation, e.FromMs, e.ToMs)
		}
	}
	return nil
}

// CheckApply checks that one Apply may carry all these mutations. Its error wraps ErrBadMutation. CheckMutation checks the
// single rows.
func CheckApply(muts []RowMutation) error {
	entries := 0
	for i := range muts {
		entries += len(muts[i].Entries)
	}
	if entries > EntriesMax {
		return fmt.Errorf("%w: %d entries in one request, at most %d allowed", ErrBadMutation, entries, EntriesMax)
	}
	return nil
}

// CheckLoad checks that Load may take these mutations: each passes CheckMutation, keys strictly ascend, and all entries are
// SetCell.
func CheckLoad(schema *TableSchema, muts []RowMutation) error {
	for i := range muts {
		m := &muts[i]
		if err := CheckMutation(schema, m); err != nil {
			return fmt.Errorf("load row %d: %w", i, err)
		}
		if i > 0 && bytes.Compare(muts[i-1].Key, m.Key) >= 0 {
			return fmt.Errorf("load row %d: %w: key %.80q does not sort after its predecessor", i, ErrBadMutation, m.Key)
		}
		for j := range m.Entries {
			if m.Entries[j].Kind != SetCell {
				return fmt.Errorf("load row %d entry %d: %w: only SetCell can be loaded", i, j, ErrBadMutation)
			}
		}
	}
	return nil
}

// Validate returns an error that wraps ErrBadMutation if an option is negative.
func (o ReadOptions) Validate() error {
	f := o.Filter
	if o.RowsMax < 0 || f.VersionsMax < 0 || f.FromMs < 0 || f.ToMs < 0 {
		return fmt.Errorf("%w: negative number in read options", ErrBadMutation)
	}
	return nil
}

// CutoffMs returns the timestamp below which cells are older than MaxAge at the time now. It returns 0 without an age limit.
func (p GCPolicy) CutoffMs(now time.Time) int64 {
	if p.MaxAge <= 0 {
		return 0
	}
	oldest := now.Add(-p.MaxAge)
	cutoffMs := oldest.UnixMilli()
	if oldest.Nanosecond()%int(time.Millisecond) != 0 {
		cutoffMs++
	}
	return max(cutoffMs, 0)
}

// Garbage reports whether a cell is garbage. cutoffMs is the result of CutoffMs. newer is the number of newer versions of the
// cell's column in the read.
func (p GCPolicy) Garbage(tsMs, cutoffMs int64, newer int) bool {
	tooOld := tsMs < cutoffMs
	tooMany := p.MaxVersions > 0 && newer >= p.MaxVersions
	if p.Intersection {
		// A limit that is not set accepts every cell as garbage, so with one limit the intersection is that limit.
		return (tooOld || p.MaxAge <= 0) && (tooMany || p.MaxVersions <= 0) && (tooOld || tooMany)
	}
	return tooOld || tooMany
}
