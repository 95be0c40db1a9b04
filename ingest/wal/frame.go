package wal

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// A frame is a header of 32 bytes and the payload; FORMAT.md draws it. Two checks guard it. The short one covers the
// header alone, so that a reader never trusts a length it has not verified and can step over a frame whose payload is
// bad. The long one covers header and payload; 64 bits because after damage it is tried at every byte of a segment,
// where a CRC of 32 bits would let garbage pass once in some thirty segments. Both are seeded with the log's salt,
// so that neither another log's frames nor bytes that a client put into a label can pass for a frame.
const (
	frameHeaderBytes = 32

	frameSumAt  = 0
	frameSeqAt  = 8
	frameSizeAt = 16 // kind in the low byte, length of the payload above it
	framePrevAt = 20
	frameBackAt = 24
	frameHeadAt = 28

	// KindMax is the largest kind that Append takes. The log itself uses those above.
	KindMax byte = 0xef
	// kindEnd ends a checkpoint. Its payload is the number of frames before it.
	kindEnd byte = 0xff
)

// frame is one parsed frame.
type frame struct {
	kind byte
	// seq numbers the frames of the log from 1 without gaps.
	seq uint64
	// sum is the checksum of this frame, prev the low half of the one before (or of the file header).
	sum  uint64
	prev uint32
	// back is the distance in bytes to the first frame of the commit group. All before that was durable when this frame
	// was written.
	back uint32
	// payload aliases the buffer it was parsed from.
	payload []byte
}

func (f *frame) sizeBytes() int64 { return int64(frameHeaderBytes + len(f.payload)) }

// appendFrame appends the frame's bytes to dst and sets its sum.
func appendFrame(dst []byte, salt uint64, f *frame) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, frameHeaderBytes)...)
	dst = append(dst, f.payload...)
	b := dst[start:]
	binary.LittleEndian.PutUint64(b[frameSeqAt:], f.seq)
	binary.LittleEndian.PutUint32(b[frameSizeAt:], uint32(len(f.payload))<<8|uint32(f.kind))
	binary.LittleEndian.PutUint32(b[framePrevAt:], f.prev)
	binary.LittleEndian.PutUint32(b[frameBackAt:], f.back)
	binary.LittleEndian.PutUint32(b[frameHeadAt:], headCheck(b, salt))
	f.sum = xxh3.HashSeed(b[frameSeqAt:], salt)
	binary.LittleEndian.PutUint64(b[frameSumAt:], f.sum)
	return dst
}

func headCheck(header []byte, salt uint64) uint32 {
	return uint32(xxh3.HashSeed(header[frameSeqAt:frameHeadAt], salt))
}

// frameLength gives the length of the payload if the short check of the header holds.
func frameLength(header []byte, salt uint64) (length int, ok bool) {
	if binary.LittleEndian.Uint32(header[frameHeadAt:]) != headCheck(header, salt) {
		return 0, false
	}
	return int(binary.LittleEndian.Uint32(header[frameSizeAt:]) >> 8), true
}

// parseFrame gives the frame that b holds exactly, if its checksum holds.
func parseFrame(b []byte, salt uint64) (frame, bool) {
	f := frame{
		kind:    b[frameSizeAt],
		seq:     binary.LittleEndian.Uint64(b[frameSeqAt:]),
		sum:     binary.LittleEndian.Uint64(b[frameSumAt:]),
		prev:    binary.LittleEndian.Uint32(b[framePrevAt:]),
		back:    binary.LittleEndian.Uint32(b[frameBackAt:]),
		payload: b[frameHeaderBytes:],
	}
	return f, xxh3.HashSeed(b[frameSeqAt:], salt) == f.sum
}
