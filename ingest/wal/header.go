package wal

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"
)

const (
	headerBytes   = 72
	formatVersion = 1

	typeSegment    byte = 1
	typeCheckpoint byte = 2
)

var headerMagic = [8]byte{'H', 'A', 'L', 'I', 'T', 'W', 'A', 'L'}

// header opens a segment or checkpoint. It says what must precede the file, so that a lost, swapped or shortened
// neighbour is noticed.
type header struct {
	typ    byte
	salt   uint64
	number uint64
	// firstSeq is the sequence number of the segment's first frame. A checkpoint, whose own frames count from 1, holds
	// that of the segment with its number.
	firstSeq uint64
	// prevBytes of the preceding segment count, and the last frame in them has the sum prevSum. What lies behind is the
	// torn tail of a run that ended there. Both are 0 if nothing precedes or a checkpoint stands in for it.
	prevBytes int64
	prevSum   uint64
	// bornBytes of this file were synced before it got its name.
	bornBytes int64
	// sum of the header, the predecessor of the first frame.
	sum uint64
}

func (h *header) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, headerMagic[:]...)
	dst = append(dst, formatVersion, 0, h.typ, 0, 0, 0, 0, 0)
	for _, v := range [...]uint64{h.salt, h.number, h.firstSeq, uint64(h.prevBytes), h.prevSum, uint64(h.bornBytes)} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	h.sum = xxh3.Hash(dst[start:])
	return binary.LittleEndian.AppendUint64(dst, h.sum)
}

// parseHeader reads a header from the start of a file. A fault is described by reason; ErrVersion comes back for an
// intact header of another version, whose magic, version and sum stay where they are for all versions.
func parseHeader(b []byte) (h header, reason string, err error) {
	if len(b) < headerBytes {
		return h, fmt.Sprintf("file header cut short at %d bytes", len(b)), nil
	}
	b = b[:headerBytes]
	h.sum = binary.LittleEndian.Uint64(b[headerBytes-8:])
	if [8]byte(b) != headerMagic || xxh3.Hash(b[:headerBytes-8]) != h.sum {
		return h, "file header fails its checksum", nil
	}
	if v := binary.LittleEndian.Uint16(b[8:]); v != formatVersion {
		return h, "", fmt.Errorf("%w: file has version %d, this program reads %d", ErrVersion, v, formatVersion)
	}
	h.typ = b[10]
	h.salt = binary.LittleEndian.Uint64(b[16:])
	h.number = binary.LittleEndian.Uint64(b[24:])
	h.firstSeq = binary.LittleEndian.Uint64(b[32:])
	h.prevBytes = int64(binary.LittleEndian.Uint64(b[40:]))
	h.prevSum = binary.LittleEndian.Uint64(b[48:])
	h.bornBytes = int64(binary.LittleEndian.Uint64(b[56:]))
	return h, "", nil
}
