package opentsdb

import (
	"math"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
)

// Encoder collects samples of a series and writes them as the lines of OpenTSDB's import: METRIC TIME VALUE TAG=VALUE.
// Times are in seconds, or in milliseconds if they are between two seconds.
type Encoder struct {
	// Omitted counts the samples that such lines cannot hold.
	Omitted Omitted

	names  *Names
	metric []byte // with the space after it
	tags   []byte // with the space in front of each, and a line feed
	fault  *int64 // the counter for all samples of the series; nil if the series can be written
	body   []byte
	rows   int
}

// Omitted counts samples by the reason that they are left out.
type Omitted struct {
	// Untagged samples have no tag, and OpenTSDB requires one. Named samples have a name that OpenTSDB does not permit.
	Untagged, Named int64
	// NotFinite samples are NaN or infinite. Early samples lie between two seconds of the first 49 days of 1970, where
	// OpenTSDB has only seconds.
	NotFinite, Early int64
	// Histograms are native histograms.
	Histograms int64
}

// Sum is the number of all omitted samples.
func (o *Omitted) Sum() int64 { return o.Untagged + o.Named + o.NotFinite + o.Early + o.Histograms }

// NewEncoder returns an Encoder of series whose names obey some rules.
func NewEncoder(names *Names) *Encoder { return &Encoder{names: names} }

// Begin begins a series.
func (e *Encoder) Begin(series labels.Labels) {
	e.metric = append(append(e.metric[:0], series.Get(model.MetricNameLabel)...), ' ')
	e.tags, e.fault = e.tags[:0], nil
	if e.names.Check("metric name", series.Get(model.MetricNameLabel)) != nil {
		e.fault = &e.Omitted.Named
	}
	series.Range(func(l labels.Label) {
		if l.Name == model.MetricNameLabel {
			return
		}
		if e.names.Check("tag name", l.Name) != nil || e.names.Check("tag value", l.Value) != nil {
			e.fault = &e.Omitted.Named
		}
		e.tags = append(append(append(append(e.tags, ' '), l.Name...), '='), l.Value...)
	})
	if len(e.tags) == 0 {
		e.fault = &e.Omitted.Untagged
	}
	e.tags = append(e.tags, '\n')
}

// Float adds a float. Staleness markers are left out without being counted. Its time is in milliseconds since 1970.
func (e *Encoder) Float(tsMs int64, v float64) {
	whole := tsMs%1000 == 0
	switch {
	case value.IsStaleNaN(v):
		return
	case e.fault != nil:
		*e.fault++
		return
	case math.IsNaN(v) || math.IsInf(v, 0):
		e.Omitted.NotFinite++
		return
	case tsMs <= 0, !whole && tsMs <= secondsMax:
		e.Omitted.Early++
		return
	}
	if whole && tsMs/1000 <= secondsMax {
		tsMs /= 1000
	}
	e.body = strconv.AppendInt(append(e.body, e.metric...), tsMs, 10)
	e.body = append(appendValue(append(e.body, ' '), v), e.tags...)
	e.rows++
}

// Histogram counts a native histogram as omitted.
func (e *Encoder) Histogram(int64, *histogram.Histogram, *histogram.FloatHistogram) error {
	e.Omitted.Histograms++
	return nil
}

// Rows is the number of lines since the last Append.
func (e *Encoder) Rows() int { return e.rows }

// Append appends these lines to dst.
func (e *Encoder) Append(dst []byte) []byte {
	dst = append(dst, e.body...)
	e.body, e.rows = e.body[:0], 0
	return dst
}
