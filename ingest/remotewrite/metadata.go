package remotewrite

import (
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
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

const (
	metadataTypeV2 = 1
	metadataHelpV2 = 3
	metadataUnitV2 = 4
)

// MetadataRefs is the metadata of a series in remote write 2.0. The zero value means that there is none.
type MetadataRefs struct {
	Type             int32
	HelpRef, UnitRef uint32
}

// read reads the Metadata in b[pos:end]. Fields that it lacks keep their values.
func (m *MetadataRefs) read(b []byte, pos, end int) error {
	for pos < end {
		at := pos
		field, wire, next, err := tag(b, pos, end)
		if err != nil {
			return err
		}
		var v int64
		switch field {
		case metadataTypeV2:
			v, pos, err = integer(b, "a metric's type", wire, at, next, end)
			m.Type = int32(v)
		case metadataHelpV2:
			v, pos, err = integer(b, "a reference to help", wire, at, next, end)
			m.HelpRef = uint32(v)
		case metadataUnitV2:
			v, pos, err = integer(b, "a reference to a unit", wire, at, next, end)
			m.UnitRef = uint32(v)
		default:
			pos, err = skip(b, wire, next, end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TypeName returns the type in Prometheus's lower-case spelling.
func (m MetadataRefs) TypeName() string {
	switch writev2.Metadata_MetricType(m.Type) {
	case writev2.Metadata_METRIC_TYPE_COUNTER:
		return string(model.MetricTypeCounter)
	case writev2.Metadata_METRIC_TYPE_GAUGE:
		return string(model.MetricTypeGauge)
	case writev2.Metadata_METRIC_TYPE_HISTOGRAM:
		return string(model.MetricTypeHistogram)
	case writev2.Metadata_METRIC_TYPE_GAUGEHISTOGRAM:
		return string(model.MetricTypeGaugeHistogram)
	case writev2.Metadata_METRIC_TYPE_SUMMARY:
		return string(model.MetricTypeSummary)
	case writev2.Metadata_METRIC_TYPE_INFO:
		return string(model.MetricTypeInfo)
	case writev2.Metadata_METRIC_TYPE_STATESET:
		return string(model.MetricTypeStateset)
	}
	return string(model.MetricTypeUnknown)
}

// Family returns the name of the metric family of a series' metric. Remote write 1.0 describes families, and a classic
// histogram or summary has several metrics.
func (m MetadataRefs) Family(metric []byte) []byte {
	var suffixes []string
	switch writev2.Metadata_MetricType(m.Type) {
	case writev2.Metadata_METRIC_TYPE_HISTOGRAM:
		suffixes = []string{"_bucket", "_count", "_sum"}
	case writev2.Metadata_METRIC_TYPE_GAUGEHISTOGRAM:
		suffixes = []string{"_bucket", "_gcount", "_gsum", "_count", "_sum"}
	case writev2.Metadata_METRIC_TYPE_SUMMARY:
		suffixes = []string{"_count", "_sum"}
	}
	for _, suffix := range suffixes {
		if n := len(metric) - len(suffix); n > 0 && string(metric[n:]) == suffix {
			return metric[:n]
		}
	}
	return metric
}
