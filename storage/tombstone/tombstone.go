package tombstone

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
)

// Tombstone is one deletion. It is never changed once it is in a Set.
type Tombstone struct {
	// ID numbers the deletions of a store from 1.
	ID uint64
	// Seq is the sequence number below which runs lose samples.
	Seq uint32
	// FromMs and ToMs are the first and last millisecond that are deleted; 0 ≤ FromMs ≤ ToMs.
	FromMs, ToMs int64
	// MadeMs is when it was deleted, in milliseconds since 1970.
	MadeMs int64
	// Pending says that the index may still list hours without samples because of it.
	Pending bool
	// Selectors name the series: those that match all matchers of any selector. None is empty.
	Selectors [][]*labels.Matcher
}

// String describes the tombstone for logs.
func (t *Tombstone) String() string {
	return fmt.Sprintf("%d: %s from %d to %d ms", t.ID, SelectorsText(t.Selectors), t.FromMs, t.ToMs)
}

// SelectorsText writes selectors down as PromQL does.
func SelectorsText(selectors [][]*labels.Matcher) string {
	var b strings.Builder
	for i, ms := range selectors {
		if i > 0 {
			b.WriteString(" or ")
		}
		b.WriteByte('{')
		for j, m := range ms {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(m.String())
		}
		b.WriteByte('}')
	}
	return b.String()
}

// Matches reports whether the tombstone concerns a series.
func (t *Tombstone) Matches(metric string, tags []keyschema.Tag) bool {
	for _, ms := range t.Selectors {
		if matchesAll(ms, metric, tags) {
			return true
		}
	}
	return false
}

func matchesAll(ms []*labels.Matcher, metric string, tags []keyschema.Tag) bool {
	for _, m := range ms {
		value := metric
		if m.Name != model.MetricNameLabel {
			value = tagValue(tags, m.Name)
		}
		if !m.Matches(value) {
			return false
		}
	}
	return true
}

func tagValue(tags []keyschema.Tag, name string) string {
	for i := range tags {
		if tags[i].Name == name {
			return tags[i].Value
		}
	}
	return ""
}

// covers reports whether all of an hour is deleted, overlaps whether any of it is.
func (t *Tombstone) covers(hour int64) bool {
	return t.FromMs <= keyschema.HourStartMs(hour) && t.ToMs >= keyschema.HourCellMs(hour)
}

func (t *Tombstone) overlaps(hour int64) bool {
	return t.Overlaps(keyschema.HourStartMs(hour), keyschema.HourCellMs(hour))
}

// Overlaps reports whether any of the time from fromMs to toMs, both inclusive, is deleted.
func (t *Tombstone) Overlaps(fromMs, toMs int64) bool { return t.FromMs <= toMs && t.ToMs >= fromMs }

// metric returns the only metric that a selector can match, if it names one.
func metric(ms []*labels.Matcher) (string, bool) {
	for _, m := range ms {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return m.Value, true
		}
	}
	return "", false
}

// Metrics lists the only metrics that the selectors can match; not ok if one of them does not name a metric.
func Metrics(selectors [][]*labels.Matcher) (metrics []string, ok bool) {
	for _, ms := range selectors {
		name, ok := metric(ms)
		if !ok {
			return nil, false
		}
		metrics = append(metrics, name)
	}
	return metrics, true
}

// probes are values that nobody names: a matcher that takes them all hardly chooses.
var probes = [...]string{"a", "Zq_7", "0", "~", "some_metric_total", "é\n", "10.11.12.13:9100"}

// Everything reports whether a selector may match series of all metrics: none of its matchers asks for anything in
// particular.
func Everything(selectors [][]*labels.Matcher) bool {
	for _, ms := range selectors {
		narrow := false
		for _, m := range ms {
			narrow = narrow || !broad(m)
		}
		if !narrow {
			return true
		}
	}
	return false
}

func broad(m *labels.Matcher) bool {
	if m.Name != model.MetricNameLabel && m.Matches("") {
		return true // series that lack the label
	}
	for _, p := range probes {
		if !m.Matches(p) {
			return false
		}
	}
	return true
}

// Validate lists what is wrong with a tombstone that is to be added.
func (t *Tombstone) Validate() error {
	var errs []error
	if t.FromMs < 0 || t.ToMs < t.FromMs {
		errs = append(errs, fmt.Errorf("time range %d to %d ms is empty or before 1970", t.FromMs, t.ToMs))
	}
	if len(t.Selectors) == 0 {
		errs = append(errs, errors.New("no selector"))
	}
	for _, ms := range t.Selectors {
		if len(ms) == 0 {
			errs = append(errs, errors.New("a selector without matchers"))
		}
	}
	return errors.Join(errs...)
}
