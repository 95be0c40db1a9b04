package queries

import (
	"cmp"

	"halite/query/opentsdb/request"
)

// echo is a sub-query in the response to show_query.
type echo struct {
	Aggregator   string            `json:"aggregator"`
	Metric       *string           `json:"metric"`
	TSUIDs       []string          `json:"tsuids"`
	Downsample   *string           `json:"downsample"`
	Rate         bool              `json:"rate"`
	Filters      []echoFilter      `json:"filters"`
	Percentiles  []float64         `json:"percentiles"`
	Index        int               `json:"index"`
	RateOptions  *echoRate         `json:"rateOptions"`
	ExplicitTags bool              `json:"explicitTags"`
	PreAggregate bool              `json:"preAggregate"`
	RollupUsage  *string           `json:"rollupUsage"`
	RollupTable  string            `json:"rollupTable"`
	ShowBuckets  bool              `json:"showHistogramBuckets"`
	Tags         map[string]string `json:"tags"`
}

type echoFilter struct {
	Key     string `json:"tagk"`
	Text    string `json:"filter"`
	GroupBy bool   `json:"group_by"`
	Type    string `json:"type"`
}

type echoRate struct {
	Counter    bool  `json:"counter"`
	CounterMax int64 `json:"counterMax"`
	ResetValue int64 `json:"resetValue"`
	DropResets bool  `json:"dropResets"`
}

// echoOf returns the echo of a sub-query. rollup is the interval of the stored rollups that answered, or "".
func echoOf(s *request.SubQuery, rollup string) echo {
	e := echo{
		Aggregator: s.Aggregator.Name(), Metric: optional(s.Metric), TSUIDs: s.TSUIDs, Downsample: optional(s.Downsample),
		Rate: s.Rate != nil, Filters: []echoFilter{}, Percentiles: s.Percentiles, Index: s.Index, ExplicitTags: s.ExplicitTags,
		PreAggregate: s.PreAggregate,
		RollupUsage:  optional(s.RollupText), RollupTable: cmp.Or(rollup, "raw"), ShowBuckets: s.ShowBuckets,
		Tags: map[string]string{},
	}
	if s.RateOptions {
		e.RateOptions = &echoRate{s.Rate.Counter, s.Rate.CounterMax, s.Rate.ResetValue, s.Rate.DropResets}
	}
	for _, f := range s.Filters {
		e.Filters = append(e.Filters, echoFilter{f.Key, f.Text, f.GroupBy, f.Type})
		if f.GroupBy {
			e.Tags[f.Key] = f.Type + "(" + f.Text + ")"
		}
	}
	return e
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
