package deletion

import (
	"time"

	"halite/storage/tombstone"
)

// Status describes the deletions of a store whose rows are not clean yet.
type Status struct {
	// Deletions are in the order of their ids.
	Deletions []*tombstone.Tombstone
	// Cleaning is the progress of Clean; nil if this process does not clean.
	Cleaning *Progress
}

// Progress describes how far a call of Clean is.
type Progress struct {
	Began time.Time
	// Deletions is the number of deletions that the call cleans.
	Deletions int
	// RowsRead counts the row keys that the call has checked, RowsRewritten and RowsRemoved the rows that it has changed.
	RowsRead, RowsRewritten, RowsRemoved int64
}

// Cleaning returns the progress of the running Clean; nil if none runs.
func (d *Deleter) Cleaning() *Progress { return d.cleaning.Load() }

// reportProgress publishes the progress of a cleaner.
func (c *cleaner) reportProgress() {
	now := c.progress
	now.RowsRewritten, now.RowsRemoved = c.report.RowsRewritten, c.report.RowsRemoved
	c.d.cleaning.Store(&now)
}
