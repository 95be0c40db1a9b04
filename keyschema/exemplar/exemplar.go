package exemplar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"google.golang.org/protobuf/encoding/protowire"

	"halite/keyschema/column"
)

// ListMax bounds the exemplars of a list.
const ListMax = 1 << 16

// Errors. Callers wrap each with what is wrong.
var (
	// ErrCorrupt means that this version cannot have written the bytes. No retry helps.
	ErrCorrupt = column.ErrCorrupt
	// ErrBadList means that exemplars cannot be a list: there are none or too many, or their times do not ascend.
	ErrBadList = errors.New("bad list of exemplars")
)

// Exemplar is one observation behind a sample, with labels such as a trace ID.
type Exemplar struct {
	TsMs   int64 // unix
	Value  float64
	Labels labels.Labels // of the exemplar, not of its series
}

// AppendRecord appends one exemplar: its time as a varint, its value in eight bytes, and its labels.
func AppendRecord(dst []byte, e Exemplar) []byte {
	dst = binary.AppendVarint(dst, e.TsMs)
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(e.Value))
	return appendLabels(dst, e.Labels)
}

// DecodeRecord reads the record at the start of b and returns the bytes after it. The exemplar does not refer to b. An error
// wraps [ErrCorrupt].
func DecodeRecord(b []byte) (e Exemplar, rest []byte, err error) {
	r := reader{src: b, size: len(b)}
	e.TsMs = protowire.DecodeZigZag(r.uvarint("time"))
	if len(r.src) < 8 {
		r.fail("value is truncated")
		return Exemplar{}, nil, r.err
	}
	e.Value = math.Float64frombits(binary.LittleEndian.Uint64(r.src))
	r.src = r.src[8:]
	var builder labels.ScratchBuilder
	if e.Labels = r.labels(&builder); r.err != nil {
		return Exemplar{}, nil, r.err
	}
	return e, r.src, nil
}

// A text starts with its number of bytes << 1 and this flag.
const textHex = 1 // lower-case hexadecimal digits, two a byte; the number counts the bytes, not the digits

// appendLabels appends a uvarint with the number of labels, then their names and values in order.
func appendLabels(dst []byte, ls labels.Labels) []byte {
	dst = binary.AppendUvarint(dst, uint64(ls.Len()))
	ls.Range(func(l labels.Label) { dst = appendText(appendText(dst, l.Name), l.Value) })
	return dst
}

func appendText(dst []byte, s string) []byte {
	if !isHex(s) {
		return append(binary.AppendUvarint(dst, uint64(len(s))<<1), s...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s)/2)<<1|textHex)
	for i := 0; i < len(s); i += 2 {
		dst = append(dst, digit(s[i])<<4|digit(s[i+1]))
	}
	return dst
}

// isHex reports whether s is pairs of lower-case hexadecimal digits.
func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) > 0 && len(s)%2 == 0
}

func digit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// reader cuts fields off encoded bytes. After the first error it returns zeros.
type reader struct {
	src  []byte
	size int // of all bytes
	err  error
}

// fail keeps the first error, which names the position of the next byte.
func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = column.Corrupt("byte %d: %s", r.size-len(r.src), fmt.Sprintf(format, args...))
	}
	r.src = nil
}

func (r *reader) uvarint(what string) uint64 {
	x, rest, ok := column.CutUvarint(r.src)
	if !ok {
		r.fail("%s is not a varint", what)
		return 0
	}
	r.src = rest
	return x
}

// labels reads labels in their order.
func (r *reader) labels(builder *labels.ScratchBuilder) labels.Labels {
	n := r.uvarint("number of labels")
	if n > uint64(len(r.src))/2 {
		r.fail("%d labels in %d bytes", n, len(r.src))
		return labels.EmptyLabels()
	}
	builder.Reset()
	for range n {
		name, value := r.text("label name"), r.text("label value")
		if r.err != nil {
			return labels.EmptyLabels()
		}
		builder.Add(name, value)
	}
	return builder.Labels()
}

func (r *reader) text(what string) string {
	head := r.uvarint(what)
	size := head >> 1
	if size > uint64(len(r.src)) {
		r.fail("%s needs %d bytes, only %d follow", what, size, len(r.src))
		return ""
	}
	part := r.src[:size]
	if head&textHex == 0 {
		if isHex(string(part)) {
			r.fail("%s has only hexadecimal digits but does not pack two into a byte", what)
			return ""
		}
		r.src = r.src[size:]
		return string(part)
	}
	if size == 0 {
		r.fail("%s has no digits", what)
		return ""
	}
	r.src = r.src[size:]
	return fmt.Sprintf("%x", part)
}
