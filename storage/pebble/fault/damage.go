package fault

import (
	"fmt"
	"time"

	"halite/storage"
	"halite/storage/pebble/cellkey"
)

// Damage is a damaged file, or a damaged range of keys in a file. It is an error that wraps
// storage.ErrCorrupt.
type Damage struct {
	// File is the name of the file in the directory of the tree.
	File   string
	Reason string
	// Table is the table of the rows that cannot be read. It is empty if the file holds no rows.
	Table string
	// FirstDay and LastDay are the unix days of these rows' cells.
	FirstDay, LastDay int32
	// FirstRow and LastRow bound the rows. Each bound is the nearest readable key, so both rows may be intact.
	FirstRow, LastRow string
}

// Error is part of error.
func (d *Damage) Error() string {
	if d.Table == "" {
		return fmt.Sprintf("table file %s: %s", d.File, d.Reason)
	}
	return fmt.Sprintf("table file %s: %s; it holds table %s, days %s to %s, rows %q to %q", d.File, d.Reason, d.Table,
		DayText(d.FirstDay), DayText(d.LastDay), d.FirstRow, d.LastRow)
}

// Unwrap returns storage.ErrCorrupt.
func (d *Damage) Unwrap() error { return storage.ErrCorrupt }

// DayText returns a unix day as a date.
func DayText(day int32) string {
	return time.Unix(int64(day)*cellkey.DayMs/1000, 0).UTC().Format(time.DateOnly)
}
