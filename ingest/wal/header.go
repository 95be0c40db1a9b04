package wal

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"
)

const (
	headerBytes   = 72
	formatVersion = 2

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
	// cut, in a checkpoint, is the segment before which the tables hold everything: those frames are in no file of the
	// log. It takes the place of prevBytes. A checkpoint that a salvage wrote keeps the cut of the one before it.
	cut uint64
	// bornBytes of this file were synced before it got its name.
	bornBytes int64
	// sum of the header, the predecessor of the first frame.
	sum uint64
}

func (h *header) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, headerMagic[:]...)
	dst = append(dst, formatVersion, 0, h.typ, 0, 0, 0, 0, 0)
	before := uint64(h.prevBytes)
	if h.typ == typeCheckpoint {
		before = h.cut
	}
	for _, v := range [...]uint64{h.salt, h.number, h.firstSeq, before, h.prevSum, uint64(h.bornBytes)} {
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
	intact := xxh3.Hash(b[:headerBytes-8]) == h.sum
	version := binary.LittleEndian.Uint16(b[8:])
	switch {
	case [8]byte(b) != headerMagic || !intact && version <= formatVersion:
		return h, "file header fails its checksum", nil
	case !intact:
		return h, unknownVersion(version), nil
	case version != formatVersion:
		return h, "", fmt.Errorf("%w: file has version %d, this program reads %d", ErrVersion, version, formatVersion)
	}
	h.typ = b[10]
	h.salt = binary.LittleEndian.Uint64(b[16:])
	h.number = binary.LittleEndian.Uint64(b[24:])
	h.firstSeq = binary.LittleEndian.Uint64(b[32:])
	if h.typ == typeCheckpoint {
		h.cut = binary.LittleEndian.Uint64(b[40:])
	} else {
		h.prevBytes = int64(binary.LittleEndian.Uint64(b[40:]))
	}
	h.prevSum = binary.LittleEndian.Uint64(b[48:])
	h.bornBytes = int64(binary.LittleEndian.Uint64(b[56:]))
	return h, "", nil
}

// unknownVersion describes bytes that name a later version and do not verify as one of this version.
func unknownVersion(version uint16) string {
	return fmt.Sprintf("it names version %d of the format, and this program reads version %d: a newer program wrote it, or it is "+
		"damaged", version, formatVersion)
}
