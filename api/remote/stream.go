package remote

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/prometheus/prometheus/prompb"
)

// StreamType is the content type of a streamed read.
const StreamType = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"

// FrameEncoder encodes the frames of a streamed read: the length as uvarint, the CRC-32C of the message (4 bytes,
// big-endian), and the message.
type FrameEncoder struct {
	crc *crc32.Table
	buf []byte
}

// NewFrameEncoder returns an encoder for one stream.
func NewFrameEncoder() *FrameEncoder {
	return &FrameEncoder{crc: crc32.MakeTable(crc32.Castagnoli)}
}

// Encode returns the frame of m. It is valid until the next call.
func (f *FrameEncoder) Encode(m *prompb.ChunkedReadResponse) ([]byte, error) {
	size := m.Size()
	f.buf = binary.AppendUvarint(f.buf[:0], uint64(size))
	head := len(f.buf) + crc32.Size
	if cap(f.buf) < head+size {
		f.buf = append(make([]byte, 0, head+size), f.buf...)
	}
	message := f.buf[head : head+size]
	if _, err := m.MarshalToSizedBuffer(message); err != nil {
		return nil, fmt.Errorf("encode a frame: %w", err)
	}
	f.buf = binary.BigEndian.AppendUint32(f.buf, crc32.Checksum(message, f.crc))
	return f.buf[:head+size], nil
}

// ErrFrame means that a stream is damaged.
var ErrFrame = errors.New("damaged frame")

// FrameDecoder reads a stream of frames.
type FrameDecoder struct {
	r        *bufio.Reader
	crc      *crc32.Table
	bytesMax uint64
	buf      []byte
}

// NewFrameDecoder returns a decoder of a stream. No frame may be longer than bytesMax.
func NewFrameDecoder(r io.Reader, bytesMax int) *FrameDecoder {
	return &FrameDecoder{r: bufio.NewReader(r), crc: crc32.MakeTable(crc32.Castagnoli), bytesMax: uint64(bytesMax)}
}

// Decode reads the next frame into m, which is valid until the next call. It returns io.EOF after the last frame.
func (f *FrameDecoder) Decode(m *prompb.ChunkedReadResponse) error {
	size, err := binary.ReadUvarint(f.r)
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	if err != nil {
		return fmt.Errorf("read a frame: %w", err)
	}
	if size > f.bytesMax {
		return fmt.Errorf("%w: it has %d bytes, more than the limit of %d", ErrFrame, size, f.bytesMax)
	}
	var sum [crc32.Size]byte
	if _, err := io.ReadFull(f.r, sum[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	f.buf = slices.Grow(f.buf[:0], int(size))[:size]
	if _, err := io.ReadFull(f.r, f.buf); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if crc32.Checksum(f.buf, f.crc) != binary.BigEndian.Uint32(sum[:]) {
		return fmt.Errorf("%w: its checksum is wrong", ErrFrame)
	}
	if err := m.Unmarshal(f.buf); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return nil
}
