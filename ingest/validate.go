package ingest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"

	"halite/keyschema"
)

// rejection says why a series or sample is not stored. The zero value means that nothing is wrong.
type rejection struct {
	reason string
	detail string
}

// rejects reports whether anything is wrong.
func (r rejection) rejects() bool { return r.reason != "" }

func rejectf(reason, format string, args ...any) rejection {
	return rejection{reason, fmt.Sprintf(format, args...)}
}

// validate checks a label set as sent. It returns the labels sorted and without empty values, which Prometheus treats as
// absent. Senders must sort labels, but many do not, and Prometheus accepts that. The result shares the memory of pairs.
// tenantBytes is the size of the tenant prefix of the metric's name.
func (l *Limits) validate(pairs []prompb.Label, tenantBytes int) ([]prompb.Label, rejection) {
	if !slices.IsSortedFunc(pairs, byName) {
		slices.SortStableFunc(pairs, byName)
	}
	kept := pairs[:0]
	metric := ""
	previous := ""
	sizeBytes := 0
	for n, p := range pairs {
		switch {
		case p.Name == "":
			return nil, rejectf(ReasonEmptyLabelName, "the label with value %q has an empty name", shorten(p.Value))
		case !utf8.ValidString(p.Name):
			return nil, rejectf(ReasonInvalidUTF8, "label name %q is not valid UTF-8", p.Name)
		case !utf8.ValidString(p.Value):
			return nil, rejectf(ReasonInvalidUTF8, "value of label %q is not valid UTF-8", p.Name)
		case len(p.Name) > l.LabelNameBytesMax:
			return nil, tooLong(ReasonLabelNameTooLong, "label-name-bytes", l.LabelNameBytesMax,
				"the label name %.64q… has %d bytes", p.Name, len(p.Name))
		case n > 0 && p.Name == previous:
			return nil, rejectf(ReasonDuplicateLabel, "label %q appears twice", p.Name)
		}
		previous = p.Name
		if p.Value == "" {
			continue
		}
		if why := l.reserved(p.Name, p.Value); why.rejects() {
			return nil, why
		}
		if p.Name == model.MetricNameLabel {
			metric = p.Value
			if len(metric) > l.MetricNameBytesMax-tenantBytes {
				return nil, tooLong(ReasonMetricNameTooLong, "metric-name-bytes", l.MetricNameBytesMax,
					"the metric name has %d bytes", len(metric))
			}
		} else if len(p.Value) > l.LabelValueBytesMax {
			return nil, tooLong(ReasonLabelValueTooLong, "label-value-bytes", l.LabelValueBytesMax,
				"the value of label %q has %d bytes", p.Name, len(p.Value))
		}
		sizeBytes += len(p.Name) + len(p.Value)
		kept = append(kept, p)
	}
	if metric == "" {
		return nil, rejectf(ReasonNoMetricName, "no metric name")
	}
	if len(kept) > l.LabelsPerSeriesMax {
		return nil, tooLong(ReasonTooManyLabels, "labels", l.LabelsPerSeriesMax, "the series has %d labels", len(kept))
	}
	if sizeBytes > l.LabelSetBytesMax {
		return nil, tooLong(ReasonLabelSetTooLong, "label-set-bytes", l.LabelSetBytesMax,
			"the names and values of the labels have %d bytes", sizeBytes)
	}
	return kept, rejection{}
}

// reserved rejects metric names and labels that only the server may use. Senders name their tenant by their credentials.
func (l *Limits) reserved(label, value string) rejection {
	switch {
	case label == model.MetricNameLabel && value != "" && value[0] == keyschema.TenantMark:
		if prefix, _ := keyschema.SplitTenant(value); l.Tenants || prefix != "" {
			return rejectf(ReasonReservedName, "the metric name %q begins with '&', which is reserved for tenants", shorten(value))
		}
	case l.Tenants && label == keyschema.TenantLabel:
		return rejectf(ReasonReservedName, "the label %s is reserved for results of several tenants", label)
	}
	return rejection{}
}

// tooLong rejects labels that exceed a limit. It names the flag --ingest.max-NAME that sets the limit.
func tooLong(reason, name string, limit int, format string, args ...any) rejection {
	return rejectf(reason, "%s, more than --ingest.max-%s=%d", fmt.Sprintf(format, args...), name, limit)
}

func byName(a, b prompb.Label) int { return strings.Compare(a.Name, b.Name) }

// describeBytesMax bounds a series in a message, so that a huge series does not fill logs and responses.
const describeBytesMax = 400

// describe writes a label set for a message: metric{name="value",…}.
func describe(pairs []prompb.Label) string {
	var b strings.Builder
	for _, p := range pairs {
		if p.Name == model.MetricNameLabel {
			b.WriteString(printable(p.Value))
			break
		}
	}
	b.WriteByte('{')
	first := true
	for _, p := range pairs {
		if p.Name == model.MetricNameLabel {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		if b.Len() > describeBytesMax {
			b.WriteString("…")
			break
		}
		fmt.Fprintf(&b, "%s=%s", printable(p.Name), strconv.Quote(shorten(p.Value)))
	}
	b.WriteByte('}')
	return b.String()
}

func describeLabels(ls labels.Labels) string { return describe(prompb.FromLabels(ls, nil)) }

func shorten(s string) string {
	if len(s) > describeBytesMax/2 {
		return strings.ToValidUTF8(s[:describeBytesMax/2], "") + "…"
	}
	return s
}

// printable quotes names that are not a single word.
func printable(s string) string {
	s = shorten(s)
	for _, c := range s {
		if c <= ' ' || c == '"' || c == '{' || c == '}' || c == utf8.RuneError || !strconv.IsPrint(c) {
			return strconv.Quote(s)
		}
	}
	return s
}
