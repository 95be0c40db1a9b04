package plan

// Costs are sizes in bytes, measured on the emulator with counters and gauges of ten labels. This command measures them
// again and fails if they have changed:
//
//	go test -run TestCostsAreTrue -v ./loadtest/plan
//
// Sizes include keys, qualifiers and values before the service compresses them.
type Costs struct {
	// The packed row of a series and hour has RowBytes + samples · RowSampleBytes.
	RowBytes       float64 `json:"row_bytes"`
	RowSampleBytes float64 `json:"row_sample_bytes"`
	// RowWireBytes is the overhead of a row in a request.
	RowWireBytes float64 `json:"row_wire_bytes"`
	// CellBytes is the size of a sample with its row key, as one mutation. CellStoredBytes is the size of each further cell
	// of the same row in storage: qualifier, timestamp and value. CellWireBytes is the overhead of a mutation in a request.
	CellBytes       float64 `json:"cell_bytes"`
	CellStoredBytes float64 `json:"cell_stored_bytes"`
	CellWireBytes   float64 `json:"cell_wire_bytes"`
	// IndexBytes is the size of a series and day in the series index, after its compaction.
	IndexBytes float64 `json:"index_bytes"`
	// HoursBytes is the size of a series' 24 rollups of hours. DaysBytes is the size of its rollups of the days of a month.
	HoursBytes float64 `json:"hours_bytes"`
	DaysBytes  float64 `json:"days_bytes"`
}

// MeasuredCosts returns the costs that the test measured.
func MeasuredCosts() Costs {
	return Costs{
		RowBytes: 231, RowSampleBytes: 1.23, RowWireBytes: 28.6,
		CellBytes: 216, CellStoredBytes: 21, CellWireBytes: 26.1,
		IndexBytes: 5.84, HoursBytes: 354, DaysBytes: 786,
	}
}
