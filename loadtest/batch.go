package loadtest

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/klauspost/compress/snappy"

	"halite/loadtest/fleet"
)

// Field numbers and wire types of remote write 1.0: WriteRequest.timeseries and TimeSeries.labels are 1, Label.name and
// Sample.value 1, Label.value, Sample.timestamp and TimeSeries.samples 2.
const (
	tagTimeseries = 1<<3 | 2
	tagLabels     = 1<<3 | 2
	tagLabelName  = 1<<3 | 2
	tagLabelValue = 2<<3 | 2
	tagSamples    = 2<<3 | 2
	tagValue      = 1<<3 | 1
	tagTimestamp  = 2 << 3
)

// metricLabel is the name of the label that holds the metric; it sorts before all lower-case names.
const metricLabel = "__name__"

func uvarintBytes(n uint64) int { return (bits.Len64(n|1) + 6) / 7 }

// appendLabel appends a label as field 1 of a TimeSeries.
func appendLabel(dst []byte, name, value string) []byte {
	size := 2 + uvarintBytes(uint64(len(name))) + len(name) + uvarintBytes(uint64(len(value))) + len(value)
	dst = binary.AppendUvarint(append(dst, tagLabels), uint64(size))
	dst = append(binary.AppendUvarint(append(dst, tagLabelName), uint64(len(name))), name...)
	return append(binary.AppendUvarint(append(dst, tagLabelValue), uint64(len(value))), value...)
}

// appendSeriesLabels appends all labels of a series, in the order of their names.
func appendSeriesLabels(dst []byte, s fleet.Series) []byte {
	named := false
	for _, t := range s.Tags {
		if !named && t.Name > metricLabel {
			dst, named = appendLabel(dst, metricLabel, s.Metric), true
		}
		dst = appendLabel(dst, t.Name, t.Value)
	}
	if !named {
		dst = appendLabel(dst, metricLabel, s.Metric)
	}
	return dst
}

// appendSample appends a TimeSeries of one sample, as Prometheus sends it.
func appendSample(dst, seriesLabels []byte, tsMs int64, v float64) []byte {
	sampleSize := 1 + 8 + 1 + uvarintBytes(uint64(tsMs))
	dst = binary.AppendUvarint(append(dst, tagTimeseries), uint64(len(seriesLabels)+2+sampleSize))
	dst = append(dst, seriesLabels...)
	dst = append(dst, tagSamples, byte(sampleSize), tagValue)
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	return binary.AppendUvarint(append(dst, tagTimestamp), uint64(tsMs))
}

// sample is one sample on its way out.
type sample struct {
	labels []byte
	tsMs   int64
	value  float64
	mark   mark
}

// request is one encoded body and what it holds.
type request struct {
	body  []byte
	marks []mark
	// dueMs is the data time from which the request may be sent: that of its newest new sample.
	dueMs int64
}

// batch collects the samples of one request.
type batch struct {
	samples []sample
	dueMs   int64
	raw     []byte
}

func (b *batch) add(s sample, fresh bool) {
	b.samples = append(b.samples, s)
	if fresh {
		b.dueMs = max(b.dueMs, s.tsMs)
	}
}

// encode empties the batch into a request. A non-nil shuffle permutes the samples; those of one series stay in order
// only if they are of different requests, so the stream never puts two of a kind where order matters in one.
func (b *batch) encode(r *request, shuffle *rand.Rand) {
	if shuffle != nil {
		shuffle.Shuffle(len(b.samples), func(i, j int) { b.samples[i], b.samples[j] = b.samples[j], b.samples[i] })
	}
	b.raw, r.marks = b.raw[:0], r.marks[:0]
	for i := range b.samples {
		s := &b.samples[i]
		b.raw = appendSample(b.raw, s.labels, s.tsMs, s.value)
		r.marks = append(r.marks, s.mark)
	}
	r.body = snappy.Encode(r.body[:cap(r.body)], b.raw)
	r.dueMs = b.dueMs
	b.samples, b.dueMs = b.samples[:0], 0
}
