package lookup

// Work counts what a look-up reads in the index. A look-up reads no rows of samples.
type Work struct {
	// Metrics counts the metrics in memory whose series were tested. DaySegments and MonthSegments count the segments on
	// disk, and Blocks counts their blocks.
	Metrics, DaySegments, MonthSegments, Blocks int
	// Values counts the label values that were compared with regular expressions and inequalities. Cached results of a
	// closed segment do not count.
	Values int64
	// Tested counts the candidate series. Matched counts the candidates that the matchers accept. A series counts in each
	// place that holds it.
	Tested, Matched int64
	// Found is the number of series, names or values in the result.
	Found int
}

// Add adds the work of another look-up.
func (w *Work) Add(o Work) {
	w.Metrics += o.Metrics
	w.DaySegments += o.DaySegments
	w.MonthSegments += o.MonthSegments
	w.Blocks += o.Blocks
	w.Values += o.Values
	w.Tested += o.Tested
	w.Matched += o.Matched
	w.Found += o.Found
}
