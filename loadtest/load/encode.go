package load

import (
	"encoding/binary"
	"math"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"halite/loadtest/fleet"
)

// Tags (field number and wire type) of remote write 1.0. WriteRequest.timeseries, TimeSeries.labels, Label.name and
// Sample.value have number 1. Label.value, Sample.timestamp and TimeSeries.samples have number 2.
const (
	tagTimeseries = 1<<3 | 2
	tagLabels     = 1<<3 | 2
	tagLabelName  = 1<<3 | 2
	tagLabelValue = 2<<3 | 2
	tagSamples    = 2<<3 | 2
	tagValue      = 1<<3 | 1
	tagTimestamp  = 2 << 3
)

// MetricLabel is the name of the label that holds the metric. It sorts before all lower-case names.
const MetricLabel = "__name__"

// AppendLabel appends an encoded label as field 1 of a TimeSeries.
func AppendLabel(dst []byte, name, value string) []byte {
	size := 2 + protowire.SizeVarint(uint64(len(name))) + len(name) + protowire.SizeVarint(uint64(len(value))) + len(value)
	dst = binary.AppendUvarint(append(dst, tagLabels), uint64(size))
	dst = append(binary.AppendUvarint(append(dst, tagLabelName), uint64(len(name))), name...)
	return append(binary.AppendUvarint(append(dst, tagLabelValue), uint64(len(value))), value...)
}

// AppendSeriesLabels appends all encoded labels of a series, ordered by name.
func AppendSeriesLabels(dst []byte, s fleet.Series) []byte {
	named := false
	for _, t := range s.Tags {
		if !named && t.Name > MetricLabel {
			dst, named = AppendLabel(dst, MetricLabel, s.Metric), true
		}
		dst = AppendLabel(dst, t.Name, t.Value)
	}
	if !named {
		dst = AppendLabel(dst, MetricLabel, s.Metric)
	}
	return dst
}

// appendSample appends a TimeSeries with one sample, as Prometheus sends it. seriesLabels are encoded labels.
func appendSample(dst, seriesLabels []byte, tsMs int64, v float64) []byte {
	sampleSize := 1 + 8 + 1 + protowire.SizeVarint(uint64(tsMs))
	dst = binary.AppendUvarint(append(dst, tagTimeseries), uint64(len(seriesLabels)+2+sampleSize))
	dst = append(dst, seriesLabels...)
	dst = append(dst, tagSamples, byte(sampleSize), tagValue)
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	return binary.AppendUvarint(append(dst, tagTimestamp), uint64(tsMs))
}

// EncodeSample returns the body of a request with a single sample.
func EncodeSample(s fleet.Series, tsMs int64, v float64) []byte {
	return snappy.Encode(nil, appendSample(nil, AppendSeriesLabels(nil, s), tsMs, v))
}
