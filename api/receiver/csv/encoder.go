package csv

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
)

// Encoder writes a row for each float.
type Encoder struct {
	columns []column
	header  []byte
	fields  [][]byte // of the current series; nil for times and values
	body    []byte
	rows    int
	// Omitted is the number of native histograms, which rows cannot hold.
	Omitted int
}

// NewEncoder returns an encoder of the columns in a list of names, separated by commas: labels, __value__, __timestamp__, or
// __timestamp__:FORMAT.
func NewEncoder(format string) (*Encoder, error) {
	columns, err := parseNames(strings.Split(format, ","))
	if err != nil {
		return nil, fmt.Errorf("format: %w", err)
	}
	e := &Encoder{columns: columns, fields: make([][]byte, len(columns))}
	for n, name := range strings.Split(format, ",") {
		if n > 0 {
			e.header = append(e.header, ',')
		}
		e.header = appendQuoted(e.header, name)
	}
	e.header = append(e.header, '\n')
	return e, nil
}

// Header returns the row with the names of the columns.
func (e *Encoder) Header() []byte { return e.header }

// Begin begins a series.
func (e *Encoder) Begin(ls labels.Labels) {
	for n, c := range e.columns {
		if c.kind == label {
			e.fields[n] = appendQuoted(e.fields[n][:0], ls.Get(c.name))
		}
	}
}

// Float adds a float. Its time is in milliseconds since 1970.
func (e *Encoder) Float(tsMs int64, v float64) {
	for n, c := range e.columns {
		if n > 0 {
			e.body = append(e.body, ',')
		}
		switch c.kind {
		case timestamp:
			e.body = c.format.append(e.body, tsMs)
		case value:
			e.body = strconv.AppendFloat(e.body, v, 'g', -1, 64)
		default:
			e.body = append(e.body, e.fields[n]...)
		}
	}
	e.body = append(e.body, '\n')
	e.rows++
}

// Histogram leaves out a native histogram.
func (e *Encoder) Histogram(int64, *histogram.Histogram, *histogram.FloatHistogram) error {
	e.Omitted++
	return nil
}

// Rows is the number of rows that Append would write.
func (e *Encoder) Rows() int { return e.rows }

// Append appends the rows that were added since the last call to dst.
func (e *Encoder) Append(dst []byte) []byte {
	dst = append(dst, e.body...)
	e.body, e.rows = e.body[:0], 0
	return dst
}

// appendQuoted appends a field, in quotes if it needs them.
func appendQuoted(dst []byte, text string) []byte {
	if !strings.ContainsAny(text, "\",\n\r") {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(text, `"`, `""`)...)
	return append(dst, '"')
}
