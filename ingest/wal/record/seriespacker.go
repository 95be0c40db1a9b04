package record

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// packWindowBytes is the window of the compressor. It bounds the memory of a packer.
const packWindowBytes = 1 << 20

// SeriesPacker compresses the output of SeriesColumns into KindSeriesColumns payloads, and decompresses them. A checkpoint
// holds every series, and the label sets of a fleet repeat each other. SeriesPacker is not for concurrent use.
type SeriesPacker struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
	buffer  []byte
}

// NewSeriesPacker returns a packer; Close frees it.
func NewSeriesPacker() (*SeriesPacker, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault),
		zstd.WithWindowSize(packWindowBytes), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false)) // the log has checksums of its own
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(BytesMax))
	if err != nil {
		return nil, err
	}
	return &SeriesPacker{encoder: encoder, decoder: decoder}, nil
}

// Pack compresses a payload. The result is valid until the next call.
func (p *SeriesPacker) Pack(payload []byte) []byte {
	p.buffer = p.encoder.EncodeAll(payload, p.buffer[:0])
	return p.buffer
}

// Unpack returns the payload, valid until the next call. The error is ErrMalformed if the input cannot be unpacked, or its
// payload exceeds BytesMax.
func (p *SeriesPacker) Unpack(packed []byte) ([]byte, error) {
	payload, err := p.decoder.DecodeAll(packed, p.buffer[:0])
	if err != nil {
		return nil, fmt.Errorf("%w: packed series: %w", ErrMalformed, err)
	}
	p.buffer = payload
	return payload, nil
}

// Close frees the packer's memory.
func (p *SeriesPacker) Close() {
	p.encoder.Close()
	p.decoder.Close()
}
