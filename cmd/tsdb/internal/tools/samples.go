package tools

import (
	"errors"
	"fmt"
	"strings"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
	"halite/storage"
)

var errSingleSample = errors.New("only floats may be stored as single samples")

// describeSamples describes the content of a cell of the data table, with every sample if verbose is set. It returns an error if
// the cell is damaged.
func describeSamples(key []byte, cell storage.Cell, verbose bool) (string, error) {
	row, err := keyschema.ParseRowKey(key)
	if err != nil {
		return "", err
	}
	q, err := keyschema.ParseQualifier(cell.Qualifier)
	if err != nil {
		return "", err
	}
	switch {
	case q.Kind == keyschema.KindMark:
		return "mark of late samples", nil
	case q.Kind == keyschema.KindSample && cell.Family != storage.FamilySamples:
		return "", errSingleSample
	case q.Kind == keyschema.KindSample:
		v, err := chunk.ParseSampleValue(cell.Value)
		return fmt.Sprintf("sample +%d ms = %g", q.OffsetMs, v), err
	}
	list, err := decodeSamples(cell, keyschema.HourStartMs(row.Hour))
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("chunk %d: %d %s, %s to %s", q.Seq, len(list.tsMs), list.kind, clock(list.tsMs[0]),
		clock(list.tsMs[len(list.tsMs)-1]))
	if !verbose {
		return text, nil
	}
	var b strings.Builder
	b.WriteString(text)
	for i, ts := range list.tsMs {
		fmt.Fprintf(&b, "\n    %s %s", clock(ts), list.text(i))
	}
	return b.String(), nil
}

// sampleList holds the samples of a chunk: their times, their kind, and the text of each.
type sampleList struct {
	kind string
	tsMs []int64
	text func(i int) string
}

// decodeSamples decodes a chunk of any family.
func decodeSamples(cell storage.Cell, startMs int64) (l sampleList, err error) {
	switch cell.Family {
	case storage.FamilyHistograms:
		return decodeHistograms(cell.Value, startMs)
	case storage.FamilyExemplars:
		return decodeExemplars(cell.Value, startMs)
	}
	var values []float64
	l.tsMs, values, err = chunk.Decode(cell.Value, startMs, nil, nil)
	l.kind, l.text = "samples", func(i int) string { return fmt.Sprintf("%g", values[i]) }
	if cell.Family == storage.FamilyStartTimes {
		l.kind, l.text = "start timestamps", func(i int) string { return fmt.Sprintf("started at %d ms", int64(values[i])) }
	}
	return l, err
}

func decodeHistograms(value []byte, startMs int64) (l sampleList, err error) {
	samples, err := new(histchunk.Decoder).Decode(value, startMs, nil)
	for _, s := range samples {
		l.tsMs = append(l.tsMs, s.TsMs)
	}
	l.kind, l.text = "histograms", func(i int) string {
		if h := samples[i].H; h != nil {
			return h.String()
		}
		return samples[i].FH.String()
	}
	return l, err
}

func decodeExemplars(value []byte, startMs int64) (l sampleList, err error) {
	exemplars, err := new(exemplar.Decoder).Decode(value, startMs, nil)
	for _, e := range exemplars {
		l.tsMs = append(l.tsMs, e.TsMs)
	}
	l.kind, l.text = "exemplars", func(i int) string { return fmt.Sprintf("%g %s", exemplars[i].Value, exemplars[i].Labels) }
	return l, err
}
