package opentsdb

import (
	"bytes"

	"halite/ingest"
	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

// Lines reads the lines of a telnet connection. It is not safe for concurrent use.
type Lines struct {
	names *Names
	// bytesMax bounds a line.
	bytesMax int
	tags     []tag
	key      []byte
	// repeats is set if tags lacks a tag that the line repeats.
	repeats bool

	// Used is the number of bytes that the last Parse has read.
	Used int
	// Errors are the responses to bad lines, one a line. ErrorsLeft counts those that did not fit.
	Errors     []byte
	ErrorsLeft int
	// Bad is the number of bad lines.
	Bad int
}

// errorBytesMax bounds the responses to the bad lines of one batch.
const errorBytesMax = 32 << 10

// NewLines returns a parser of lines with at most bytesMax bytes.
func NewLines(names *Names, bytesMax int) *Lines { return &Lines{names: names, bytesMax: bytesMax} }

// HoldsData reports whether a text begins with a line that holds a data point. Other lines hold commands.
func HoldsData(text []byte) bool {
	word, _ := command(text)
	return word != nil
}

// command returns the command of the first line of a text, and the position after the command and its space. If the line holds no
// data point, it returns nil.
func command(text []byte) (word []byte, end int) {
	for _, known := range [...]string{"put", "rollup", "histogram"} {
		if len(text) >= len(known) && string(text[:len(known)]) == known {
			switch rest := text[len(known):]; {
			case len(rest) == 0, rest[0] == '\n', rest[0] == '\r':
				return text[:len(known)], len(known)
			case rest[0] == ' ':
				return text[:len(known)], len(known) + 1
			}
		}
	}
	return nil, 0
}

// Parse adds the data points of the first lines of a text to a batch, up to a line with another command. Each line ends in a
// line break.
func (l *Lines) Parse(text []byte, b *batch.Batch) error {
	l.Used, l.Errors, l.ErrorsLeft, l.Bad = 0, l.Errors[:0], 0, 0
	b.SetLabels(appendFields)
	for l.Used < len(text) {
		rest := text[l.Used:]
		word, from := command(rest)
		if word == nil {
			return nil
		}
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return nil
		}
		l.Used += end + 1
		for end > from && rest[end-1] == '\r' {
			end--
		}
		if err := l.parseLine(word, rest[min(from, end):end], b); err != nil {
			return err
		}
	}
	return nil
}

// parseLine adds the data point of a line, or the response to a bad line. arguments is the line after the command.
func (l *Lines) parseLine(word, arguments []byte, b *batch.Batch) (err error) {
	var fault error
	switch {
	case len(arguments) > l.bytesMax:
		fault = argument("the line has %d bytes, more than the limit of %d", len(arguments), l.bytesMax)
	case word[0] == 'p':
		fault, err = l.put(arguments, b)
	case word[0] == 'r':
		fault, err = l.rollup(arguments, b)
	default:
		fault, err = l.histogram(arguments, b)
	}
	if fault != nil {
		l.refuse(word, fault, b)
	}
	return err
}

// refuse counts a bad line, and keeps the response to it.
func (l *Lines) refuse(word []byte, fault error, b *batch.Batch) {
	reason, response := reasonOf(fault), responseTo(string(word), fault)
	l.Bad++
	b.Reject(batch.Rejection{Count: 1, Reason: reason, Detail: response})
	if len(l.Errors)+len(response) >= errorBytesMax {
		l.ErrorsLeft++
		return
	}
	l.Errors = append(append(l.Errors, response...), '\n')
}

// reasonOf returns the rejection reason of a faulty data point.
func reasonOf(fault error) string {
	if f, ok := fault.(*Fault); ok && f.Number {
		return ingest.ReasonNotNumeric
	}
	return ingest.ReasonMalformedLine
}

// responseTo returns OpenTSDB's response to a bad line, without a line break.
func responseTo(word string, fault error) string {
	if f, ok := fault.(*Fault); ok && f.Number {
		return word + ": invalid value: " + fault.Error()
	}
	if _, ok := fault.(*noRollupError); ok {
		return word + ": No such rollup: " + fault.Error()
	}
	return word + ": illegal argument: " + fault.Error()
}

