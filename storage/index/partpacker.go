package index

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"halite/storage/index/envelope"
)

// partPacker turns payloads of journal parts into their packed form and back: label values and the columns of metrics
// repeat each other. It serves one Persist or one restore; the zero value is ready.
type partPacker struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

const (
	// packBytesMin: shorter payloads, the hours of a few series, are left as they are.
	packBytesMin = 256
	// partBytesMax bounds what a part may unpack to: the series it may have, each with label values of kilobytes.
	partBytesMax = 256 << 20
)

// blob starts the value of a part: packed, if that makes it shorter.
func (k *partPacker) blob(payload []byte) ([]byte, error) {
	if len(payload) < packBytesMin || len(payload) > partBytesMax {
		return append(envelope.New(envelope.FormatV1, len(payload)), payload...), nil
	}
	if k.encoder == nil {
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false)) // values are checksummed as they are
		if err != nil {
			return nil, fmt.Errorf("pack a journal part: %w", err)
		}
		k.encoder = encoder
	}
	packed := binary.AppendUvarint(envelope.New(envelope.FormatV2, len(payload)/2), uint64(len(payload)))
	packed = k.encoder.EncodeAll(payload, packed)
	if len(packed) > len(payload) {
		return append(envelope.New(envelope.FormatV1, len(payload)), payload...), nil
	}
	return packed, nil
}

// payload returns what blob was given, of a value of either format.
func (k *partPacker) payload(stored []byte, format byte) ([]byte, error) {
	if format == envelope.FormatV1 {
		return stored, nil
	}
	size, n := binary.Uvarint(stored)
	if n <= 0 {
		return nil, envelope.ErrTruncated
	}
	if size > partBytesMax {
		return nil, fmt.Errorf("%w: a part of %d bytes", envelope.ErrRange, size)
	}
	if k.decoder == nil {
		decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(partBytesMax),
			zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, fmt.Errorf("unpack a journal part: %w", err)
		}
		k.decoder = decoder
	}
	// The buffer grows with what comes out, so that a wrong size allocates nothing.
	out, err := k.decoder.DecodeAll(stored[n:], make([]byte, 0, min(size, uint64(16*len(stored)))))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", envelope.ErrTruncated, err)
	}
	if uint64(len(out)) != size {
		return nil, fmt.Errorf("%w: %d bytes unpacked, %d announced", envelope.ErrRange, len(out), size)
	}
	return out, nil
}

// close frees what the packer holds.
func (k *partPacker) close() {
	if k.encoder != nil {
		_ = k.encoder.Close() // nothing is under way
	}
	if k.decoder != nil {
		k.decoder.Close()
	}
}
