package head

import "encoding/binary"

const (
	slabChunkShift = 8
	slabChunkSize  = 1 << slabChunkShift
)

// slab hands out blocks of one size from chunks of bytes that contain no pointers. Blocks are numbered from 1; a free
// block's first four bytes are the number of the next free one. Memory stays with the slab for later rows.
type slab struct {
	blockBytes int
	chunks     [][]byte
	free       uint32
	made       uint32
}

func (s *slab) alloc() uint32 {
	if n := s.free; n != 0 {
		s.free = binary.LittleEndian.Uint32(s.block(n))
		return n
	}
	if int(s.made)>>slabChunkShift == len(s.chunks) {
		s.chunks = append(s.chunks, make([]byte, slabChunkSize*s.blockBytes))
	}
	s.made++
	return s.made
}

func (s *slab) block(n uint32) []byte {
	n--
	from := int(n&(slabChunkSize-1)) * s.blockBytes
	return s.chunks[n>>slabChunkShift][from : from+s.blockBytes : from+s.blockBytes]
}

func (s *slab) release(n uint32) {
	binary.LittleEndian.PutUint32(s.block(n), s.free)
	s.free = n
}

// empty forgets all blocks; none may be in use.
func (s *slab) empty() { *s = slab{blockBytes: s.blockBytes} }

// Size classes. A tail starts small because many series see few samples; packed runs go to small blocks first so that
// little of the last one is wasted.
const (
	classTailSmall = iota
	classTail
	classPackedSmall
	classPacked
	classes
)

const (
	tailSmallSamples = 4
	tailSamples      = 16
	tailSampleBytes  = 4 + 8 // offset in the hour, value

	linkBytes         = 4 // number of the next block of a chain
	packedSmallBytes  = 64
	packedBytes       = 256
	packedSmallBlocks = 3 // so many small blocks before large ones
)

func newSlabs() [classes]slab {
	return [classes]slab{
		classTailSmall:   {blockBytes: tailSmallSamples * tailSampleBytes},
		classTail:        {blockBytes: tailSamples * tailSampleBytes},
		classPackedSmall: {blockBytes: packedSmallBytes},
		classPacked:      {blockBytes: packedBytes},
	}
}
