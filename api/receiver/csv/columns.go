package csv

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// Names of columns other than labels.
const (
	timestampColumn = "__timestamp__"
	valueColumn     = "__value__"
)

// columnsMax bounds the columns of a row.
const columnsMax = 1 << 12

// kind is the kind of values in a column.
type kind uint8

const (
	skipped kind = iota
	label
	value
	timestamp
)

// column is one column of a row.
type column struct {
	kind kind
	// name is the name of a label, or the metric of a value; "" if a label __name__ has it.
	name   string
	format timeFormat
}

// timeFormat is a format of timestamps: unix_s, unix_ms, unix_ns, rfc3339, or custom: and a layout of Go.
type timeFormat string

const customFormat = "custom:"

func (f timeFormat) check() error {
	switch f {
	case "unix_s", "unix_ms", "unix_ns", "rfc3339":
		return nil
	}
	if strings.HasPrefix(string(f), customFormat) {
		return nil
	}
	return fmt.Errorf("time format %q is unknown: use unix_s, unix_ms, unix_ns, rfc3339 or custom:LAYOUT", string(f))
}

// parse returns a time in milliseconds since 1970. Smaller fractions are cut off.
func (f timeFormat) parse(text string) (int64, error) {
	layout := time.RFC3339
	switch {
	case strings.HasPrefix(string(f), customFormat):
		layout = string(f[len(customFormat):])
	case f != "rfc3339":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, errors.New("the timestamp is not a whole number")
		}
		switch {
		case f == "unix_ns":
			return n/1e6 - map[bool]int64{true: 1}[n%1e6 < 0], nil
		case f == "unix_ms":
			return n, nil
		case n > math.MaxInt64/1000 || n < math.MinInt64/1000:
			return 0, errors.New("the timestamp is too large")
		}
		return n * 1000, nil
	}
	at, err := time.Parse(layout, text)
	if err != nil {
		return 0, errors.New("the timestamp does not have the format of its column")
	}
	return at.UnixMilli(), nil
}

// append appends a time in milliseconds since 1970.
func (f timeFormat) append(dst []byte, tsMs int64) []byte {
	at := time.UnixMilli(tsMs).UTC()
	switch {
	case f == "unix_s":
		return strconv.AppendInt(dst, at.Unix(), 10)
	case f == "unix_ns":
		return append(strconv.AppendInt(dst, tsMs, 10), "000000"...)
	case f == "rfc3339":
		return at.AppendFormat(dst, "2006-01-02T15:04:05.999Z07:00")
	case strings.HasPrefix(string(f), customFormat):
		return appendQuoted(dst, at.Format(string(f[len(customFormat):])))
	}
	return strconv.AppendInt(dst, tsMs, 10)
}

// parseFormat reads the description of columns in VictoriaMetrics: POSITION:KIND:NAME, separated by commas. Positions begin
// with 1. Kinds are time, label and metric.
func parseFormat(text string) ([]column, error) {
	var columns []column
	values := 0
	for field := range strings.SplitSeq(text, ",") {
		parts := strings.SplitN(field, ":", 3)
		if len(parts) != 3 || parts[2] == "" {
			return nil, fmt.Errorf("column %q is not of the form POSITION:KIND:NAME", field)
		}
		at, err := strconv.Atoi(parts[0])
		if err != nil || at < 1 || at > columnsMax {
			return nil, fmt.Errorf("column %q: the position is not a number from 1 to %d", field, columnsMax)
		}
		for len(columns) < at {
			columns = append(columns, column{})
		}
		c := &columns[at-1]
		if c.kind != skipped {
			return nil, fmt.Errorf("column %d is described twice", at)
		}
		switch c.name = parts[2]; parts[1] {
		case "time":
			c.kind, c.format = timestamp, timeFormat(c.name)
			err = c.format.check()
		case "label":
			c.kind = label
		case "metric":
			c.kind = value
			values++
		default:
			err = fmt.Errorf("kind %q is unknown: use time, label or metric", parts[1])
		}
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", field, err)
		}
	}
	if values == 0 {
		return nil, fmt.Errorf("%q has no column of kind metric", text)
	}
	return columns, checkOne(columns)
}

// parseNames reads the names of columns: __value__, __timestamp__ or __timestamp__:FORMAT, and labels.
func parseNames(names []string) ([]column, error) {
	if len(names) > columnsMax {
		return nil, fmt.Errorf("it has %d columns, more than the limit of %d", len(names), columnsMax)
	}
	var columns []column
	values := 0
	for _, name := range names {
		format, isTime := strings.CutPrefix(name, timestampColumn)
		switch {
		case name == "":
			return nil, errors.New("a column has no name")
		case name == valueColumn:
			columns = append(columns, column{kind: value})
			values++
		case isTime && (format == "" || format[0] == ':'):
			c := column{kind: timestamp, format: timeFormat(strings.Clone(strings.TrimPrefix(format, ":")))}
			if format == "" {
				c.format = "unix_ms"
			}
			if err := c.format.check(); err != nil {
				return nil, err
			}
			columns = append(columns, c)
		default:
			columns = append(columns, column{kind: label, name: strings.Clone(name)}) // the body is gone at the next row
		}
	}
	if values > 1 {
		return nil, fmt.Errorf("%d columns have the name %s", values, valueColumn)
	}
	return columns, checkOne(columns)
}

// checkOne refuses several columns with times, and duplicate labels.
func checkOne(columns []column) error {
	times, seen := 0, make(map[string]struct{})
	for _, c := range columns {
		if c.kind == timestamp {
			times++
		}
		if c.kind == label {
			if _, twice := seen[c.name]; twice {
				return fmt.Errorf("two columns have the label %q", c.name)
			}
			seen[c.name] = struct{}{}
		}
	}
	if times > 1 {
		return fmt.Errorf("%d columns hold timestamps, at most one may", times)
	}
	return nil
}

// metric is the name of the label that holds the metric.
const metric = model.MetricNameLabel
