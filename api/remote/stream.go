package remote

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

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
