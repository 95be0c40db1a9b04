package direct

import (
	"sync/atomic"
	"time"

	"halite/keyschema"
	"halite/storage/index/presence"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

const (
	dayMs = keyschema.HourMs * keyschema.DayHours
	// startMs is the clock at the beginning: 20 minutes into an hour.
	startMs = 472_222*keyschema.HourMs + 20*60_000
)

// clock is a clock that tests move.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(startMs)
	return c
}

func (c *clock) now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// eachHour calls visit for all hours of spans.
func eachHour(spans []presence.Span, visit func(hour int64)) {
	for _, span := range spans {
		for hour := span.First; hour <= span.Last; hour++ {
			visit(hour)
		}
	}
}

// tagsOf splits the labels of a series.
func tagsOf(ls labels.Labels) (metric string, tags []keyschema.Tag) {
	ls.Range(func(l labels.Label) {
		if l.Name == model.MetricNameLabel {
			metric = l.Value
			return
		}
		tags = append(tags, keyschema.Tag{Name: l.Name, Value: l.Value})
	})
	return metric, tags
}
