package head

import (
	"fmt"
	"slices"
)

// appendChunkLength appends the length of the chunk at the end of dst. The last byte has the lowest seven bits, so a reader
// finds the chunk from its end. The highest bit of a byte says that another byte precedes it.
func appendChunkLength(dst []byte, sizeBytes int) []byte {
	from := len(dst)
	for ; sizeBytes >= 0x80; sizeBytes >>= 7 {
		dst = append(dst, byte(sizeBytes)|0x80)
	}
	dst = append(dst, byte(sizeBytes))
	slices.Reverse(dst[from:])
	return dst
}

// lastChunk returns the last chunk of packed bytes and the bytes before it. It returns false if part of the chunk is
// missing.
func lastChunk(packed []byte) (last, before []byte, ok bool) {
	sizeBytes, shift := 0, 0
	for end := len(packed) - 1; end >= 0 && shift < 28; end-- {
		sizeBytes |= int(packed[end]&0x7f) << shift
		if packed[end] < 0x80 {
			return packed[max(0, end-sizeBytes):end], packed[:max(0, end-sizeBytes)], sizeBytes <= end
		}
		shift += 7
	}
	return nil, packed, false
}

// chunksOf appends the chunks of packed bytes to dst, the last one first.
func chunksOf(dst [][]byte, packed []byte) ([][]byte, error) {
	for len(packed) > 0 {
		last, before, ok := lastChunk(packed)
		if !ok {
			return dst, fmt.Errorf("head: the chunks of a row are corrupt in the first %d bytes", len(packed))
		}
		dst, packed = append(dst, last), before
	}
	return dst, nil
}
