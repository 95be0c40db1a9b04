package column

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// CutUvarint cuts a uvarint in its shortest form off src.
func CutUvarint(src []byte) (x uint64, rest []byte, ok bool) {
	if len(src) > 0 && src[0] < 0x80 {
		return uint64(src[0]), src[1:], true
	}
	x, n := binary.Uvarint(src)
	if n <= 0 || src[n-1] == 0 {
		return 0, src, false
	}
	return x, src[n:], true
}

// CutVarint cuts a zigzag varint in its shortest form off src.
func CutVarint(src []byte) (x int64, rest []byte, ok bool) {
	u, rest, ok := CutUvarint(src)
	return protowire.DecodeZigZag(u), rest, ok
}

// UvarintLen is the size of a uvarint in bytes.
func UvarintLen(x uint64) int { return protowire.SizeVarint(x) }

// VarintLen is the size of a zigzag varint in bytes.
func VarintLen(x int64) int { return protowire.SizeVarint(protowire.EncodeZigZag(x)) }
