package distribution

import "slices"

// Report is the distribution of the acknowledged samples over salts and tablets.
type Report struct {
	// Salts has one entry for each number of salts in the rules. It covers all metrics with this number together.
	Salts []BySalt `json:"salts"`
	// Metrics are the metrics with the most samples, each over its own salts.
	Metrics []ByMetric `json:"metrics"`
	// Tablets is nil if the server does not list its tablets. TabletsError says why.
	Tablets      *ByTablet `json:"tablets,omitempty"`
	TabletsError string    `json:"tablets_error,omitempty"`
}

// BySalt is the distribution of a group of series over salts.
type BySalt struct {
	Series  int  `json:"series"`
	Samples Skew `json:"samples"`
	// Rows counts a row for each series and hour.
	Rows Skew `json:"rows"`
	// Bytes counts the bytes of write requests before compression.
	Bytes Skew `json:"bytes"`
}

// ByMetric is the distribution of one metric.
type ByMetric struct {
	Metric string `json:"metric"`
	BySalt
}

// ByTablet is the distribution over the tablets that the server has at the end.
type ByTablet struct {
	// Samples and Rows of this load, assigned to tablets by their keys.
	Samples Skew `json:"samples"`
	Rows    Skew `json:"rows"`
	// RowsWritten and BytesWritten are counted by the server during the last CountedSeconds: since the load began or
	// since the last split. A row reaches its tablet when its hour is flushed, so a short load may show none.
	// CountedSeconds is 0 if tablets split at the very end; each tablet then counts since its creation.
	RowsWritten    Skew    `json:"rows_written"`
	BytesWritten   Skew    `json:"bytes_written"`
	CountedSeconds float64 `json:"counted_seconds"`
}

// Skew describes how unevenly a load falls on key ranges.
type Skew struct {
	// Ranges is the number of salts or tablets. Loads has the load of each.
	Ranges int     `json:"ranges"`
	Loads  []int64 `json:"loads"`
	// MaxOverMean is the load of the hottest range over the mean. HottestShare is its share of the total load.
	MaxOverMean  float64 `json:"max_over_mean"`
	HottestShare float64 `json:"hottest_share"`
	// Bound: with the same number of series placed at random, MaxOverMean stays below Bound with a probability of 99 %.
	// It is 0 if nothing is placed at random.
	Bound float64 `json:"bound,omitempty"`
}

// Sum returns the total load.
func (e *Skew) Sum() (sum int64) {
	for _, n := range e.Loads {
		sum += n
	}
	return sum
}

// newSkew summarizes loads. series is the number of series placed at random, or 0 for none.
func newSkew(loads []int64, series int) Skew {
	e := Skew{Ranges: len(loads), Loads: loads}
	if sum := e.Sum(); sum > 0 {
		e.HottestShare = float64(slices.Max(loads)) / float64(sum)
		e.MaxOverMean = e.HottestShare * float64(len(loads))
	}
	if series > 0 {
		e.Bound = maxOverMeanBound(series, len(loads))
	}
	return e
}
