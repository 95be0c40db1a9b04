package run

import (
	"bytes"
	"math/bits"
	"slices"
	"testing"
)

func TestPackEveryWidth(t *testing.T) {
	r := newRand(t)
	for w := range uint(65) {
		for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128} {
			u, out := make([]uint64, n), make([]uint64, n)
			for i := range u {
				u[i] = r.Uint64() & (^uint64(0) >> (64 - w))
			}
			packed := appendPacked([]byte{9}, u, w)
			if len(packed) != 1+packedBytes(n, int(w)) {
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

// TestBlockSizeIsWhatWasPlanned packs blocks with few and many outliers at each width and at the cheapest.
func TestBlockSizeIsWhatWasPlanned(t *testing.T) {
	r := newRand(t)
	var reader blockReader
	for range 3_000 {
		u := make([]uint64, 1+r.IntN(blockLen))
		var counts lengths
		var top uint64
		width, outliers := r.IntN(64), r.Float64()*r.Float64()
		for i := range u {
			u[i] = r.Uint64() >> (63 - width)
			if r.Float64() > outliers {
				u[i] >>= r.IntN(width + 1)
			}
			counts[bits.Len64(u[i])]++
			top = max(top, u[i])
		}
		cheapest, size := counts.cheapest(len(u), top)
		for w := range uint8(65) {
			packed := appendBlock(nil, u, w)
			if w == cheapest && len(packed) != size {
				t.Fatalf("width %d was to take %d bytes and takes %d", w, size, len(packed))
			}
			if int(w) <= bits.Len64(top) && len(packed) < size {
				t.Fatalf("width %d takes %d bytes, the cheapest was to be %d with %d", w, len(packed), cheapest, size)
			}
			out := make([]uint64, len(u))
			if reader.src = packed; !reader.block(out) || len(reader.src) != 0 || !slices.Equal(out, u) {
				t.Fatalf("width %d: %x comes back as %x", w, u, out)
			}
		}
	}
}

func TestExactDivision(t *testing.T) {
	r := newRand(t)
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
