package exposition

import (
	"bytes"
	"math"
	"strconv"

	"github.com/prometheus/prometheus/model/value"

	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

// scanText adds the samples of a body in the text format to a batch, up to the first line that is not plain. It returns the rest.
// A plain line has a series, a value and perhaps a time, with one space between them. scanText does not parse the series of a
// line. If the writer does not know the series, appendFields parses it. An invalid series makes the whole request bad.
func (p *Parser) scanText(body []byte, b *batch.Batch) (rest []byte, err error) {
	for len(body) > 0 {
		line, next := body, []byte(nil)
		if end := bytes.IndexByte(body, '\n'); end >= 0 {
			line, next = body[:end], body[end+1:]
		}
		series, v, ts, ok := splitLine(line)
		if !ok || ts != nil && p.OwnTimeOnly {
			return body, nil
		}
		tsMs := p.TsMs
		if ts != nil {
			if tsMs, ok = parseTime(ts); !ok {
				return body, nil
			}
		}
		p.lines.at(series)
		p.key[1], p.key[2] = byte(p.format), numbersOf(p.types)
		if err := b.Begin(p.key[:], p.prefix, series); err != nil {
			return body, err
		}
		b.Sample(remotewrite.Sample{TsMs: tsMs, Value: v})
		body = next
	}
	return nil, nil
}

// comments returns the lines of comments and the empty lines with which a text begins, and the rest.
func comments(text []byte) (head, rest []byte) {
	rest = text
	for len(rest) > 0 && (rest[0] == '#' || rest[0] == '\n') {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return text, nil
		}
		rest = rest[end+1:]
	}
	return text[:len(text)-len(rest)], rest
}

// splitLine splits a plain line. ts is nil if there is none.
func splitLine(line []byte) (series []byte, v float64, ts []byte, ok bool) {
	if len(line) == 0 || !beginsSeries(line[0]) {
		return nil, 0, nil, false
	}
	end := bytes.LastIndexByte(line, '}') + 1
	if end == 0 {
		end = bytes.IndexByte(line, ' ')
		if end < 1 || bytes.IndexByte(line[:end], '{') >= 0 {
			return nil, 0, nil, false
		}
	}
	if end == len(line) || line[end] != ' ' || !closesQuotes(line[:end]) {
		return nil, 0, nil, false
	}
	number := line[end+1:]
	if at := bytes.IndexByte(number, ' '); at >= 0 {
		number, ts = number[:at], number[at+1:]
	}
	v, ok = parseValue(number)
	return line[:end], v, ts, ok
}

// beginsSeries reports whether a byte begins a metric name or labels.
func beginsSeries(c byte) bool {
	return c == '{' || c == '_' || c == ':' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// closesQuotes reports whether all quoted texts end within the series.
func closesQuotes(series []byte) bool {
	if bytes.IndexByte(series, '\\') < 0 {
		return bytes.Count(series, []byte{'"'})%2 == 0
	}
	quoted := false
	for i := 0; i < len(series); i++ {
		switch {
		case series[i] == '"':
			quoted = !quoted
		case series[i] == '\\' && quoted:
			i++
		}
	}
	return !quoted
}

// parseValue parses a value as Prometheus's parser does.
func parseValue(text []byte) (float64, bool) {
	for _, c := range text {
		if c == 'p' || c == 'P' || c == '_' { // forms that only Go accepts
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if math.IsNaN(v) {
		v = math.Float64frombits(value.NormalNaN)
	}
	return v, err == nil
}

// timeDigitsMax is the number of digits that always fit into an int64.
const timeDigitsMax = 18

// parseTime parses a time in milliseconds.
func parseTime(text []byte) (tsMs int64, ok bool) {
	if len(text) == 0 || len(text) > timeDigitsMax {
		return 0, false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		tsMs = tsMs*10 + int64(c-'0')
	}
	return tsMs, true
}
