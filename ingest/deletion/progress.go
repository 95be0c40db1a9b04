package deletion

import (
	"time"

	"halite/storage/tombstone"
)

// Status describes the deletions of a store whose rows are not yet clean.
type Status struct {
	// Deletions are in the order of their ids.
	Deletions []*tombstone.Tombstone
	// Cleaning is the progress of Clean; nil if this process is not cleaning.
	Cleaning *Progress
}

// Progress is the progress of a call of Clean.
type Progress struct {
	Began time.Time
	// Deletions is the number of deletions that the call cleans.
	Deletions int
	// RowsRead counts the row keys checked so far. RowsRewritten and RowsRemoved count the changed rows.
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
