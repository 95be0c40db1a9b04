package head

import (
	"encoding/binary"
	"math/bits"
)

const (
	// slabChunkBytes is the size of all chunks, so that each slab can use memory that another one frees.
	slabChunkBytes = 32 << 10
	// slabChunkShift is the number of bits for a block in a chunk. A block has 32 bytes or more.
	slabChunkShift = 10
	slabChunkMask  = 1<<slabChunkShift - 1
)

// slab allocates blocks of one size from chunks of bytes without pointers. Blocks are numbered from 1. It allocates from the
// first chunk with a free block. So later chunks become empty after a burst, and the slab frees them.
type slab struct {
	blockBytes int
	chunks     []slabChunk
	// withFree has a bit for each chunk with free blocks. All words before firstFree are zero.
	withFree  []uint64
	firstFree int
	// spare is the number plus one of an empty chunk that the slab keeps, or 0.
	spare int
}

// slabChunk is a part of a slab. A free block begins with the number of the next free block.
type slabChunk struct {
	bytes            []byte // nil while all blocks are free
	free, made, used uint32 // free is a number in the chunk, from 1
}

func (s *slab) alloc() uint32 {
	for s.firstFree < len(s.withFree) && s.withFree[s.firstFree] == 0 {
		s.firstFree++
	}
	if s.firstFree == len(s.withFree) {
		s.withFree = append(s.withFree, ^uint64(0))
		s.chunks = append(s.chunks, make([]slabChunk, 64)...)
	}
	at := s.firstFree<<6 + bits.TrailingZeros64(s.withFree[s.firstFree])
	c := &s.chunks[at]
	if c.bytes == nil {
		*c = slabChunk{bytes: make([]byte, slabChunkBytes)}
	}
	if s.spare == at+1 {
		s.spare = 0
	}
	if c.used++; (int(c.used)+1)*s.blockBytes > slabChunkBytes { // the chunk is full
		s.withFree[at>>6] &^= 1 << (at & 63)
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
	s.withFree[at>>6] |= 1 << (at & 63)
	s.firstFree = min(s.firstFree, at>>6)
	switch {
	case c.used > 0:
	case s.spare == 0:
		s.spare = at + 1
	default:
		c.bytes = nil
	}
}

// reset drops all blocks. No block may be in use.
func (s *slab) reset() { *s = slab{blockBytes: s.blockBytes} }

// Size classes. A tail starts small, because many series have few samples. A packed block is the smallest that holds the
// next chunk, to waste little. Rows of many chunks get large blocks.
const (
	classTailSmall = iota
	classTail
	classTailFixedInterval
	classPacked // the first of packedClasses
	classes     = classPacked + packedClasses
)

const (
	tailSmallSamples = 4
	tailSamples      = 12
	offsetBytes      = 3 // offset of a sample in the hour
	valueBytes       = 8

	linkBytes       = 4 // number of the next block of a chain
	packedClasses   = 6
	fittedBlocksMax = 6 // number of best-fit blocks in a row before it gets large ones
)

func newSlabs() [classes]slab {
	return [classes]slab{
		classTailSmall:         {blockBytes: tailSmallBytes},
		classTail:              {blockBytes: tailBytes},
		classTailFixedInterval: {blockBytes: tailFixedIntervalBytes},
		classPacked:            {blockBytes: 32}, {blockBytes: 48}, {blockBytes: 64}, {blockBytes: 96}, {blockBytes: 128},
		{blockBytes: 256},
	}
}

// blockID names a packed block: its number in the slab and, in the lowest bits, its class.
type blockID uint32

const blockClassBits = 3

func (s *stripe) packedBlock(id blockID) []byte {
	return s.slabs[classPacked+id&(1<<blockClassBits-1)].block(uint32(id >> blockClassBits))
}

// allocPacked allocates a block with room for sizeBytes, or the largest block.
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
