package plan

// Costs are what things take, measured with series of ten labels, counters and gauges mixed, on the emulator. The
// command that measures them again, and fails if they are no longer true, is
//
//	go test -run TestCostsAreTrue -v ./loadtest/plan
//
// Bytes are those of keys, qualifiers and values before the service compresses them.
type Costs struct {
	// RowBytes and RowSampleBytes make the packed row of a series and hour: RowBytes + samples · RowSampleBytes.
	RowBytes       float64 `json:"row_bytes"`
	RowSampleBytes float64 `json:"row_sample_bytes"`
	// RowWireBytes is what the request adds to a row.
	RowWireBytes float64 `json:"row_wire_bytes"`
	// CellBytes is a sample that is a row mutation of its own; CellRestBytes what each further cell of the same row
	// takes where it rests: qualifier, timestamp and value. CellWireBytes is what the request adds to a mutation.
	CellBytes     float64 `json:"cell_bytes"`
	CellRestBytes float64 `json:"cell_rest_bytes"`
	CellWireBytes float64 `json:"cell_wire_bytes"`
	// CatalogueBytes is a series and day in the tables of series and labels.
	CatalogueBytes float64 `json:"catalogue_bytes"`
	// HoursBytes is the states of a series' 24 hours; DaysBytes those of its days of a month.
	HoursBytes float64 `json:"hours_bytes"`
	DaysBytes  float64 `json:"days_bytes"`
}

// MeasuredCosts returns what the test measured.
func MeasuredCosts() Costs {
	return Costs{
		RowBytes: 231, RowSampleBytes: 1.23, RowWireBytes: 28.6,
		CellBytes: 216, CellRestBytes: 21, CellWireBytes: 26.1,
		CatalogueBytes: 5.84, HoursBytes: 354, DaysBytes: 786,
	}
}
