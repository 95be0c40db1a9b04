package lookup

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
)

// Tenant describes the owner of a series that a client sees without the tenant in front of the metric's name.
type Tenant struct {
	// Prefix begins the stored names of its metrics; "" for the default tenant.
	Prefix string
	// Label is the value of keyschema.TenantLabel that the labels get; "" if they do not get one.
	Label string
}

// Labels returns stored labels as the client sees them. b is overwritten.
func (t *Tenant) Labels(stored labels.Labels, b *labels.ScratchBuilder) labels.Labels {
	b.Reset()
	labelled := t.Label == ""
	stored.Range(func(l labels.Label) {
		if !labelled && l.Name > keyschema.TenantLabel {
			b.Add(keyschema.TenantLabel, t.Label)
			labelled = true
		}
		if l.Name == model.MetricNameLabel {
			l.Value = l.Value[len(t.Prefix):]
		}
		b.Add(l.Name, l.Value)
	})
	if !labelled {
		b.Add(keyschema.TenantLabel, t.Label)
	}
	return b.Labels()
}

// Alias describes the stored series behind a series with alias names.
type Alias struct {
	// Stored are the stored labels of the series. They are empty if it has Parts.
	Stored labels.Labels
	// FirstHour and LastHour bound the hours in which the stored series has the Labels. In other hours it has different
	// ones.
	FirstHour, LastHour int64
	// Parts are the stored series, at least two of them, if Labels and Hours cover several. At equal times the later part
	// wins. Each part has an Alias with its stored labels.
	Parts []Series
}

// Parts returns the stored series that make up a series, or nil if there is only one.
func (s *Series) Parts() []Series {
	if s.Alias == nil {
		return nil
	}
	return s.Alias.Parts
}

// AllLabels returns all labels of the series as the client sees them, also after SelectProjected.
func (s *Series) AllLabels(b *labels.ScratchBuilder) labels.Labels {
	switch {
	case s.v == nil || s.Alias != nil:
		return s.Labels
	case s.Tenant == nil:
		return s.v.Labels(s.row, b)
	}
	stored := s.v.Labels(s.row, b)
	return s.Tenant.Labels(stored, b)
}

// Metric returns the stored name of the metric. If there are several parts, it is the name of the last one.
func (s *Series) Metric() string {
	if s.Alias != nil {
		if n := len(s.Alias.Parts); n > 0 {
			return s.Alias.Parts[n-1].Metric()
		}
		return s.Alias.Stored.Get(model.MetricNameLabel)
	}
	name := s.Labels.Get(model.MetricNameLabel)
	if s.Tenant == nil {
		return name
	}
	return s.Tenant.Prefix + name
}

// AppendTags appends all stored labels but the metric's name to tags. The series has no parts.
func (s *Series) AppendTags(tags []keyschema.Tag, b *labels.ScratchBuilder) []keyschema.Tag {
	own := s.Tenant != nil && s.Tenant.Label != "" && s.Alias == nil
	stored := s.AllLabels(b)
	if s.Alias != nil {
		stored = s.Alias.Stored
	}
	stored.Range(func(l labels.Label) {
		if l.Name != model.MetricNameLabel && (!own || l.Name != keyschema.TenantLabel) {
			tags = append(tags, keyschema.Tag{Name: l.Name, Value: l.Value})
		}
	})
	return tags
}
