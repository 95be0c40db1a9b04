package fleet

import "math/bits"

// Mix returns a hash of its arguments. All random choices are made from it.
func Mix(seed, a, b uint64) uint64 {
	x := mulFold(seed^0x9e3779b97f4a7c15, a^0xd1b54a32d192ed03)
	return mulFold(x^0x8cb92ba72f3d8dd7, b^0xaef17502108ef2d9)
}

// mulFold multiplies a and b to 128 bits and mixes both halves.
func mulFold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^a>>29, b|1)
	x := hi ^ lo ^ b
	x ^= x >> 32
	x *= 0xe9846af9b1a615d
	return x ^ x>>28
}

// Unit01 maps a hash from Mix to [0, 1).
func Unit01(x uint64) float64 { return float64(x>>11) / (1 << 53) }
