package expression

import (
	"github.com/prometheus/prometheus/model/labels"

	"halite/query/opentsdb/aggregation"
)

// Series is a series of an answer.
type Series struct {
	// Metric is the name of the metric, or an alias.
	Metric string
	// Tags are the tags that all series of its group share, sorted. AggregateTags are the keys of the other tags.
	Tags          []labels.Label
	AggregateTags []string
	// TSUIDs are the ids of the series, sorted; nil unless the query wants them.
	TSUIDs []string
	// FormerTSUIDs are other ids of the series, computed from its stored names; nil unless aliases rename the series.
	FormerTSUIDs []string
	aggregation.Answer
}

// double returns value i as a double.
func (s *Series) double(i int) float64 {
	if s.Integers != nil {
		return float64(s.Integers[i])
	}
	return s.Doubles[i]
}

// doubles returns all values as doubles. Callers do not change the slice.
func (s *Series) doubles() []float64 {
	if s.Integers == nil {
		return s.Doubles
	}
	out := make([]float64, len(s.Integers))
	for i, v := range s.Integers {
		out[i] = float64(v)
	}
	return out
}
