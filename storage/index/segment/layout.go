package segment

// Layout holds the sizes of rows and cells. They are not part of the format: a reader accepts any size.
type Layout struct {
	// SmallMetricRows is the number of series below which metrics share blocks, so that a day of many tiny metrics has few
	// rows.
	SmallMetricRows int
	// SharedBlockRows and SharedBlockColumns bound a shared block.
	SharedBlockRows, SharedBlockColumns int
	// BlockRows bounds the series in a block of a large metric, because a row of the table must stay below 100 MiB.
	BlockRows int
	// InlineBytes bounds the columns that a block keeps in the cell of its header.
	InlineBytes int
	// CellBytes bounds the values in one cell. Larger cells would share storage blocks with small neighbours that look-ups
	// read alone. A single longer value still gets its own chunk.
	CellBytes int
	// RecordRows bounds the new series in a record of a journal. RecordRuns bounds its runs of hours.
	RecordRows, RecordRuns int
	// ApplyBytes bounds the size of a compaction's request.
	ApplyBytes int
	// Months decides when look-ups read months. Its DaysMin also decides when compactions write them. MonthRows bounds the
	// series of the days that one compaction of a month adds.
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

// MonthRule decides when a look-up reads a month instead of its days.
type MonthRule struct {
	// DaysMin is the least number of days that the month must replace.
	DaysMin int
	// Share bounds the size of the month: its series are at most Share times the series of the days together.
	Share uint64
}
