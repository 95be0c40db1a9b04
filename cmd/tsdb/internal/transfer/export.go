package transfer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Encoder writes samples as text.
type Encoder interface {
	// Begin begins a series. Samples added next belong to it.
	Begin(ls labels.Labels)
	// Float adds a float. Times are in milliseconds since 1970.
	Float(tsMs int64, v float64)
	// Histogram adds an integer histogram, or fh if h is nil.
	Histogram(tsMs int64, h *histogram.Histogram, fh *histogram.FloatHistogram) error
	// Rows is the number of samples since the last Append. Append appends these samples to dst.
	Rows() int
	Append(dst []byte) []byte
}

// rowsMax bounds the samples of a line.
const rowsMax = 1 << 16

// Exported counts the exported series and samples.
type Exported struct{ Series, Samples, Histograms int64 }

// Export writes the samples of a reader as text.
func Export(ctx context.Context, from Reader, r Range, e Encoder, w io.Writer) (n Exported, err error) {
	out := bufio.NewWriterSize(w, 1<<18)
	var buf []byte
	var last labels.Labels
	flush := func() error {
		buf = e.Append(buf[:0])
		_, err := out.Write(buf)
		return err
	}
	err = from.Read(ctx, r.FromMs, r.ToMs, r.Matchers, func(ls labels.Labels, it chunkenc.Iterator) error {
		if n.Series == 0 || !labels.Equal(ls, last) { // otherwise this is another piece of the same series
			if err := flush(); err != nil {
				return err
			}
			last = ls
			n.Series++
			e.Begin(ls)
		}
		return forEachSample(it, &n, func(tsMs int64, v float64, h *histogram.Histogram, fh *histogram.FloatHistogram) error {
			if h == nil && fh == nil {
				e.Float(tsMs, v)
			} else if err := e.Histogram(tsMs, h, fh); err != nil {
				return err
			}
			if e.Rows() < rowsMax {
				return nil
			}
			return flush()
		})
	})
	if err != nil {
		return n, err
	}
	if err := flush(); err != nil {
		return n, err
	}
	return n, out.Flush()
}

// forEachSample passes the samples of an iterator to visit, and counts them.
func forEachSample(it chunkenc.Iterator, n *Exported,
	visit func(tsMs int64, v float64, h *histogram.Histogram, fh *histogram.FloatHistogram) error,
) error {
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		var err error
		switch kind {
		case chunkenc.ValHistogram:
			tsMs, h := it.AtHistogram(nil)
			n.Histograms++
			err = visit(tsMs, 0, h, nil)
		case chunkenc.ValFloatHistogram:
			tsMs, h := it.AtFloatHistogram(nil)
			n.Histograms++
			err = visit(tsMs, 0, nil, h)
		default:
			tsMs, v := it.At()
			n.Samples++
			err = visit(tsMs, v, nil, nil)
		}
		if err != nil {
			return err
		}
	}
	return it.Err()
}

// OpenMetricsEnd ends a text of OpenMetrics.
const OpenMetricsEnd = "# EOF\n"

// OpenMetricsEncoder writes a line for each float. It leaves native histograms out.
type OpenMetricsEncoder struct {
	series, body []byte
	rows         int
	// Omitted is the number of native histograms.
	Omitted int64
}

// Begin implements Encoder.
func (e *OpenMetricsEncoder) Begin(ls labels.Labels) {
	e.series = e.series[:0]
	name := ls.Get(model.MetricNameLabel)
	plain := model.LegacyValidation.IsValidMetricName(name)
	if plain {
		e.series = append(e.series, name...)
	}
	e.series = append(e.series, '{')
	if !plain {
		e.series = appendOpenMetrics(e.series, name)
	}
	ls.Range(func(l labels.Label) {
		if l.Name == model.MetricNameLabel {
			return
		}
		if e.series[len(e.series)-1] != '{' {
			e.series = append(e.series, ',')
		}
		if model.LegacyValidation.IsValidLabelName(l.Name) {
			e.series = append(e.series, l.Name...)
		} else {
			e.series = appendOpenMetrics(e.series, l.Name)
		}
		e.series = appendOpenMetrics(append(e.series, '='), l.Value)
	})
	e.series = append(e.series, '}', ' ')
}

// Float implements Encoder.
func (e *OpenMetricsEncoder) Float(tsMs int64, v float64) {
	e.body = append(e.body, e.series...)
	switch {
	case math.IsInf(v, 1):
		e.body = append(e.body, "+Inf"...)
	case math.IsInf(v, -1):
		e.body = append(e.body, "-Inf"...)
	default:
		e.body = strconv.AppendFloat(e.body, v, 'g', -1, 64)
	}
	e.body = append(strconv.AppendInt(append(e.body, ' '), tsMs/1000, 10), '.')
	e.body = fmt.Appendf(e.body, "%03d\n", tsMs%1000)
	e.rows++
}

// Histogram implements Encoder.
func (e *OpenMetricsEncoder) Histogram(int64, *histogram.Histogram, *histogram.FloatHistogram) error {
	e.Omitted++
	return nil
}

// Rows implements Encoder.
func (e *OpenMetricsEncoder) Rows() int { return e.rows }

// Append implements Encoder.
func (e *OpenMetricsEncoder) Append(dst []byte) []byte {
	dst = append(dst, e.body...)
	e.body, e.rows = e.body[:0], 0
	return dst
}

// appendOpenMetrics appends a text in quotes.
func appendOpenMetrics(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for _, c := range text {
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', byte(c))
		case '\n':
			dst = append(dst, '\\', 'n')
		default:
			dst = utf8.AppendRune(dst, c)
		}
	}
	return append(dst, '"')
}
