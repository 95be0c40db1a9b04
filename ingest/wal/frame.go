package wal

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"
)

// A frame is a header of 32 bytes and the payload; FORMAT.md draws it. Two checksums guard it. The short one covers only the
// header: a reader verifies the length before it uses it, and can skip a frame with a damaged payload. The long one covers
// header and payload. It has 64 bits because after damage the reader tries it at every byte of a segment. A CRC of 32 bits
// would accept garbage once in about thirty segments. The log's salt seeds both checksums. So frames of another log do not
// verify, nor do bytes that a client puts into a label.
const (
	frameHeaderBytes = 32

	frameSumAt   = 0
	frameSeqAt   = 8
	frameSizeAt  = 16 // kind in the lowest byte, length of the payload above it
	framePrevAt  = 20
	frameGroupAt = 24
	frameHeadAt  = 28

	// KindMax is the largest kind that Append accepts. The log itself uses larger kinds.
	KindMax byte = 0xef
	// kindEnd ends a checkpoint. Its payload is the number of frames before it.
	kindEnd byte = 0xff
)

// frame is one parsed frame.
type frame struct {
	kind byte
	// seq is the number of the frame in the log, from 1, without gaps.
	seq uint64
	// sum is the checksum of this frame. prev is the low half of the checksum of the preceding frame or file header.
	sum  uint64
	prev uint32
	// groupOffset is the distance in bytes from the first frame of the commit group. Everything before the group was durable
	// when this frame was written.
	groupOffset uint32
	// payload aliases the parsed buffer.
	payload []byte
}

func (f *frame) sizeBytes() int64 { return int64(frameHeaderBytes + len(f.payload)) }

// appendFrame appends the encoded frame to dst and sets its sum.
func appendFrame(dst []byte, salt uint64, f *frame) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, frameHeaderBytes)...)
	dst = append(dst, f.payload...)
	b := dst[start:]
	binary.LittleEndian.PutUint64(b[frameSeqAt:], f.seq)
	binary.LittleEndian.PutUint32(b[frameSizeAt:], uint32(len(f.payload))<<8|uint32(f.kind))
	binary.LittleEndian.PutUint32(b[framePrevAt:], f.prev)
	binary.LittleEndian.PutUint32(b[frameGroupAt:], f.groupOffset)
	binary.LittleEndian.PutUint32(b[frameHeadAt:], headCheck(b, salt))
	f.sum = xxh3.HashSeed(b[frameSeqAt:], salt)
	binary.LittleEndian.PutUint64(b[frameSumAt:], f.sum)
	return dst
}

func headCheck(header []byte, salt uint64) uint32 {
	return uint32(xxh3.HashSeed(header[frameSeqAt:frameHeadAt], salt))
}

// frameLength returns the length of the payload if the checksum of the header holds.
func frameLength(header []byte, salt uint64) (length int, ok bool) {
	if binary.LittleEndian.Uint32(header[frameHeadAt:]) != headCheck(header, salt) {
		return 0, false
	}
	return int(binary.LittleEndian.Uint32(header[frameSizeAt:]) >> 8), true
}

// parseFrame parses a frame that fills b. It returns false if the checksum of the frame fails.
func parseFrame(b []byte, salt uint64) (frame, bool) {
	f := frame{
		kind:        b[frameSizeAt],
		seq:         binary.LittleEndian.Uint64(b[frameSeqAt:]),
		sum:         binary.LittleEndian.Uint64(b[frameSumAt:]),
		prev:        binary.LittleEndian.Uint32(b[framePrevAt:]),
		groupOffset: binary.LittleEndian.Uint32(b[frameGroupAt:]),
		payload:     b[frameHeaderBytes:],
	}
	return f, xxh3.HashSeed(b[frameSeqAt:], salt) == f.sum
}

// Position is the place of a frame's first byte in the log. Positions have the order of their frames.
type Position struct {
	// Segment is the number of the file, from 1.
	Segment uint64
	// Offset counts bytes from the start of the file.
	Offset int64
}

// Before reports whether p lies before q.
func (p Position) Before(q Position) bool { return p.Compare(q) < 0 }

// Compare returns -1, 0 or 1 if p lies before, at or after q.
func (p Position) Compare(q Position) int {
	if c := cmp.Compare(p.Segment, q.Segment); c != 0 {
		return c
	}
	return cmp.Compare(p.Offset, q.Offset)
}

func (p Position) String() string { return fmt.Sprintf("%08d:%d", p.Segment, p.Offset) }
