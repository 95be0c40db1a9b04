package head

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// heldBytes is the memory of a slab's chunks.
func (s *slab) heldBytes() (n int) {
	for i := range s.chunks {
		n += len(s.chunks[i].bytes)
	}
	return n
}

// TestSlabLetsBurstsGo allocates and releases at random, with a burst of many blocks between long-lived ones. No block
// may be allocated twice. Once all long-lived blocks are replaced, the memory of the burst must be free.
func TestSlabLetsBurstsGo(t *testing.T) {
	const live, burst = 5000, 100_000
	rng := rand.New(rand.NewPCG(1, 2))
	s := slab{blockBytes: 64}
	owner := map[uint32]uint64{}
	alloc := func() uint32 {
		n := s.alloc()
		require.NotZero(t, n)
		require.Zero(t, owner[n], "given out twice")
		owner[n] = rng.Uint64() | 1
		binary.LittleEndian.PutUint64(s.block(n)[56:], owner[n])
		return n
	}
	release := func(n uint32) {
		require.Equal(t, owner[n], binary.LittleEndian.Uint64(s.block(n)[56:]))
		delete(owner, n)
		s.release(n)
	}
	var stay, gone []uint32
	for n := range burst {
		if n%(burst/live) == 0 {
			stay = append(stay, alloc())
		}
		gone = append(gone, alloc())
	}
	rng.Shuffle(len(gone), func(i, j int) { gone[i], gone[j] = gone[j], gone[i] })
	for _, n := range gone {
		release(n)
	}
	for range 2 {
		for i := range stay {
			release(stay[i])
			stay[i] = alloc()
		}
	}
	require.Less(t, s.heldBytes(), 2*live*64)
	for _, n := range stay {
		release(n)
	}
	require.Equal(t, slabChunkBytes, s.heldBytes(), "one chunk is spare")
	require.Equal(t, uint32(1), alloc())
}

func BenchmarkSlab(b *testing.B) {
	s := slab{blockBytes: 64}
	rng := rand.New(rand.NewPCG(1, 2))
	var held []uint32
	for range 100_000 {
		held = append(held, s.alloc())
	}
	for b.Loop() {
		i := rng.IntN(len(held))
		s.release(held[i])
		held[i] = s.alloc()
	}
}
