package daychunk

import (
	"encoding/binary"

	"halite/keyschema/column"
)

// The short form is for a few chunks that fill their hours on one grid of timestamps. Only the oldest chunk may begin late,
// and only the newest may end early. These are typically the chunks of a new series or of today. Columns of headers would
// take more bytes than they save. The short form sets flagPlain together with other flags. flagExceptions, flagPredicted and
// flagSlopeNumbers have their usual meaning.
const (
	shortForm         = flagPlain | 0x01
	shortAfter        = 0x02 // the newest chunk lacks samples after its last: uvarint
	shortBefore       = 0x04 // the oldest chunk lacks samples before its first: uvarint
	shortValueHeaders = 0x10 // each chunk has a value header of its own
	shortFlags        = shortAfter | shortBefore | shortValueHeaders | flagExceptions | flagPredicted | flagSlopeNumbers
	shortChunksMax    = 8 // columns are smaller for more chunks
)

// appendList appends the first number of x, then the difference of each other number from its predecessor.
func appendList(dst []byte, x []int64) []byte {
	before := int64(0)
	for _, v := range x {
		dst = binary.AppendVarint(dst, v-before)
		before = v
	}
	return dst
}

// listBytes is the number of bytes that appendList appends.
func listBytes(x []int64) (sizeBytes int) {
	before := int64(0)
	for _, v := range x {
		sizeBytes += column.VarintLen(v - before)
		before = v
	}
	return sizeBytes
}
