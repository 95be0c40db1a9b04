package jsonl

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
)

// Encoder collects samples of a series and writes them as lines: one of floats and one of native histograms.
type Encoder struct {
	metric     []byte
	floats     []byte
	floatTimes []byte
	histograms []byte
	histTimes  []byte
	rows       int
}

// Begin begins a series.
func (e *Encoder) Begin(ls labels.Labels) {
	e.metric = append(e.metric[:0], '{')
	ls.Range(func(l labels.Label) {
		if len(e.metric) > 1 {
			e.metric = append(e.metric, ',')
		}
		e.metric = append(appendText(e.metric, l.Name), ':')
		e.metric = appendText(e.metric, l.Value)
	})
	e.metric = append(e.metric, '}')
	e.drop()
}

// Float adds a float. Its time is in milliseconds since 1970.
func (e *Encoder) Float(tsMs int64, v float64) {
	e.floats, e.floatTimes = appendValue(comma(e.floats), v), strconv.AppendInt(comma(e.floatTimes), tsMs, 10)
	e.rows++
}

// Histogram adds a native histogram of integers, or of floats if h is nil. Its time is in milliseconds since 1970.
func (e *Encoder) Histogram(tsMs int64, h *histogram.Histogram, fh *histogram.FloatHistogram) error {
	text, err := HistogramText(h, fh)
	if err != nil {
		return err
	}
	e.histograms, e.histTimes = append(comma(e.histograms), text...), strconv.AppendInt(comma(e.histTimes), tsMs, 10)
	e.rows++
	return nil
}

// HistogramText returns the JSON of a native histogram of integers, or of floats if h is nil.
func HistogramText(h *histogram.Histogram, fh *histogram.FloatHistogram) (string, error) {
	document := (*nativeHistogram)(nil)
	if h != nil {
		document = ofIntegers(h)
	} else {
		document = ofFloats(fh)
	}
	text, err := json.Marshal(document)
	return string(text), err
}

// Rows is the number of samples that Append would write.
func (e *Encoder) Rows() int { return e.rows }

// Append appends the samples that were added since the last call to dst, as lines.
func (e *Encoder) Append(dst []byte) []byte {
	dst = e.appendLine(dst, "values", e.floats, e.floatTimes)
	dst = e.appendLine(dst, "histograms", e.histograms, e.histTimes)
	e.drop()
	return dst
}

func (e *Encoder) drop() {
	e.floats, e.floatTimes, e.histograms, e.histTimes, e.rows = e.floats[:0], e.floatTimes[:0], e.histograms[:0], e.histTimes[:0], 0
}

func (e *Encoder) appendLine(dst []byte, member string, values, times []byte) []byte {
	if len(times) == 0 {
		return dst
	}
	dst = append(append(dst, `{"metric":`...), e.metric...)
	dst = append(append(append(dst, `,"`...), member...), `":[`...)
	dst = append(append(dst, values...), `],"timestamps":[`...)
	return append(append(dst, times...), "]}\n"...)
}

func comma(dst []byte) []byte {
	if len(dst) == 0 {
		return dst
	}
	return append(dst, ',')
}

// appendValue writes a value so that parsing it gives the same bits, except for the bits of a NaN that is not a staleness marker.
func appendValue(dst []byte, v float64) []byte {
	switch magnitude := math.Abs(v); {
	case value.IsStaleNaN(v):
		return append(dst, "null"...)
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	case v != 0 && (magnitude < 1e-6 || magnitude >= 1e21):
		return strconv.AppendFloat(dst, v, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, v, 'f', -1, 64)
}

// appendText writes a string as JSON. Labels are valid UTF-8.
func appendText(dst []byte, text string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for n := 0; n < len(text); n++ {
		switch c := text[n]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
