package tombstone

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
)

// Tombstone is one deletion. It is immutable once it is in a Set.
type Tombstone struct {
	// ID numbers the deletions of a store from 1.
	ID uint64
	// Seq is the sequence number below which chunks lose samples.
	Seq uint32
	// FromMs and ToMs are the first and last deleted millisecond; 0 ≤ FromMs ≤ ToMs.
	FromMs, ToMs int64
	// MadeMs is the time of the deletion in milliseconds since 1970.
	MadeMs int64
	// Pending means that the index may still list hours without samples because of the tombstone.
	Pending bool
	// Selectors name the series: a series must match all matchers of one selector. No selector is empty.
	Selectors [][]*labels.Matcher
}

// String describes the tombstone for logs.
func (t *Tombstone) String() string {
	return fmt.Sprintf("%d: %s from %d to %d ms", t.ID, SelectorsText(t.Selectors), t.FromMs, t.ToMs)
}

// SelectorsText formats selectors as in PromQL.
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

// Matches reports whether the tombstone applies to a series.
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

// covers reports whether a whole hour is deleted, overlaps whether any part of it is.
func (t *Tombstone) covers(hour int64) bool {
	return t.FromMs <= keyschema.HourStartMs(hour) && t.ToMs >= keyschema.HourCellMs(hour)
}

func (t *Tombstone) overlaps(hour int64) bool {
	return t.Overlaps(keyschema.HourStartMs(hour), keyschema.HourCellMs(hour))
}

// Overlaps reports whether any part of the time from fromMs to toMs, both inclusive, is deleted.
func (t *Tombstone) Overlaps(fromMs, toMs int64) bool { return t.FromMs <= toMs && t.ToMs >= fromMs }

// metric returns the only metric that a selector can match, if there is one.
func metric(ms []*labels.Matcher) (string, bool) {
	for _, m := range ms {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return m.Value, true
		}
	}
	return "", false
}

// Metrics lists the only metrics that the selectors can match; ok is false if a selector names no metric.
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

// Names lists metrics and tenants: each series that the selectors can match has one of the metrics, or belongs to one of the
// tenants. ok is false if a selector bounds neither.
func Names(selectors [][]*labels.Matcher) (metrics, tenants []string, ok bool) {
	for _, ms := range selectors {
		if name, ok := metric(ms); ok {
			metrics = append(metrics, name)
			continue
		}
		tenant, ok := tenantOf(ms)
		if !ok {
			return nil, nil, false
		}
		tenants = append(tenants, tenant)
	}
	return metrics, tenants, true
}

// tenantOf returns the only tenant whose series a selector can match, if it has a matcher such as __name__=~"&acme&.+".
func tenantOf(ms []*labels.Matcher) (string, bool) {
	for _, m := range ms {
		if m.Name != model.MetricNameLabel || m.Type != labels.MatchRegexp {
			continue
		}
		// A name may follow at once.
		if prefix, _ := keyschema.SplitTenant(m.Prefix() + "a"); prefix != "" {
			return keyschema.TenantOf(prefix), true
		}
	}
	return "", false
}

// probes are values that no label has. A matcher that accepts all of them excludes hardly any series.
var probes = [...]string{"a", "Zq_7", "0", "~", "some_metric_total", "é\n", "10.11.12.13:9100"}

// Everything reports whether a selector may match series of all metrics, because each of its matchers accepts nearly all
// values.
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

// Validate lists all faults of a new tombstone.
func (t *Tombstone) Validate() error {
	var errs []error
	if t.FromMs < 0 || t.ToMs < t.FromMs {
		errs = append(errs, fmt.Errorf("time range %d to %d ms is empty or before 1970", t.FromMs, t.ToMs))
	}
	if len(t.Selectors) == 0 {
		errs = append(errs, errors.New("the deletion has no selector"))
	}
	for _, ms := range t.Selectors {
		if len(ms) == 0 {
			errs = append(errs, errors.New("a selector without matchers"))
		}
	}
	return errors.Join(errs...)
}
