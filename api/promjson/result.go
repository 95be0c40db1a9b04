package promjson

import (
	"strconv"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// Value appends the result of an expression: a list for vectors and matrices, a pair for scalars and strings.
func (j *Writer) Value(v parser.Value) {
	switch v := v.(type) {
	case promql.Vector:
		j.List(len(v), func(i int) { j.buf = appendSample(j.buf, &v[i]) })
	case promql.Matrix:
		times := newTimeText(v)
		j.List(len(v), func(i int) { writeSeries(j, &v[i], times) })
	case promql.Scalar:
		j.buf = appendScalar(j.buf, v)
	case promql.String:
		j.buf = append(appendSeconds(append(j.buf, '['), v.T), ',')
		j.buf = append(AppendString(j.buf, v.V), ']')
	default:
		j.Raw("null")
	}
}

// appendScalar appends a scalar. Unlike a vector's value it never has an exponent, as in Prometheus.
func appendScalar(dst []byte, v promql.Scalar) []byte {
	dst = appendSeconds(append(dst, '['), v.T)
	dst = append(dst, ',', '"')
	dst = strconv.AppendFloat(dst, v.V, 'f', -1, 64)
	return append(dst, '"', ']')
}

// appendSeconds appends the timestamp of a scalar or string.
func appendSeconds(dst []byte, tsMs int64) []byte {
	return strconv.AppendFloat(dst, float64(tsMs)/1000, 'f', -1, 64)
}

func appendSample(dst []byte, s *promql.Sample) []byte {
	dst = append(dst, `{"metric":`...)
	dst = appendLabels(dst, s.Metric)
	if s.H == nil {
		dst = append(dst, `,"value":`...)
		dst = appendPoint(dst, s.T, s.F)
	} else {
		dst = append(dst, `,"histogram":`...)
		dst = appendHistogramPoint(dst, s.T, s.H)
	}
	return append(dst, '}')
}

// writeSeries writes one series of a matrix. It passes full buffers on between points.
func writeSeries(j *Writer, s *promql.Series, times *timeText) {
	j.Raw(`{"metric":`)
	j.buf = appendLabels(j.buf, s.Metric)
	if len(s.Floats) > 0 {
		j.Raw(`,"values":[`)
		writePoints(j, s.Floats, times)
		j.Raw(`]`)
	}
	if len(s.Histograms) > 0 {
		j.Raw(`,"histograms":`)
		j.List(len(s.Histograms), func(i int) {
			j.buf = appendHistogramPoint(j.buf, s.Histograms[i].T, s.Histograms[i].H)
		})
	}
	j.Raw(`}`)
}

// writePoints writes one point or more. It does what List does, without a call for each point.
func writePoints(j *Writer, points []promql.FPoint, times *timeText) {
	buf, at := j.buf, 0
	for i := range points {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf, at = times.appendTo(buf, at, points[i].T)
		buf = append(appendShortest(buf, points[i].F), '"', ']')
		if len(buf) >= SpillBytes {
			j.buf = buf
			if j.Flush(); j.err != nil {
				return
			}
			buf = j.buf
		}
	}
	j.buf = buf
}

func appendPoint(dst []byte, tsMs int64, v float64) []byte {
	dst = AppendTimestamp(append(dst, '['), tsMs)
	dst = appendFloat(append(dst, ','), v)
	return append(dst, ']')
}

func appendHistogramPoint(dst []byte, tsMs int64, h *histogram.FloatHistogram) []byte {
	dst = AppendTimestamp(append(dst, '['), tsMs)
	dst = appendHistogram(append(dst, ','), h)
	return append(dst, ']')
}

// appendHistogram appends a native histogram: count, sum, and the buckets that are not empty. Each bucket begins with the
// code of boundsCode.
func appendHistogram(dst []byte, h *histogram.FloatHistogram) []byte {
	dst = appendFloat(append(dst, `{"count":`...), h.Count)
	dst = appendFloat(append(dst, `,"sum":`...), h.Sum)
	buckets := 0
	for it := h.AllBucketIterator(); it.Next(); {
		b := it.At()
		if b.Count == 0 {
			continue
		}
		if buckets == 0 {
			dst = append(dst, `,"buckets":[`...)
		} else {
			dst = append(dst, ',')
		}
		buckets++
		dst = append(dst, '[', boundsCode(b.LowerInclusive, b.UpperInclusive), ',')
		dst = append(appendFloat(dst, b.Lower), ',')
		dst = append(appendFloat(dst, b.Upper), ',')
		dst = append(appendFloat(dst, b.Count), ']')
	}
	if buckets > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// boundsCode is 0 for (lower, upper], 1 for [lower, upper), 2 for (lower, upper), 3 for [lower, upper].
func boundsCode(lowerInclusive, upperInclusive bool) byte {
	switch {
	case lowerInclusive && upperInclusive:
		return '3'
	case lowerInclusive:
		return '1'
	case upperInclusive:
		return '0'
	default:
		return '2'
	}
}
