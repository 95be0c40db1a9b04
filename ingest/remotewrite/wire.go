package remotewrite

import (
	"encoding/binary"
	"fmt"
	"math"
)

// FormatError reports where and why a body is not a WriteRequest.
type FormatError struct {
	// Offset is the position in the decoded body.
	Offset int
	Reason string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("malformed protobuf at byte %d: %s", e.Offset, e.Reason)
}

// Wire types of protobuf.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireGroup   = 3
	wireEnd     = 4
	wireFixed32 = 5
)

func formatError(offset int, format string, args ...any) error {
	return &FormatError{Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// uvarint reads a varint in b[pos:end]. Like the generated decoders it accepts at most ten bytes and drops the bits above
// the 64th. protowire.ConsumeVarint would refuse such a varint, but Prometheus accepts it.
func uvarint(b []byte, pos, end int) (v uint64, next int, err error) {
	if pos < end && b[pos] < 0x80 {
		return uint64(b[pos]), pos + 1, nil
	}
	for i, shift := pos, uint(0); ; i, shift = i+1, shift+7 {
		if shift >= 64 {
			return 0, 0, formatError(pos, "varint of more than ten bytes")
		}
		if i >= end {
			return 0, 0, formatError(pos, "varint is cut off")
		}
		v |= uint64(b[i]&0x7f) << shift
		if b[i] < 0x80 {
			return v, i + 1, nil
		}
	}
}

// tag reads a field's number and wire type. Numbers are cut to 32 bits as the generated decoders do.
func tag(b []byte, pos, end int) (field int32, wire, next int, err error) {
	v, next, err := uvarint(b, pos, end)
	if err != nil {
		return 0, 0, 0, err
	}
	field, wire = int32(v>>3), int(v&7)
	if wire == wireEnd {
		return 0, 0, 0, formatError(pos, "end of a group that has not begun")
	}
	if field <= 0 {
		return 0, 0, 0, formatError(pos, "field number %d", field)
	}
	return field, wire, next, nil
}

// lengthDelimited reads the length of a field of wire type bytes and returns where its content begins and ends.
func lengthDelimited(b []byte, pos, end int) (from, to int, err error) {
	n, from, err := uvarint(b, pos, end)
	if err != nil {
		return 0, 0, err
	}
	if n > uint64(end-from) {
		return 0, 0, formatError(pos, "length %d exceeds the %d bytes left", n, end-from)
	}
	return from, from + int(n), nil
}

// skip skips the value of a field with an unknown number, after the field's tag. It skips a group with its fields.
func skip(b []byte, wire, pos, end int) (next int, err error) {
	for depth := 0; ; {
		at := pos
		switch wire {
		case wireVarint:
			_, pos, err = uvarint(b, pos, end)
		case wireFixed64:
			pos += 8
		case wireBytes:
			_, pos, err = lengthDelimited(b, pos, end)
		case wireGroup:
			depth++
		case wireEnd:
			depth--
		case wireFixed32:
			pos += 4
		default:
			err = formatError(at, "wire type %d", wire)
		}
		if err != nil {
			return 0, err
		}
		if pos > end {
			return 0, formatError(at, "field is cut off")
		}
		if depth == 0 {
			return pos, nil
		}
		var v uint64
		if v, pos, err = uvarint(b, pos, end); err != nil {
			return 0, err
		}
		wire = int(v & 7)
	}
}

// expectType checks the wire type of a known field.
func expectType(name string, wire, wanted, pos int) error {
	if wire != wanted {
		return formatError(pos, "wire type %d for %s", wire, name)
	}
	return nil
}

// elements returns where the elements of a repeated field begin and end: many in a packed field, or one of wire type single.
func elements(b []byte, name string, single, wire, at, pos, end int) (from, to int, err error) {
	if wire == single {
		return pos, pos + 1, nil
	}
	if err := expectType(name, wire, wireBytes, at); err != nil {
		return 0, 0, err
	}
	return lengthDelimited(b, pos, end)
}

// double reads the value of a field of type double.
func double(b []byte, name string, wire, at, pos, end int) (v float64, next int, err error) {
	if err := expectType(name, wire, wireFixed64, at); err != nil {
		return 0, 0, err
	}
	if end-pos < 8 {
		return 0, 0, formatError(at, "%s is cut off", name)
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b[pos:])), pos + 8, nil
}

// integer reads the value of a field of type int64.
func integer(b []byte, name string, wire, at, pos, end int) (v int64, next int, err error) {
	if err := expectType(name, wire, wireVarint, at); err != nil {
		return 0, 0, err
	}
	u, next, err := uvarint(b, pos, end)
	return int64(u), next, err
}
