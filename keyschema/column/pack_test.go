package column

import (
	"bytes"
	"math/bits"
	"slices"
	"testing"

	"halite/keyschema/chunktest"
)

func TestPackEveryWidth(t *testing.T) {
	r := chunktest.NewRand(t)
	for w := range uint(65) {
		for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128} {
			u, out := make([]uint64, n), make([]uint64, n)
			for i := range u {
				u[i] = r.Uint64() & (^uint64(0) >> (64 - w))
			}
			packed := AppendPacked([]byte{9}, u, w)
			if len(packed) != 1+PackedBytes(n, int(w)) {
				t.Fatalf("%d values of %d bits take %d bytes", n, w, len(packed)-1)
			}
			slack := bytes.Repeat([]byte{0xff}, unpackSlack)
			unpack(out, append(packed[1:], slack...), w)
			if !slices.Equal(out, u) {
				t.Fatalf("%d values of %d bits: %x, want %x", n, w, out, u)
			}
		}
	}
}

// everyWidth returns all widths of blocks.
func everyWidth() []Width {
	var all []Width
	for low := range uint8(65) {
		all = append(all, Width{low, 1})
		for base := uint8(radixMin); base <= radixMax; base += 2 {
			if int(low)+bits.Len8(base) <= 64 {
				all = append(all, Width{low, base})
			}
		}
	}
	return all
}

func TestRadixEveryWidth(t *testing.T) {
	r := chunktest.NewRand(t)
	for _, s := range everyWidth() {
		if s.Base == 1 {
			continue
		}
		limit, _ := s.Limit()
		for _, n := range []int{1, 2, 3, 7, 11, 12, 13, 57, 127, 128} {
			u, out := make([]uint64, n), make([]uint64, n)
			for i := range u {
				if u[i] = r.Uint64N(limit); r.IntN(4) == 0 {
					u[i] = limit - 1
				}
			}
			packed := appendRadix([]byte{9}, u, uint(s.Low), s.Base)
			if len(packed) != 1+radixBytes(n, uint(s.Low), s.Base) {
				t.Fatalf("%d numbers of width %v take %d bytes", n, s, len(packed)-1)
			}
			slack := bytes.Repeat([]byte{0xff}, unpackSlack)
			unradix(out, append(packed[1:], slack...), uint(s.Low), s.Base)
			if !slices.Equal(out, u) {
				t.Fatalf("%d numbers of width %v: %x, want %x", n, s, out, u)
			}
		}
	}
}

// TestBlockSizeIsWhatWasPlanned packs blocks with few and many outliers in each width, and in the cheapest one.
func TestBlockSizeIsWhatWasPlanned(t *testing.T) {
	r := chunktest.NewRand(t)
	var reader blockReader
	widths := everyWidth()
	for range 60 {
		u := make([]uint64, 1+r.IntN(blockLen))
		var counts bitLengths
		width, outliers := r.IntN(64), r.Float64()*r.Float64()
		for i := range u {
			u[i] = r.Uint64() >> (63 - width)
			if r.Float64() > outliers {
				u[i] >>= r.IntN(width + 1)
			}
			counts.add(u[i])
		}
		cheapest, size := counts.cheapest(len(u))
		for _, s := range widths {
			packed := new(exceptions).appendBlock(nil, slices.Clone(u), s)
			if s == cheapest && len(packed) != size {
				t.Fatalf("width %v was to take %d bytes and takes %d", s, size, len(packed))
			}
			// The plan looks at one limit for each bit length only; others gain next to nothing.
			if len(packed) < size-size/20-2 {
				t.Fatalf("width %v takes %d bytes, the cheapest was to be %d with %v", s, len(packed), size, cheapest)
			}
			out := make([]uint64, len(u))
			if reader.src = packed; !reader.block(out) || len(reader.src) != 0 || !slices.Equal(out, u) {
				t.Fatalf("width %v: %x comes back as %x", s, u, out)
			}
		}
	}
}

func TestExactDivision(t *testing.T) {
	r := chunktest.NewRand(t)
	for range 10_000 {
		odd := r.Uint64()>>r.IntN(64) | 1
		if odd*inverseOf(odd) != 1 {
			t.Fatalf("%d has no inverse", odd)
		}
		divisor := 1 + r.Int64N(1_000_000)
		diffs := make([]int64, 1+r.IntN(6))
		want, union := uint64(0), uint64(0)
		for i := range diffs {
			diffs[i] = divisor * (r.Int64N(2_000_000) - 1_000_000)
			want = gcd(uint64(max(diffs[i], -diffs[i])), want)
			union |= uint64(diffs[i])
		}
		if union == 0 {
			continue
		}
		twos := uint(bits.TrailingZeros64(union))
		if got := oddDivisor(diffs, twos) << twos; got != want {
			t.Fatalf("%v: divisor %d, want %d", diffs, got, want)
		}
	}
}
