package heat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/klauspost/compress/zstd"

	"halite/keyschema"
)

const (
	// version is the first byte of an encoded column.
	version = 1
	// RangesMax bounds the ranges of an encoded column.
	RangesMax = 1 << 14
	// decodedMax bounds a column in bytes once it is decompressed.
	decodedMax = 16 << 20
)

// ErrCorrupt means that the bytes are not an encoded column.
var ErrCorrupt = errors.New("keyviz: not a column")

// Codec encodes columns; see FORMAT.md. Concurrent use is safe.
type Codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// NewCodec returns a Codec.
func NewCodec() (*Codec, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(1<<17))
	if err != nil {
		return nil, fmt.Errorf("keyviz: %w", err)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(decodedMax), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("keyviz: %w", err)
	}
	return &Codec{encoder, decoder}, nil
}

// Append appends the encoded column to dst.
func (x *Codec) Append(dst []byte, c *Column) []byte {
	raw := binary.AppendUvarint(nil, uint64(c.StartMs))
	raw = binary.AppendUvarint(raw, uint64(c.SpanMs))
	raw = binary.AppendUvarint(raw, uint64(len(c.Starts)))
	before := ""
	for _, start := range c.Starts {
		shared := 0
		for shared < len(before) && shared < len(start) && before[shared] == start[shared] {
			shared++
		}
		raw = binary.AppendUvarint(raw, uint64(shared))
		raw = binary.AppendUvarint(raw, uint64(len(start)-shared))
		raw = append(raw, start[shared:]...)
		before = start
	}
	for m := range Metrics {
		used := byte(0)
		for i := range c.Counts {
			if c.Counts[i][m] != 0 {
				used = 1
				break
			}
		}
		raw = append(raw, used)
		if used == 0 {
			continue
		}
		for i := range c.Counts {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(c.Counts[i][m])))
		}
	}
	return x.encoder.EncodeAll(raw, append(dst, version))
}

// Parse decodes a column. All errors wrap ErrCorrupt.
func (x *Codec) Parse(src []byte) (*Column, error) {
	if len(src) == 0 || src[0] != version {
		return nil, fmt.Errorf("%w: the first byte must be %d", ErrCorrupt, version)
	}
	raw, err := x.decoder.DecodeAll(src[1:], nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	r := reader{rest: raw}
	start, span, n := r.uvarint(), r.uvarint(), r.uvarint()
	if r.failed || start > math.MaxInt64 || span > math.MaxInt64 || n == 0 || n > RangesMax || n > uint64(len(raw)) {
		return nil, fmt.Errorf("%w: the header has %d ranges", ErrCorrupt, n)
	}
	c := &Column{StartMs: int64(start), SpanMs: int64(span), Starts: make([]string, n), Counts: make([]Counts, n)}
	before := ""
	for i := range c.Starts {
		shared := r.uvarint()
		tail := r.bytes(r.uvarint())
		if r.failed || shared > uint64(len(before)) || shared+uint64(len(tail)) > keyschema.KeyBytesMax {
			return nil, fmt.Errorf("%w: bad start of range %d", ErrCorrupt, i)
		}
		c.Starts[i] = before[:shared] + string(tail)
		before = c.Starts[i]
	}
	for m := range Metrics {
		used := r.bytes(1)
		if r.failed || used[0] > 1 {
			return nil, fmt.Errorf("%w: bad mark of metric %d", ErrCorrupt, m)
		}
		if used[0] == 0 {
			continue
		}
		for i := range c.Counts {
			bits := r.bytes(4)
			if r.failed {
				return nil, fmt.Errorf("%w: metric %d is truncated", ErrCorrupt, m)
			}
			v := float64(math.Float32frombits(binary.LittleEndian.Uint32(bits)))
			if !(v >= 0) || math.IsInf(v, 1) {
				return nil, fmt.Errorf("%w: bad count %v", ErrCorrupt, v)
			}
			c.Counts[i][m] = v
		}
	}
	if len(r.rest) > 0 {
		return nil, fmt.Errorf("%w: %d trailing bytes", ErrCorrupt, len(r.rest))
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return c, nil
}

// reader reads fields. failed is true after a read beyond the last byte.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// bytes returns the next n bytes, or one zero byte after a failure.
func (r *reader) bytes(n uint64) []byte {
	if r.failed || n > uint64(len(r.rest)) {
		r.failed = true
		return []byte{0}
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}
