package segment

// Layout holds the sizes by which the index is cut into rows and cells. They are not part of the format: a reader
// takes whatever it finds.
type Layout struct {
	// SmallMetricRows: metrics with fewer series share blocks, so that a day of many tiny metrics is a few rows.
	SmallMetricRows int
	// SharedBlockRows and SharedBlockColumns close a shared block.
	SharedBlockRows, SharedBlockColumns int
	// BlockRows splits the series of a huge metric: a row of the table must stay below 100 MiB.
	BlockRows int
	// InlineBytes: a block whose columns fit keeps them in the header's cell.
	InlineBytes int
	// CellBytes bounds what goes into one cell: large cells would share storage blocks with small neighbours that are
	// read alone. A single longer value still gets a chunk of its own.
	CellBytes int
	// RecordRows and partRuns bound the new series and the runs of hours in a part of a journal.
	RecordRows, RecordRuns int
	// ApplyBytes is how much a compaction sends in one request.
	ApplyBytes int
	// Months says when months are read and, by daysMin, when they are written; monthRows bounds the series of the days
	// that one compaction of a month takes in.
	Months    MonthRule
	MonthRows uint64
}

func DefaultLayout() Layout {
	return Layout{
		SmallMetricRows: 512, SharedBlockRows: 1024, SharedBlockColumns: 256, BlockRows: 1 << 19,
		InlineBytes: 48 << 10, CellBytes: 60 << 10, RecordRows: 8192, RecordRuns: 1 << 15, ApplyBytes: 1 << 20,
		Months: MonthRule{DaysMin: 4, Share: 2}, MonthRows: 4 << 20,
	}
}

// MonthRule says from when on a month is read instead of its days.
type MonthRule struct {
	// DaysMin is the least number of days that the month must take off a query.
	DaysMin int
	// Share: the days' series together must be at least 1/share of the month's.
	Share uint64
}
