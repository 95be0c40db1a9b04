package ingesttest

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage/index/presence"
)

// EachHour calls visit for all hours of spans.
func EachHour(spans []presence.Span, visit func(hour int64)) {
	for _, span := range spans {
		for hour := span.First; hour <= span.Last; hour++ {
			visit(hour)
		}
	}
}

// TagsOf splits the labels of a series into its metric and its tags.
func TagsOf(ls labels.Labels) (metric string, tags []keyschema.Tag) {
	ls.Range(func(l labels.Label) {
		if l.Name == model.MetricNameLabel {
			metric = l.Value
			return
		}
		tags = append(tags, keyschema.Tag{Name: l.Name, Value: l.Value})
	})
	return metric, tags
}
