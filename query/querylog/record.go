package querylog

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// Query describes a query at its start.
type Query struct {
	Time  time.Time `json:"time"`
	Kind  string    `json:"kind"`
	Query string    `json:"query"`
	// QueryBytes is the length of the whole expression if Query is truncated, otherwise 0.
	QueryBytes int   `json:"queryBytes,omitempty"`
	StartMs    int64 `json:"startMs"`
	EndMs      int64 `json:"endMs"`
	StepMs     int64 `json:"stepMs"`
	// Client is the address of the client.
	Client string `json:"client"`
}

// Outcome describes how a query ended.
type Outcome struct {
	// Status is StatusSuccess, StatusUnfinished or a type of error.
	Status   string
	Error    string
	Duration time.Duration
	Samples  int64
	// PeakBytes is the peak memory of the query for samples and series, 0 if it was not measured.
	PeakBytes int64
}

// Values of Outcome.Status other than types of errors.
const (
	StatusSuccess    = "success"
	StatusUnfinished = "unfinished"
)

// line is a line of the log.
type line struct {
	Query
	Status          string   `json:"status"`
	Error           string   `json:"error,omitempty"`
	DurationSeconds *float64 `json:"durationSeconds,omitempty"`
	Samples         *int64   `json:"samples,omitempty"`
	PeakBytes       int64    `json:"peakBytes,omitempty"`
}

// textBytesMax bounds the expression and the error in a record.
const textBytesMax = 2048

// clientBytesMax bounds the client in a record.
const clientBytesMax = 256

// bounded shortens the texts of a query to textMax bytes.
func (q Query) bounded(textMax int) Query {
	if len(q.Query) > textMax {
		q.QueryBytes = max(q.QueryBytes, len(q.Query))
		q.Query = truncate(q.Query, textMax)
	}
	q.Client = truncate(q.Client, clientBytesMax)
	return q
}

// truncate shortens a text to bytesMax without splitting a character.
func truncate(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	for bytesMax > 0 && !utf8.RuneStart(text[bytesMax]) {
		bytesMax--
	}
	return text[:bytesMax]
}

// encode encodes a record as one line of JSON.
func encode(record any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(record)
	return b.Bytes(), err
}

// appendJSON appends a query as one line of JSON, as encode does. It is faster than encode, and every query calls it.
func (q Query) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"time":"`...)
	dst = q.Time.AppendFormat(dst, time.RFC3339Nano)
	dst = appendText(append(dst, `","kind":`...), q.Kind)
	dst = appendText(append(dst, `,"query":`...), q.Query)
	if q.QueryBytes != 0 {
		dst = strconv.AppendInt(append(dst, `,"queryBytes":`...), int64(q.QueryBytes), 10)
	}
	dst = strconv.AppendInt(append(dst, `,"startMs":`...), q.StartMs, 10)
	dst = strconv.AppendInt(append(dst, `,"endMs":`...), q.EndMs, 10)
	dst = strconv.AppendInt(append(dst, `,"stepMs":`...), q.StepMs, 10)
	dst = appendText(append(dst, `,"client":`...), q.Client)
	return append(dst, "}\n"...)
}

// appendText appends a text as a JSON string.
func appendText(dst []byte, text string) []byte {
	begin := len(dst)
	dst = append(dst, '"')
	for i := range len(text) {
		switch b := text[i]; {
		case b < ' ' || b >= utf8.RuneSelf:
			// Encoding a string does not fail. The string ends before the line end.
			quoted, _ := encode(text)
			return append(dst[:begin], quoted[:len(quoted)-1]...)
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		default:
			dst = append(dst, b)
		}
	}
	return append(dst, '"')
}

// encodeLine encodes the log line of a finished query.
func encodeLine(q Query, o Outcome) ([]byte, error) {
	l := line{Query: q.bounded(textBytesMax), Status: o.Status, Error: truncate(o.Error, textBytesMax), PeakBytes: o.PeakBytes}
	if o.Status != StatusUnfinished {
		seconds := o.Duration.Seconds()
		l.DurationSeconds, l.Samples = &seconds, &o.Samples
	}
	return encode(l)
}