// words returns the next words of a line, and the rest after them. It is an error if there are fewer.
func words(line []byte, into ...*[]byte) (rest []byte, ok bool) {
	for n, word := range into {
		at := bytes.IndexByte(line, ' ')
		if at < 0 {
			if n < len(into)-1 {
				return nil, false
			}
			*word = line
			return nil, true
		}
		*word, line = line[:at], line[at+1:]
	}
	return line, true
}

// parsePoint parses the time and the tags of a data point, and checks that it has a metric and a value.
func (l *Lines) parsePoint(metric, at, value, tags []byte) (tsMs int64, fault error) {
	if len(metric) == 0 {
		return 0, argument("empty metric name")
	}
	if tsMs, fault = parseTime(at); fault != nil {
		return 0, fault
	}
	if len(value) == 0 {
		return 0, argument("empty value")
	}
	return tsMs, l.parseTags(tags, metric)
}

// put adds the data point of "metric timestamp value tags".
func (l *Lines) put(line []byte, b *batch.Batch) (fault, err error) {
	var metric, at, text []byte
	rest, ok := words(line, &metric, &at, &text)
	if !ok || rest == nil {
		return tooFew(line, 4), nil
	}
	tsMs, fault := l.parsePoint(metric, at, text, rest)
	if fault != nil {
		return fault, nil
	}
	v, rounded, fault := parseValue(text, metric, tsMs)
	if fault != nil {
		return fault, nil
	}
	if rounded {
		b.Reject(batch.Rejection{Count: 1, Reason: ingest.ReasonRounded, Silent: true})
	}
	if l.repeats {
		l.key, rest = appendKey(l.key[:0], metric, l.tags), nil
	} else { // this differs from appendKey only in spaces
		l.key = append(append(append(l.key[:0], keyMark), metric...), ' ')
	}
	if err := b.Begin(l.key, rest); err != nil {
		return nil, err
	}
	b.Sample(remotewrite.Sample{TsMs: tsMs, Value: v})
	return nil, nil
}

// tooFew returns the error of a line with too few arguments.
func tooFew(line []byte, needs int) error {
	got := 0
	if len(line) > 0 {
		got = 1 + bytes.Count(line, []byte{' '})
	}
	return argument("not enough arguments (need least %d, got %d)", needs, got)
}

// parseTags reads tags into l.tags, and checks the names of the data point.
func (l *Lines) parseTags(text, metric []byte) error {
	l.tags, l.repeats = l.tags[:0], false
	legal := &l.names.legal
	plain := true // the loops below only see legal characters
	for _, c := range metric {
		plain = plain && c < 0x80 && legal[c]
	}
	for at := 0; at < len(text); at++ {
		if text[at] == ' ' {
			continue
		}
		from, equals := at, -1
		for ; at < len(text) && text[at] != ' '; at++ {
			switch c := text[at]; {
			case c < 0x80 && legal[c]:
			case c == '=' && equals < 0:
				equals = at
			case c == '=':
				return argument("invalid tag: %s", clip(wordAt(text, from)))
			default:
				plain = false
			}
		}
		if equals <= from || equals+1 == at {
			return argument("invalid tag: %s", clip(text[from:at]))
		}
		before := len(l.tags)
		var fault error
		if l.tags, fault = l.names.add(l.tags, text[from:equals], text[equals+1:at]); fault != nil {
			return fault
		}
		l.repeats = l.repeats || len(l.tags) == before
	}
	if len(l.tags) == 0 {
		return argument("Need at least one tag (metric=%s, tags={})", clip(metric))
	}
	if plain {
		return nil
	}
	return l.names.check(metric, l.tags)
}

// wordAt returns the word that begins at a position.
func wordAt(text []byte, from int) []byte {
	word, _, _ := bytes.Cut(text[from:], []byte{' '})
	return word
}
