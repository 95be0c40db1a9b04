package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"halite/storage"
)

// Every stored value is sealed: a format byte, the payload, and a CRC-32C over row key, qualifier, format and payload.
// Binding the checksum to the cell's place makes a value that was copied to another place as visible as a flipped bit.

const (
	formatV1  = 1
	formatV2  = 2 // roots and values that say when they were touched, packed parts of journals
	formatV3  = 3 // roots that say which hours were removed, parts of journals that remove hours
	sealBytes = 5 // format byte and checksum
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errTruncated = errors.New("truncated")
	errFormat    = errors.New("unknown format")
	errChecksum  = errors.New("checksum differs")
	errRange     = errors.New("number out of range")
	errTrailing  = errors.New("trailing bytes")
	errOrder     = errors.New("not in order")
)

func placeCRC(key, qualifier []byte) uint32 {
	var n [4]byte
	binary.LittleEndian.PutUint32(n[:], uint32(len(key)))
	crc := crc32.Update(0, castagnoli, n[:])
	crc = crc32.Update(crc, castagnoli, key)
	return crc32.Update(crc, castagnoli, qualifier)
}

// newBlob starts a value; append the payload and end with seal.
func newBlob(sizeHint int) []byte { return append(make([]byte, 0, sizeHint+sealBytes), formatV1) }

// newBlobV2 is newBlob of kinds that have a second format.
func newBlobV2(sizeHint int) []byte { return append(make([]byte, 0, sizeHint+sealBytes), formatV2) }

// newBlobV3 is newBlob of kinds that have a third format.
func newBlobV3(sizeHint int) []byte { return append(make([]byte, 0, sizeHint+sealBytes), formatV3) }

func seal(blob, key, qualifier []byte) []byte {
	crc := crc32.Update(placeCRC(key, qualifier), castagnoli, blob)
	return binary.LittleEndian.AppendUint32(blob, crc)
}

// unseal returns the payload of a stored value of a kind that has one format, a part of value.
func unseal(value, key, qualifier []byte) ([]byte, error) {
	payload, format, err := unsealAny(value, key, qualifier)
	if err == nil && format != formatV1 {
		err = fmt.Errorf("%w %d", errFormat, format)
	}
	return payload, err
}

// unsealAny is unseal of kinds that have two formats.
func unsealAny(value, key, qualifier []byte) (payload []byte, format byte, err error) {
	return unsealUpTo(formatV2, value, key, qualifier)
}

// unsealUpTo is unseal of kinds that have so many formats.
func unsealUpTo(last byte, value, key, qualifier []byte) (payload []byte, format byte, err error) {
	if len(value) < sealBytes {
		return nil, 0, errTruncated
	}
	body := value[:len(value)-4]
	crc := crc32.Update(placeCRC(key, qualifier), castagnoli, body)
	if crc != binary.LittleEndian.Uint32(value[len(value)-4:]) {
		return nil, 0, errChecksum
	}
	if body[0] < formatV1 || body[0] > last {
		return nil, 0, fmt.Errorf("%w %d", errFormat, body[0])
	}
	return body[1:], body[0], nil
}

// corrupt wraps a fault of a stored value with its place.
func corrupt(table string, key, qualifier []byte, err error) error {
	return fmt.Errorf("%w: table %s, row %q, qualifier %q: %w (a rebuild of the day repairs the catalogue)",
		storage.ErrCorrupt, table, key, qualifier, err)
}

// cursor reads a payload; after the first fault it keeps returning zero values and err says why.
type cursor struct {
	b   []byte
	err error
}

func (c *cursor) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.b = nil
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.fail(errTruncated)
		return 0
	}
	c.b = c.b[n:]
	return v
}

// number reads a uvarint of at most limit.
func (c *cursor) number(limit uint64) uint32 {
	v := c.uvarint()
	if v > limit || v > 1<<32-1 {
		c.fail(errRange)
		return 0
	}
	return uint32(v)
}

// count reads the number of items that follow, each at least itemBytes long, so that it bounds what may be allocated.
func (c *cursor) count(itemBytes int) int {
	v := c.uvarint()
	if v > uint64(len(c.b)/itemBytes) {
		c.fail(errTruncated)
		return 0
	}
	return int(v)
}

func (c *cursor) byte() byte {
	if len(c.b) == 0 {
		c.fail(errTruncated)
		return 0
	}
	v := c.b[0]
	c.b = c.b[1:]
	return v
}

// bytes returns the next n bytes without copying.
func (c *cursor) bytes(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.fail(errTruncated)
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

// text reads a length and that many bytes, without copying.
func (c *cursor) text() []byte { return c.bytes(c.count(1)) }

// end reports the first fault, or bytes left over.
func (c *cursor) end() error {
	if c.err == nil && len(c.b) > 0 {
		return errTrailing
	}
	return c.err
}

func appendText[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}
