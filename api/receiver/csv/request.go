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

	labels []labels.Label
	values []sample
	fields []byte
}

// sample is a value of a row.
type sample struct {
	metric string // "" if a label has the name
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
		}
		return x
	}
}

func (x *request) Protocol() string { return Protocol }

func (x *request) Check() error { return x.fault }

// Parse adds the samples of all rows to a batch.
func (x *request) Parse(body []byte, b *batch.Batch) error {
	rows := csv.NewReader(bytes.NewReader(body))
	rows.FieldsPerRecord, rows.ReuseRecord = -1, true
	base := x.bad.Number()
	defer func() { x.bad.GoTo(base + bytes.Count(body, []byte{'\n'})) }()
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
		if x.columns == nil {
			if x.columns, err = parseNames(row); err != nil {
				return fmt.Errorf("header: %w", err)
			}
			continue
		}
		tsMs, err := x.row(row)
		if err != nil && x.named && base+line == 1 {
			continue // a header
		}
		if err != nil {
			x.bad.Reject(b, err.Error())
			continue
		}
		if err := x.add(b, tsMs); err != nil {
			return err
		}
	}
}

// row reads labels, values and time of a row.
func (x *request) row(row []string) (tsMs int64, err error) {
	x.labels, x.values, tsMs = x.labels[:0], x.values[:0], x.nowMs
	if len(row) < len(x.columns) {
		return 0, fmt.Errorf("%d columns, and the format has %d", len(row), len(x.columns))
	}
	for n, c := range x.columns {
		text := row[n]
		if text == "" {
			continue
		}
		switch c.kind {
		case label:
			x.labels = append(x.labels, labels.Label{Name: c.name, Value: text})
		case timestamp:
			if tsMs, err = c.format.parse(text); err != nil {
				return 0, fmt.Errorf("column %d: %w", n+1, err)
			}
		case value:
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, fmt.Errorf("column %d: the value is not a number", n+1)
			}
			x.values = append(x.values, sample{metric: c.name, value: v})
		}
	}
	return tsMs, nil
}

// add adds the samples of a row to a batch. The key is the label fields, in the order of remote write.
func (x *request) add(b *batch.Batch, tsMs int64) error {
	own := len(x.labels)
	for _, s := range x.values {
		ls := x.labels[:own]
		for _, l := range x.extra {
			ls = set(ls, l)
		}
		if s.metric != "" {
			ls = set(ls, labels.Label{Name: metric, Value: s.metric})
		}
		sorted := slices.Clone(ls)
		slices.SortFunc(sorted, func(a, b labels.Label) int { return strings.Compare(a.Name, b.Name) })
		x.fields = remotewrite.AppendPairs(x.fields[:0], sorted)
		if err := b.Begin(x.fields); err != nil {
			return err
		}
		b.Sample(remotewrite.Sample{TsMs: tsMs, Value: s.value})
	}
	return nil
}

// set returns the labels with one of them replaced. A label without a value is absent.
func set(ls []labels.Label, l labels.Label) []labels.Label {
	ls = slices.DeleteFunc(slices.Clone(ls), func(other labels.Label) bool { return other.Name == l.Name })
	if l.Value == "" {
		return ls
	}
	return append(ls, l)
}

// Answer lists the rows and samples that were left out.
func (x *request) Answer(result *ingest.Result) receiver.Answer { return x.bad.Answer(result) }

func (x *request) Refuse(status int, err error) receiver.Answer {
	return receiver.Text(status, err.Error())
}
