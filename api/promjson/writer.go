package promjson

import (
	"encoding/json"
	"io"

	"github.com/prometheus/prometheus/model/labels"
)

// SpillBytes is the buffered size from which a Writer passes on its buffer. So a large response is not in memory twice.
const SpillBytes = 64 << 10

// Writer appends JSON to a buffer, and writes the buffer to w whenever it is large.
type Writer struct {
	w       io.Writer
	buf     []byte
	spilled bool
	err     error // of w; afterwards nothing more is written
}

// NewWriter returns a Writer that appends to buf, which may be nil.
func NewWriter(w io.Writer, buf []byte) *Writer { return &Writer{w: w, buf: buf} }

// Raw appends text that already is JSON.
func (j *Writer) Raw(text string) { j.buf = append(j.buf, text...) }

// RawBytes appends text that already is JSON.
func (j *Writer) RawBytes(text []byte) { j.buf = append(j.buf, text...) }

// String appends a string.
func (j *Writer) String(s string) { j.buf = AppendString(j.buf, s) }

// Strings appends a list of strings; it writes [] if the list is empty.
func (j *Writer) Strings(list []string) {
	j.List(len(list), func(i int) { j.String(list[i]) })
}

// Labels appends a label set as an object, in the order of the set.
func (j *Writer) Labels(ls labels.Labels) { j.buf = appendLabels(j.buf, ls) }

// List appends a list of n items; item writes each of them. It stops early when w fails.
func (j *Writer) List(n int, item func(i int)) {
	j.buf = append(j.buf, '[')
	for i := 0; i < n && j.err == nil; i++ {
		if i > 0 {
			j.buf = append(j.buf, ',')
		}
		item(i)
		if len(j.buf) >= SpillBytes {
			j.Flush()
		}
	}
	j.buf = append(j.buf, ']')
}

// Marshal appends v by its struct tags, for responses whose speed does not matter.
func (j *Writer) Marshal(v any) { j.buf = append(j.buf, Marshal(v)...) }

// Marshal encodes v by its struct tags. It panics if encoding/json does not support the type, which is a fault of the program.
func Marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// Flush writes the buffer to w.
func (j *Writer) Flush() {
	if j.err == nil {
		_, j.err = j.w.Write(j.buf)
	}
	j.spilled = true
	j.buf = j.buf[:0]
}

// Whole returns the length of the response so far. ok is false if a part of it was already written to w.
func (j *Writer) Whole() (bytes int, ok bool) { return len(j.buf), !j.spilled }

// Buffer returns the buffer for reuse. The Writer must not be used afterwards.
func (j *Writer) Buffer() []byte { return j.buf }

// AppendError appends the response of a failed request. typ is one of Prometheus's error types.
func AppendError(dst []byte, typ, message string) []byte {
	dst = append(dst, `{"status":"error","errorType":"`...)
	dst = append(dst, typ...)
	dst = append(dst, `","error":`...)
	return append(AppendString(dst, message), '}')
}
