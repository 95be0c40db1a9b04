package influx

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unsafe"
)

// line is a line of the protocol. Its slices are parts of the text.
type line struct {
	head   []byte // measurement and tags, as written
	fields []field
	// strings is the number of fields with strings. They are not stored.
	strings int
	// time is the timestamp in the unit of the request.
	time    int64
	hasTime bool
}

type field struct {
	key   []byte // as written
	value float64
}

// Faults of a line, in InfluxDB's words.
var (
	errMeasurement = errors.New("missing measurement")
	errTagKey      = errors.New("missing tag key")
	errTagValue    = errors.New("missing tag value")
	errFields      = errors.New("missing fields")
	errFieldKey    = errors.New("missing field key")
	errFieldValue  = errors.New("missing field value")
	errQuotes      = errors.New("unbalanced quotes")
	errNumber      = errors.New("invalid number")
	errBoolean     = errors.New("invalid boolean")
	errTime        = errors.New("bad timestamp")
)

// cutLine returns the first line of a text, and the rest after its line break. A line break in a quoted field belongs to
// the line.
func cutLine(text []byte) (first, rest []byte) {
	end := bytes.IndexByte(text, '\n')
	if end < 0 {
		return text, nil
	}
	if bytes.IndexByte(text[:end], '"') < 0 || text[0] == '#' {
		return text[:end], text[end+1:]
	}
	// Quotes count only in values of fields, which come after the first unescaped space.
	at, stop := until(text[:end], 0, ' ', ' ')
	if stop == 0 {
		return text[:end], text[end+1:]
	}
	quoted := false
	for ; at < len(text); at++ {
		switch c := text[at]; {
		case c == '\\' && quoted:
			at++
		case c == '"' && (quoted || text[at-1] == '='):
			quoted = !quoted
		case c == '\n' && !quoted:
			return text[:at], text[at+1:]
		}
	}
	return text, nil
}

// WholeLines returns the size of the whole lines with which a text begins. It is receiver.Pieces.Whole of the protocol.
func WholeLines(text []byte) int {
	for rest := text; ; {
		if _, next := cutLine(rest); next != nil {
			rest = next
			continue
		}
		return len(text) - len(rest)
	}
}

// until returns the position of the first unescaped byte a or b at or after at, and that byte. If there is none, it
// returns the length of the text and 0.
func until(text []byte, at int, a, b byte) (int, byte) {
	for ; at < len(text); at++ {
		switch c := text[at]; c {
		case a, b:
			return at, c
		case '\\':
			at++
		}
	}
	return len(text), 0
}

// parse reads a line that is neither empty nor a comment.
func (l *line) parse(text []byte) error {
	l.fields, l.strings, l.hasTime = l.fields[:0], 0, false
	at, err := l.parseHead(text)
	if err != nil {
		return err
	}
	for at < len(text) && text[at] == ' ' {
		at++
	}
	for {
		if at, err = l.parseField(text, at); err != nil {
			return err
		}
		if at == len(text) || text[at] == ' ' {
			break
		}
		at++ // the comma
	}
	rest := bytes.TrimSpace(text[at:])
	if len(rest) == 0 {
		return nil
	}
	if l.time, err = strconv.ParseInt(text64(rest), 10, 64); err != nil {
		return errTime
	}
	l.hasTime = true
	return nil
}

// parseHead checks measurement and tags. It returns the position of the space after them.
func (l *line) parseHead(text []byte) (int, error) {
	at, stop := until(text, 0, ',', ' ')
	if at == 0 {
		return 0, errMeasurement
	}
	for stop == ',' {
		from := at + 1
		if at, stop = until(text, from, '=', ' '); stop != '=' {
			if at == from {
				return 0, errTagKey
			}
			return 0, errTagValue
		}
		if at == from {
			return 0, errTagKey
		}
		from = at + 1
		if at, stop = until(text, from, ',', ' '); at == from {
			return 0, errTagValue
		}
	}
	if stop == 0 {
		return 0, errFields
	}
	l.head = text[:at]
	return at, nil
}

// parseField reads one field and returns the position after it: of a comma, a space, or the end.
func (l *line) parseField(text []byte, from int) (int, error) {
	if from == len(text) {
		return 0, errFields
	}
	at, stop := until(text, from, '=', ',')
	if at == from {
		return 0, errFieldKey
	}
	if stop != '=' || at+1 == len(text) {
		return 0, errFieldValue
	}
	key := text[from:at]
	from = at + 1
	if text[from] == '"' {
		l.strings++
		return endOfString(text, from+1)
	}
	at = from
	for at < len(text) && text[at] != ',' && text[at] != ' ' {
		at++
	}
	if at == from {
		return 0, errFieldValue
	}
	value, err := parseValue(text[from:at])
	if err != nil {
		return 0, err
	}
	l.fields = append(l.fields, field{key, value})
	return at, nil
}

// endOfString returns the position after the quote that ends a string.
func endOfString(text []byte, at int) (int, error) {
	for ; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case '"':
			at++
			if at < len(text) && text[at] != ',' && text[at] != ' ' {
				return 0, errQuotes
			}
			return at, nil
		}
	}
	return 0, errQuotes
}

// parseValue reads a number or a boolean. A boolean becomes 0 or 1.
func parseValue(text []byte) (float64, error) {
	switch c := text[0]; {
	case c == 't' || c == 'T' || c == 'f' || c == 'F':
		switch string(text) {
		case "t", "T", "true", "True", "TRUE":
			return 1, nil
		case "f", "F", "false", "False", "FALSE":
			return 0, nil
		}
		return 0, errBoolean
	case c >= '0' && c <= '9', c == '-', c == '.', c == '+':
	default:
		return 0, errNumber // such as NaN and Inf
	}
	switch last := len(text) - 1; text[last] {
	case 'i':
		v, err := strconv.ParseInt(text64(text[:last]), 10, 64)
		if err != nil {
			return 0, errNumber
		}
		return float64(v), nil
	case 'u':
		v, err := strconv.ParseUint(text64(text[:last]), 10, 64)
		if err != nil {
			return 0, errNumber
		}
		return float64(v), nil
	}
	v, err := strconv.ParseFloat(text64(text), 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) || bytes.ContainsAny(text, "xXpP_") {
		return 0, errNumber
	}
	return v, nil
}

// text64 returns a short text for strconv, without a copy.
func text64(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// lineError is the error of a line that was left out.
func lineError(number int, text []byte, err error) string {
	const shown = 100
	if len(text) > shown {
		return fmt.Sprintf("line %d: unable to parse '%s…': %v", number, bytes.ToValidUTF8(text[:shown], nil), err)
	}
	return fmt.Sprintf("line %d: unable to parse '%s': %v", number, bytes.ToValidUTF8(text, nil), err)
}
