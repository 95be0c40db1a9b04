package run

// Row folds cells.
type Row struct{}

// Reset empties the row.
func (r *Row) Reset(hourStartMs int64) { panic("declared") }

// Add adds a cell.
func (r *Row) Add(qualifier, value []byte) error { panic("declared") }

// Columns returns the samples.
func (r *Row) Columns() (tsMs []int64, values []float64) { panic("declared") }
