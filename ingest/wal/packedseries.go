package wal

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// packWindowBytes is how far back repetitions are looked for. It bounds the memory of a packer.
const packWindowBytes = 1 << 20

// SeriesPacker turns payloads of series into KindSeriesColumns ones, or KindPackedSeries, and back: a checkpoint holds
// every series, and label sets of one fleet repeat each other. It is not for concurrent use.
type SeriesPacker struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
	buffer  []byte
}

// NewSeriesPacker returns a packer; Close frees it.
func NewSeriesPacker() (*SeriesPacker, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault),
		zstd.WithWindowSize(packWindowBytes), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false)) // frames are checksummed as they are
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(PayloadBytesMax))
	if err != nil {
		return nil, err
	}
	return &SeriesPacker{encoder: encoder, decoder: decoder}, nil
}

// Pack returns the packed form of a payload, valid until the next call.
func (p *SeriesPacker) Pack(payload []byte) []byte {
	p.buffer = p.encoder.EncodeAll(payload, p.buffer[:0])
	return p.buffer
}

// Unpack returns the payload, valid until the next call. What does not unpack, or to more than
// PayloadBytesMax, is ErrBadRecord.
func (p *SeriesPacker) Unpack(packed []byte) ([]byte, error) {
	payload, err := p.decoder.DecodeAll(packed, p.buffer[:0])
	if err != nil {
		return nil, fmt.Errorf("%w: packed series: %w", ErrBadRecord, err)
	}
	p.buffer = payload
	return payload, nil
}

// Close frees what the packer holds.
func (p *SeriesPacker) Close() {
	p.encoder.Close()
	p.decoder.Close()
}
