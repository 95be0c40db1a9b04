package expression

import (
	"github.com/prometheus/prometheus/model/labels"

	"halite/query/opentsdb/aggregation"
)

// Series is a series of a response.
type Series struct {
	// Metric is the name of the metric, or an alias.
	Metric string
	// Tags are the tags that all series of its group share, sorted. AggregateTags are the keys of the other tags.
	Tags          []labels.Label
	AggregateTags []string
	// TSUIDs are the tsuids of the group's series, sorted; nil unless the query sets show_tsuids.
	TSUIDs []string
	// FormerTSUIDs are the tsuids of the same series under their stored names; nil unless aliases rename them.
	FormerTSUIDs []string
	aggregation.Result
}

// double returns value i as a double.
func (s *Series) double(i int) float64 {
	if s.Integers != nil {
		return float64(s.Integers[i])
	}
	return s.Doubles[i]
}

// doubles returns all values as doubles. Callers must not change the slice.
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
