package opentsdb

import (
	"bytes"

	"halite/api/receiver"
	"halite/ingest"
	"halite/ingest/batch"
)

// text is a file with data points, as `tsdb scan --import` of OpenTSDB writes it and `tsdb import` reads it.
type text struct {
	lines Lines
	bad   receiver.BadLines
}

// Text returns a parser of lines such as "metric timestamp value tag=value". The command put may stand in front of a line.
func Text(names *Names) receiver.Request { return &text{lines: Lines{names: names}} }

func (x *text) Protocol() string { return "OpenTSDB text" }

func (x *text) Check() error { return nil }

// Parse adds the data points of all lines to a batch. It counts lines from the first body on.
func (x *text) Parse(body []byte, b *batch.Batch) error {
	b.SetLabels(appendFields)
	for len(body) > 0 {
		line, rest, _ := bytes.Cut(body, []byte{'\n'})
		body = rest
		x.bad.Next()
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		fault, err := x.lines.put(withoutCommand(line), b)
		if err != nil {
			return err
		}
		if fault != nil {
			x.bad.Reject(b, fault.Error())
		}
	}
	return nil
}

// withoutCommand returns a line without the command put. A line of the metric put has a time after its first word.
func withoutCommand(line []byte) []byte {
	rest, ok := bytes.CutPrefix(line, []byte("put "))
	if !ok {
		return line
	}
	word, _, _ := bytes.Cut(rest, []byte{' '})
	if _, err := parseTime(word); err == nil {
		return line
	}
	return rest
}

// Respond lists the lines and samples that were left out.
func (x *text) Respond(result *ingest.Result) receiver.Response { return x.bad.Respond(result) }

func (x *text) Refuse(status int, err error) receiver.Response {
	return receiver.Text(status, err.Error())
}
