package segment

// Layout holds the sizes of rows and cells. They are not part of the format: a reader accepts any size.
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
	// RecordRows and RecordRuns bound the new series and the runs of hours in a record of a journal.
	RecordRows, RecordRuns int
	// ApplyBytes is how much a compaction sends in one request.
	ApplyBytes int
	// Months says when months are read and, by DaysMin, when they are written. MonthRows bounds the series of the days that one
	// compaction of a month takes in.
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

// MonthRule says when a month is read instead of its days.
type MonthRule struct {
	// DaysMin is the least number of days that the month must save a query.
	DaysMin int
	// Share: the series of the days together must be at least 1/Share of the month's.
	Share uint64
}
