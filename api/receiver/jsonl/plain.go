package jsonl

import (
	"bytes"
	"strconv"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"
)

// plain reads a line in the form in which VictoriaMetrics writes it: metric, values and timestamps in this order, without spaces
// and escapes. It reports whether the line has this form. The labels then point into the text. Other lines need the JSON library.
func (l *line) plain(text []byte) bool {
	l.reset()
	rest, ok := bytes.CutPrefix(text, []byte(`{"metric":{`))
	if !ok {
		return false
	}
	labels := rest
	if rest, ok = l.plainLabels(labels); !ok {
		return false
	}
	l.metric = labels[:len(labels)-len(rest)]
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"values":[`)); !ok {
		return false
	}
	for ok := true; ok; rest, ok = bytes.CutPrefix(rest, []byte{','}) {
		size := numberSize(rest)
		v, err := strconv.ParseFloat(string(rest[:size]), 64)
		if err != nil {
			return false
		}
		l.values, rest = append(l.values, v), rest[size:]
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(`],"timestamps":[`)); !ok {
		return false
	}
	for ok := true; ok; rest, ok = bytes.CutPrefix(rest, []byte{','}) {
		size := integerSize(rest)
		tsMs, err := strconv.ParseInt(string(rest[:size]), 10, 64)
		if err != nil {
			return false
		}
		l.tsMs, rest = append(l.tsMs, tsMs), rest[size:]
	}
	return string(rest) == "]}" && len(l.labels) > 0 && len(l.values) == len(l.tsMs)
}

// plainLabels reads labels up to the end of their object. It returns the rest of the text.
func (l *line) plainLabels(text []byte) (rest []byte, ok bool) {
	for {
		var name, value string
		if name, text, ok = plainText(text); !ok || len(text) == 0 || text[0] != ':' {
			return nil, false
		}
		if value, text, ok = plainText(text[1:]); !ok || len(text) == 0 {
			return nil, false
		}
		if name != "" && value != "" {
			l.labels = append(l.labels, labels.Label{Name: name, Value: value})
		}
		switch end := text[0]; {
		case end == '}':
			return text[1:], true
		case end != ',':
			return nil, false
		}
		text = text[1:]
	}
}

// plainText reads a JSON string that is written as it is. The value points into the text.
func plainText(text []byte) (value string, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '"' {
		return "", nil, false
	}
	for n, c := range text[1:] {
		switch {
		case c == '"':
			return unsafe.String(unsafe.SliceData(text[1:]), n), text[n+2:], true
		case c == '\\' || c < ' ':
			return "", nil, false
		}
	}
	return "", nil, false
}

// numberSize returns the size of the number with which a text begins, 0 if JSON does not allow it.
func numberSize(text []byte) int {
	size := integerSize(text)
	if size == 0 {
		return 0
	}
	if size < len(text) && text[size] == '.' {
		digits := digitsSize(text[size+1:])
		if digits == 0 {
			return 0
		}
		size += 1 + digits
	}
	if size < len(text) && text[size]|0x20 == 'e' {
		size++
		if size < len(text) && (text[size] == '-' || text[size] == '+') {
			size++
		}
		digits := digitsSize(text[size:])
		if digits == 0 {
			return 0
		}
		size += digits
	}
	return size
}

// integerSize is numberSize for the part before a point or an exponent.
func integerSize(text []byte) int {
	sign := 0
	if len(text) > 0 && text[0] == '-' {
		sign = 1
	}
	digits := digitsSize(text[sign:])
	if digits == 0 || digits > 1 && text[sign] == '0' {
		return 0
	}
	return sign + digits
}

// digitsSize returns the number of digits with which a text begins.
func digitsSize(text []byte) int {
	for n, c := range text {
		if c < '0' || c > '9' {
			return n
		}
	}
	return len(text)
}
