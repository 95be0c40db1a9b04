package remotewrite

import (
	"strings"

	"github.com/prometheus/prometheus/prompb"
)

const (
	metadataType   = 1
	metadataMetric = 2
	metadataHelp   = 4
	metadataUnit   = 5
)

// Metadata is one MetricMetadata; Type in Prometheus's lower-case spelling.
type Metadata struct {
	Metric, Type, Help, Unit string
}

// Metadata reads the current MetricMetadata.
func (w *Walker) Metadata() (m Metadata, err error) {
	var kind prompb.MetricMetadata_MetricType
	for pos := w.from; pos < w.to; {
		at := pos
		field, wire, next, err := tag(w.b, pos, w.to)
		if err != nil {
			return m, err
		}
		var text *string
		switch field {
		case metadataType:
			if err := expectType("a metric's type", wire, wireVarint, at); err != nil {
				return m, err
			}
			var v uint64
			if v, pos, err = uvarint(w.b, next, w.to); err != nil {
				return m, err
			}
			kind = prompb.MetricMetadata_MetricType(v)
			continue
		case metadataMetric:
			text = &m.Metric
		case metadataHelp:
			text = &m.Help
		case metadataUnit:
			text = &m.Unit
		default:
			if pos, err = skip(w.b, wire, next, w.to); err != nil {
				return m, err
			}
			continue
		}
		if err := expectType("a text of MetricMetadata", wire, wireBytes, at); err != nil {
			return m, err
		}
		var from int
		if from, pos, err = lengthDelimited(w.b, next, w.to); err != nil {
			return m, err
		}
		*text = string(w.b[from:pos])
	}
	if _, known := prompb.MetricMetadata_MetricType_name[int32(kind)]; !known {
		kind = prompb.MetricMetadata_UNKNOWN
	}
	m.Type = strings.ToLower(kind.String())
	return m, nil
}
