package jsonl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	jsoniter "github.com/json-iterator/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

// line is a line of a body. The next line reuses its memory.
type line struct {
	labels     []labels.Label
	values     []float64
	histograms []nativeHistogram
	tsMs       []int64
	fields     []byte
}

// parse reads a line that is not empty.
func (l *line) parse(it *jsoniter.Iterator, text []byte) error {
	l.labels, l.values, l.histograms, l.tsMs = l.labels[:0], l.values[:0], l.histograms[:0], l.tsMs[:0]
	it.ResetBytes(text)
	it.Error = nil
	if it.WhatIsNext() != jsoniter.ObjectValue {
		return errors.New("it is not a JSON object")
	}
	it.ReadObjectCB(l.member)
	if it.Error != nil {
		return plain(it.Error)
	}
	if it.WhatIsNext(); !errors.Is(it.Error, io.EOF) {
		return errors.New("text after the JSON object")
	}
	if len(l.labels) == 0 {
		return errors.New("the metric has no labels")
	}
	if values := len(l.values) + len(l.histograms); len(l.tsMs) == 0 || values != len(l.tsMs) {
		return fmt.Errorf("it has %d values and %d timestamps", values, len(l.tsMs))
	}
	return nil
}

// plain removes the context from an error of the JSON library. The context may be a huge line.
func plain(err error) error {
	text, _, _ := strings.Cut(err.Error(), ", error found in")
	return errors.New(text)
}

// member reads a member of the object.
func (l *line) member(it *jsoniter.Iterator, name string) bool {
	switch name {
	case "metric":
		l.labels = l.labels[:0]
		return it.ReadMapCB(l.label)
	case "values":
		return it.ReadArrayCB(l.value)
	case "timestamps":
		return it.ReadArrayCB(l.timestamp)
	case "histograms":
		return it.ReadArrayCB(l.histogram)
	}
	it.Skip()
	return it.Error == nil
}

func (l *line) label(it *jsoniter.Iterator, name string) bool {
	if it.WhatIsNext() != jsoniter.StringValue {
		it.ReportError("metric", fmt.Sprintf("the value of label %q is not a string", name))
		return false
	}
	if text := it.ReadString(); name != "" && text != "" {
		l.labels = append(l.labels, labels.Label{Name: name, Value: text})
	}
	return it.Error == nil
}

func (l *line) value(it *jsoniter.Iterator) bool {
	switch it.WhatIsNext() {
	case jsoniter.NumberValue:
		l.values = append(l.values, it.ReadFloat64())
	case jsoniter.NilValue:
		it.ReadNil()
		l.values = append(l.values, math.Float64frombits(value.StaleNaN))
	case jsoniter.StringValue:
		v, ok := special(it.ReadString())
		if !ok {
			it.ReportError("values", "a value is neither a number nor Infinity, -Infinity or NaN")
		}
		l.values = append(l.values, v)
	default:
		it.ReportError("values", "a value is not a number")
	}
	return it.Error == nil
}

// special returns the value of a string for a number that JSON lacks.
func special(text string) (float64, bool) {
	switch strings.ToLower(text) {
	case "infinity", "inf":
		return math.Inf(1), true
	case "-infinity", "-inf":
		return math.Inf(-1), true
	case "nan":
		return math.Float64frombits(value.NormalNaN), true
	case "null":
		return math.Float64frombits(value.StaleNaN), true
	}
	return 0, false
}

func (l *line) timestamp(it *jsoniter.Iterator) bool {
	l.tsMs = append(l.tsMs, it.ReadInt64())
	if it.Error != nil { // the library's text does not name the array
		it.Error = nil
		it.ReportError("timestamps", "a timestamp is not an integer")
	}
	return it.Error == nil
}

// add adds the samples to a batch. The key is the label fields, in the order of remote write.
func (l *line) add(b *batch.Batch, extra []labels.Label) error {
	for _, own := range extra {
		l.labels = slices.DeleteFunc(l.labels, func(other labels.Label) bool { return other.Name == own.Name })
		if own.Value != "" {
			l.labels = append(l.labels, own)
		}
	}
	byName := func(a, b labels.Label) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(l.labels, byName) {
		slices.SortStableFunc(l.labels, byName)
	}
	l.fields = remotewrite.AppendPairs(l.fields[:0], l.labels)
	if err := b.Begin(l.fields); err != nil {
		return err
	}
	for n, v := range l.values {
		b.Sample(remotewrite.Sample{TsMs: l.tsMs[n], Value: v})
	}
	for n := range l.histograms {
		h, fh := l.histograms[n].model()
		b.Histogram(remotewrite.Histogram{TsMs: l.tsMs[n], H: h, FH: fh})
	}
	return nil
}

func (l *line) histogram(it *jsoniter.Iterator) bool {
	var h nativeHistogram
	text := it.SkipAndReturnBytes()
	if it.Error != nil {
		return false
	}
	if err := json.Unmarshal(text, &h); err != nil {
		it.ReportError("histograms", err.Error())
		return false
	}
	l.histograms = append(l.histograms, h)
	return true
}
