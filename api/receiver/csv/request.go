package csv

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"halite/api/receiver"
	"halite/ingest"
	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

// Protocol is the name of the protocol.
const Protocol = "CSV import"

// request is one POST of rows.
type request struct {
	fault   error
	columns []column // nil until the header was read
	named   bool     // the first row may be a header
	extra   []labels.Label
	nowMs   int64
	bad     receiver.BadLines

	order   []source // of labels, sorted by name
	numbers []int    // columns with values and times
	metrics [][]byte // by column: the label field of its metric, nil if a label has the name

	// The current row: its texts, its samples, and its label fields before the metric, of the metric and after it.
	values              []string
	samples             []sample
	before, name, after []byte
}

// source is where a label of a row comes from: the extra labels, or a column if value is "".
type source struct {
	name, value string
	column      int
}

// sample is a value of a row. metric is its label field, nil if a label has the name.
type sample struct {
	metric []byte
	value  float64
}

// Import returns the protocol of an import. The URL may have VictoriaMetrics's parameter format. Without it, the first row is
// a header. The parameter extra_label, as name=value, is for all series. Rows without a time get the current one.
func Import(now func() time.Time) receiver.Open {
	return func(r *http.Request) receiver.Request {
		x := &request{nowMs: now().UnixMilli()}
		var err error
		x.extra, x.fault = receiver.ExtraLabels(r)
		if format := r.URL.Query().Get("format"); format != "" && x.fault == nil {
			if x.columns, err = parseFormat(format); err != nil {
				x.fault = fmt.Errorf("parameter format: %w", err)
			}
			x.named = true
			x.plan()
		}
		return x
	}
}

func (x *request) Protocol() string { return Protocol }

func (x *request) Check() error { return x.fault }

// Parse adds the samples of all rows to a batch.
func (x *request) Parse(body []byte, b *batch.Batch) error {
	end := x.bad.Number() + bytes.Count(body, []byte{'\n'})
	defer func() { x.bad.GoTo(end) }()
	for len(body) > 0 {
		text, rest, _ := bytes.Cut(body, []byte{'\n'})
		if bytes.IndexByte(text, '"') >= 0 {
			return x.quotedRows(body, b) // a quoted value may hold line breaks
		}
		body = rest
		x.bad.Next()
		if text = bytes.TrimSuffix(text, []byte{'\r'}); len(text) == 0 {
			continue
		}
		x.split(text)
		if err := x.append(x.values, b); err != nil {
			return err
		}
	}
	return nil
}

// split reads the values of a row without quotes. They point into the text.
func (x *request) split(text []byte) {
	x.values = x.values[:0]
	for row := unsafe.String(unsafe.SliceData(text), len(text)); ; {
		value, rest, more := strings.Cut(row, ",")
		x.values = append(x.values, value)
		if !more {
			return
		}
		row = rest
	}
}

// quotedRows adds the samples of rows that may have quoted values.
func (x *request) quotedRows(body []byte, b *batch.Batch) error {
	rows := csv.NewReader(bytes.NewReader(body))
	rows.FieldsPerRecord, rows.ReuseRecord = -1, true
	base := x.bad.Number()
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if fault := new(csv.ParseError); errors.As(err, &fault) {
			x.bad.GoTo(base + fault.StartLine)
			x.bad.Reject(b, fault.Err.Error())
			continue
		} else if err != nil {
			return err
		}
		line, _ := rows.FieldPos(0)
		x.bad.GoTo(base + line)
		if err := x.append(row, b); err != nil {
			return err
		}
	}
}

// append adds the samples of a row to a batch, or reads the names of columns from it.
func (x *request) append(row []string, b *batch.Batch) (err error) {
	if x.columns == nil {
		if x.columns, err = parseNames(row); err != nil {
			return fmt.Errorf("header: %w", err)
		}
		if !slices.ContainsFunc(x.columns, func(c column) bool { return c.kind == value }) {
			return fmt.Errorf("header: it has no column %s, and the parameter format is missing", valueColumn)
		}
		x.plan()
		return nil
	}
	tsMs, err := x.row(row)
	if err != nil && x.named && x.bad.Number() == 1 {
		return nil // a header
	}
	if err != nil {
		x.bad.Reject(b, err.Error())
		return nil
	}
	return x.add(row, b, tsMs)
}

// row reads values and time of a row.
func (x *request) row(row []string) (tsMs int64, err error) {
	x.samples, tsMs = x.samples[:0], x.nowMs
	if len(row) < len(x.columns) {
		return 0, fmt.Errorf("the row has %d columns, but the format has %d", len(row), len(x.columns))
	}
	for _, n := range x.numbers {
		text, c := row[n], &x.columns[n]
		if text == "" {
			continue
		}
		if c.kind == timestamp {
			if tsMs, err = c.format.parse(text); err != nil {
				return 0, fmt.Errorf("column %d: %w", n+1, err)
			}
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, fmt.Errorf("column %d: the value is not a number", n+1)
		}
		x.samples = append(x.samples, sample{metric: x.metrics[n], value: v})
	}
	return tsMs, nil
}

// plan computes once how to bring the labels of a row into the order of remote write.
func (x *request) plan() {
	x.metrics = make([][]byte, len(x.columns))
	for n, c := range x.columns {
		own := func(l labels.Label) bool { return l.Name == c.name }
		switch {
		case c.kind == label && !slices.ContainsFunc(x.extra, own):
			x.order = append(x.order, source{name: c.name, column: n})
		case c.kind == value && c.name != "":
			x.metrics[n] = remotewrite.AppendField(nil, metric, c.name)
		}
		if c.kind == value || c.kind == timestamp {
			x.numbers = append(x.numbers, n)
		}
	}
	for n, l := range x.extra {
		replaced := slices.ContainsFunc(x.extra[n+1:], func(later labels.Label) bool { return later.Name == l.Name })
		if !replaced && l.Value != "" {
			x.order = append(x.order, source{name: l.Name, value: l.Value})
		}
	}
	slices.SortFunc(x.order, func(a, b source) int { return strings.Compare(a.name, b.name) })
}

// add adds the samples of a row to a batch. The key is the label fields, in the order of remote write.
func (x *request) add(row []string, b *batch.Batch, tsMs int64) error {
	before, name, after := x.before[:0], x.name[:0], x.after[:0]
	for _, s := range x.order {
		text := s.value
		if text == "" {
			text = row[s.column]
		}
		switch {
		case text == "":
		case s.name < metric:
			before = remotewrite.AppendField(before, s.name, text)
		case s.name == metric:
			name = remotewrite.AppendField(name, s.name, text)
		default:
			after = remotewrite.AppendField(after, s.name, text)
		}
	}
	x.before, x.name, x.after = before, name, after
	for _, s := range x.samples {
		if s.metric == nil {
			s.metric = name
		}
		if err := b.Begin(before, s.metric, after); err != nil {
			return err
		}
		b.Sample(remotewrite.Sample{TsMs: tsMs, Value: s.value})
	}
	return nil
}

// Respond lists the rows and samples that were left out.
func (x *request) Respond(result *ingest.Result) receiver.Response { return x.bad.Respond(result) }

func (x *request) Refuse(status int, err error) receiver.Response {
	return receiver.Text(status, err.Error())
}
