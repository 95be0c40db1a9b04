package head

import (
	"encoding/binary"
	"math/bits"
)

const (
	// slabChunkBytes is the size of all chunks: what one slab lets go serves another.
	slabChunkBytes = 32 << 10
	// slabChunkShift makes room for the numbers of a chunk's blocks, which are of 32 bytes at least.
	slabChunkShift = 10
	slabChunkMask  = 1<<slabChunkShift - 1
)

// slab hands out blocks of one size from chunks of bytes that contain no pointers. Blocks are numbered from 1. The chunk
// with the lowest number that has room comes first, so that after a burst the upper ones run empty and let their memory go.
type slab struct {
	blockBytes int
	chunks     []slabChunk
	// roomy has a bit for each chunk with free blocks; words before low have none.
	roomy []uint64
	low   int
	// spare is the number plus one of a chunk that is kept although it is empty, 0 if there is none.
	spare int
}

// slabChunk is a part of a slab. A free block that was in use begins with the number of the next such.
type slabChunk struct {
	bytes            []byte // nil while all blocks are free
	free, made, used uint32 // free is a number in the chunk from 1 on
}

func (s *slab) alloc() uint32 {
	for s.low < len(s.roomy) && s.roomy[s.low] == 0 {
		s.low++
	}
	if s.low == len(s.roomy) {
		s.roomy = append(s.roomy, ^uint64(0))
		s.chunks = append(s.chunks, make([]slabChunk, 64)...)
	}
	at := s.low<<6 + bits.TrailingZeros64(s.roomy[s.low])
	c := &s.chunks[at]
	if c.bytes == nil {
		*c = slabChunk{bytes: make([]byte, slabChunkBytes)}
	}
	if s.spare == at+1 {
		s.spare = 0
	}
	if c.used++; (int(c.used)+1)*s.blockBytes > slabChunkBytes { // it is full
		s.roomy[at>>6] &^= 1 << (at & 63)
	}
	n := c.free
	if n != 0 {
		c.free = binary.LittleEndian.Uint32(c.bytes[int(n-1)*s.blockBytes:])
	} else {
		c.made++
		n = c.made
	}
	return uint32(at)<<slabChunkShift + n
}

func (s *slab) block(n uint32) []byte {
	n--
	from := int(n&slabChunkMask) * s.blockBytes
	return s.chunks[n>>slabChunkShift].bytes[from : from+s.blockBytes : from+s.blockBytes]
}

func (s *slab) release(n uint32) {
	at, in := int((n-1)>>slabChunkShift), (n-1)&slabChunkMask
	c := &s.chunks[at]
	binary.LittleEndian.PutUint32(c.bytes[int(in)*s.blockBytes:], c.free)
	c.free = in + 1
	c.used--
	s.roomy[at>>6] |= 1 << (at & 63)
	s.low = min(s.low, at>>6)
	switch {
	case c.used > 0:
	case s.spare == 0:
		s.spare = at + 1
	default:
		c.bytes = nil
	}
}

// empty forgets all blocks; none may be in use.
func (s *slab) empty() { *s = slab{blockBytes: s.blockBytes} }

// Size classes. A tail starts small because many series see few samples. A block of chunks is the smallest that the
// next run fits into, so that little of it is wasted; rows of many runs get large ones.
const (
	classTailSmall = iota
	classTail
	classTailEven
	classPacked // the first of packedClasses
	classes     = classPacked + packedClasses
)

const (
	tailSmallSamples = 4
	tailSamples      = 12
	offsetBytes      = 3 // of a sample in the hour
	valueBytes       = 8

	linkBytes     = 4 // number of the next block of a chain
	packedClasses = 6
	packedFitted  = 6 // so many fitting blocks before large ones
)

func newSlabs() [classes]slab {
	return [classes]slab{
		classTailSmall: {blockBytes: tailSmallBytes},
		classTail:      {blockBytes: tailBytes},
		classTailEven:  {blockBytes: tailEvenBytes},
		classPacked:    {blockBytes: 32}, {blockBytes: 48}, {blockBytes: 64}, {blockBytes: 96}, {blockBytes: 128}, {blockBytes: 256},
	}
}

// blockID names a block of chunks: the number in its slab and, in the lowest bits, its class.
type blockID uint32

const blockClassBits = 3

func (s *stripe) packedBlock(id blockID) []byte {
	return s.slabs[classPacked+id&(1<<blockClassBits-1)].block(uint32(id >> blockClassBits))
}

// allocPacked makes a block for so many bytes, or a large one for a part of them.
func (s *stripe) allocPacked(sizeBytes int) blockID {
	class := 0
	for class < packedClasses-1 && s.slabs[classPacked+class].blockBytes-linkBytes < sizeBytes {
		class++
	}
	return blockID(s.slabs[classPacked+class].alloc())<<blockClassBits | blockID(class)
}

func (s *stripe) releasePacked(id blockID) {
	s.slabs[classPacked+id&(1<<blockClassBits-1)].release(uint32(id >> blockClassBits))
}
