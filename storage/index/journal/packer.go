package journal

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"halite/storage/index/envelope"
)

// packer compresses payloads of records, whose label values and columns repeat. One Persist or one scan of journals
// uses it. The zero value is ready for use.
type packer struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

const (
	// packBytesMin is the shortest payload that is compressed.
	packBytesMin = 256
	// recordBytesMax bounds an uncompressed record: the largest number of series, each with kilobytes of label
	// values.
	recordBytesMax = 256 << 20
)

// blob returns the unsealed value of a record: compressed if that makes it shorter.
func (k *packer) blob(payload []byte) ([]byte, error) {
	if len(payload) < packBytesMin || len(payload) > recordBytesMax {
		return append(envelope.New(envelope.FormatV1, len(payload)), payload...), nil
	}
	if k.encoder == nil {
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false)) // the value has a checksum already
		if err != nil {
			return nil, fmt.Errorf("compress a journal record: %w", err)
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

// payload returns the payload of a value of either format.
func (k *packer) payload(stored []byte, format byte) ([]byte, error) {
	if format == envelope.FormatV1 {
		return stored, nil
	}
	size, n := binary.Uvarint(stored)
	if n <= 0 {
		return nil, envelope.ErrTruncated
	}
	if size > recordBytesMax {
		return nil, fmt.Errorf("%w: a record of %d bytes", envelope.ErrRange, size)
	}
	if k.decoder == nil {
		decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(recordBytesMax),
			zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, fmt.Errorf("decompress a journal record: %w", err)
		}
		k.decoder = decoder
	}
	// The buffer grows with the output, so a wrong size in the record allocates nothing.
	out, err := k.decoder.DecodeAll(stored[n:], make([]byte, 0, min(size, uint64(16*len(stored)))))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", envelope.ErrTruncated, err)
	}
	if uint64(len(out)) != size {
		return nil, fmt.Errorf("%w: %d bytes uncompressed, want %d", envelope.ErrRange, len(out), size)
	}
	return out, nil
}

// close frees the memory of the packer.
func (k *packer) close() {
	if k.encoder != nil {
		_ = k.encoder.Close() // it writes nothing
	}
	if k.decoder != nil {
		k.decoder.Close()
	}
}
