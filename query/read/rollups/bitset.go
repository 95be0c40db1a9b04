package rollups

import "slices"

// bitset is a set of small numbers.
type bitset []uint64

func bitsetWords(n int) int { return (n + 63) / 64 }

func (b bitset) has(n int64) bool { return b[n/64]>>(n%64)&1 != 0 }

// set adds the numbers [n, n+numbers).
func (b bitset) set(n, numbers int64) {
	for numbers > 0 {
		k := min(numbers, 64-n%64)
		b[n/64] |= (1<<k - 1) << (n % 64)
		n, numbers = n+k, numbers-k
	}
}

func (b bitset) any() bool { return slices.ContainsFunc(b, func(w uint64) bool { return w != 0 }) }
