package jsonl

import (
	"bytes"
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
	// metric is the object of the labels as written, if plain has read it.
	metric []byte
}

func (l *line) reset() {
	l.labels, l.values, l.histograms, l.tsMs, l.metric = l.labels[:0], l.values[:0], l.histograms[:0], l.tsMs[:0], nil
}

// parse reads a line that is not empty.
func (l *line) parse(it *jsoniter.Iterator, text []byte) error {
	err := l.parseJSON(it, text)
	if err == nil {
		return nil
	}
	if quoted := quoteWords(text); quoted != nil {
		return l.parseJSON(it, quoted)
	}
	return err
}

// quoteWords returns a line with NaN, Inf and Infinity in quotes, or nil if it has no values. vmctl and Python write these words
// without quotes, which is not JSON.
func quoteWords(text []byte) []byte {
	start := bytes.LastIndex(text, []byte(`"values"`))
	if start < 0 {
		return nil
	}
	before, array, _ := bytes.Cut(text[start:], []byte{'['})
	array, after, _ := bytes.Cut(array, []byte{']'})
	words := bytes.Split(array, []byte{','})
	for n, word := range words {
		word = bytes.TrimSpace(word)
		if _, ok := special(string(word)); ok {
			words[n] = slices.Concat([]byte{'"'}, word, []byte{'"'})
		}
	}
	return slices.Concat(text[:start], before, []byte{'['}, bytes.Join(words, []byte{','}), []byte{']'}, after)
}

func (l *line) parseJSON(it *jsoniter.Iterator, text []byte) error {
	l.reset()
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
	case "infinity", "inf", "+infinity", "+inf":
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

// add adds the samples to a batch. The key is the labels as written after prefix, or else the label fields.
func (l *line) add(b *batch.Batch, prefix []byte, extra []labels.Label) error {
	key := l.metric
	if key == nil {
		l.fields = l.appendFields(l.fields[:0], extra)
		key, prefix = l.fields, nil
	}
	if err := b.Begin(prefix, key); err != nil {
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

// appendFields appends the label fields, in the order of remote write.
func (l *line) appendFields(dst []byte, extra []labels.Label) []byte {
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
	return remotewrite.AppendPairs(dst, l.labels)
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
