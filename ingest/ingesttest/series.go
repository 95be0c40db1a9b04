package ingesttest

import "halite/storage/index/presence"

// EachHour calls visit for all hours of spans.
func EachHour(spans []presence.Span, visit func(hour int64)) {
	for _, span := range spans {
		for hour := span.First; hour <= span.Last; hour++ {
			visit(hour)
		}
	}
}
