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

// header begins a segment or checkpoint. It describes what precedes the file, so that replay detects a lost, swapped or
// shortened neighbor.
type header struct {
	typ    byte
	salt   uint64
	number uint64
	// firstSeq is the sequence number of the segment's first frame. In a checkpoint it is the firstSeq of the segment with the
	// same number; the checkpoint's own frames count from 1.
	firstSeq uint64
	// prevBytes is the valid size of the preceding segment, and prevSum is the checksum of its last valid frame. Bytes after
	// that size are the torn tail of an earlier run. Both are 0 if a checkpoint or nothing precedes the segment.
	prevBytes int64
	prevSum   uint64
	// flushedBefore replaces prevBytes in a checkpoint. Samples of the segments before it are only in the tables. A
	// checkpoint of a salvage keeps the flushedBefore of the previous checkpoint.
	flushedBefore uint64
	// syncedBytes is the size up to which the file was synced before it got its name.
	syncedBytes int64
	// sum is the checksum of the header. The first frame refers to it.
	sum uint64
}

func (h *header) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, headerMagic[:]...)
	dst = append(dst, formatVersion, 0, h.typ, 0, 0, 0, 0, 0)
	before := uint64(h.prevBytes)
	if h.typ == typeCheckpoint {
		before = h.flushedBefore
	}
	for _, v := range [...]uint64{h.salt, h.number, h.firstSeq, before, h.prevSum, uint64(h.syncedBytes)} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	h.sum = xxh3.Hash(dst[start:])
	return binary.LittleEndian.AppendUint64(dst, h.sum)
}

// parseHeader parses the header at the start of a file. reason describes a damaged header. The error is ErrVersion for an
// intact header of another version. Magic, version and checksum are at the same offsets in all versions.
func parseHeader(b []byte) (h header, reason string, err error) {
	if len(b) < headerBytes {
		return h, fmt.Sprintf("file header is truncated to %d bytes", len(b)), nil
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
		h.flushedBefore = binary.LittleEndian.Uint64(b[40:])
	} else {
		h.prevBytes = int64(binary.LittleEndian.Uint64(b[40:]))
	}
	h.prevSum = binary.LittleEndian.Uint64(b[48:])
	h.syncedBytes = int64(binary.LittleEndian.Uint64(b[56:]))
	return h, "", nil
}

// unknownVersion describes bytes that name a later version but fail the checksum of this version.
func unknownVersion(version uint16) string {
	return fmt.Sprintf("the file names version %d of the format, and this program reads version %d: "+
		"a newer program wrote the file, or it is damaged", version, formatVersion)
}
