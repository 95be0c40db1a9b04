package histchunk

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"halite/keyschema/column"
)

// reader cuts fields off encoded bytes. After the first error it returns zeros.
type reader struct {
	src     []byte
	size    int // of all bytes
	numbers uint64
	err     error
}

func newReader(src []byte) reader { return reader{src: src, size: len(src)} }

// fail keeps the first error, which names the position of the next byte.
func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = column.Corrupt("byte %d: %s", r.size-len(r.src), fmt.Sprintf(format, args...))
	}
	r.src = nil
}

// wrap keeps the error of a part that begins at the next byte.
func (r *reader) wrap(part string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("%s at byte %d: %w", part, r.size-len(r.src), err)
	}
	r.src = nil
}

// charge adds to the count of numbers that the chunk decodes to.
func (r *reader) charge(numbers uint64) {
	if r.numbers += numbers; r.numbers > NumbersMax {
		r.fail("more than %d numbers", NumbersMax)
	}
}

func (r *reader) byte(what string) byte {
	if len(r.src) == 0 {
		r.fail("%s is missing", what)
		return 0
	}
	b := r.src[0]
	r.src = r.src[1:]
	return b
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

func (r *reader) varint(what string) int64 { return protowire.DecodeZigZag(r.uvarint(what)) }

// count reads a number of items that take at least size bytes each.
func (r *reader) count(what string, size int) int {
	x, rest, ok := column.CutUvarint(r.src)
	if !ok || x > uint64(len(rest)/size) || x > BucketsMax {
		r.fail("%d %s in %d bytes", x, what, len(rest))
		return 0
	}
	r.src = rest
	return int(x)
}

// bits reads a bit pattern of eight bytes.
func (r *reader) bits(what string) uint64 {
	if len(r.src) < 8 {
		r.fail("%s is truncated", what)
		return 0
	}
	x := binary.LittleEndian.Uint64(r.src)
	r.src = r.src[8:]
	return x
}

func (r *reader) float(what string) float64 { return math.Float64frombits(r.bits(what)) }
