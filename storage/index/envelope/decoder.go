package envelope

import "encoding/binary"

// Decoder reads a payload. After the first fault it returns zero values, and Err holds the fault.
type Decoder struct {
	Rest []byte // of the payload
	Err  error  // the first fault
}

func (c *Decoder) Fail(err error) {
	if c.Err == nil {
		c.Err = err
	}
	c.Rest = nil
}

func (c *Decoder) Uvarint() uint64 {
	v, n := binary.Uvarint(c.Rest)
	if n <= 0 {
		c.Fail(ErrTruncated)
		return 0
	}
	c.Rest = c.Rest[n:]
	return v
}

// Number reads a uvarint of at most limit.
func (c *Decoder) Number(limit uint64) uint32 {
	v := c.Uvarint()
	if v > limit || v > 1<<32-1 {
		c.Fail(ErrRange)
		return 0
	}
	return uint32(v)
}

// Count reads the number of following items, each at least itemBytes long. So the payload's length bounds the result
// and later allocations.
func (c *Decoder) Count(itemBytes int) int {
	v := c.Uvarint()
	if v > uint64(len(c.Rest)/itemBytes) {
		c.Fail(ErrTruncated)
		return 0
	}
	return int(v)
}

func (c *Decoder) Byte() byte {
	if len(c.Rest) == 0 {
		c.Fail(ErrTruncated)
		return 0
	}
	v := c.Rest[0]
	c.Rest = c.Rest[1:]
	return v
}

// Bytes returns the next n bytes without copying.
func (c *Decoder) Bytes(n int) []byte {
	if n < 0 || n > len(c.Rest) {
		c.Fail(ErrTruncated)
		return nil
	}
	v := c.Rest[:n:n]
	c.Rest = c.Rest[n:]
	return v
}

// Text reads a length and that number of bytes, without copying.
func (c *Decoder) Text() []byte { return c.Bytes(c.Count(1)) }

// End returns the first fault, or an error if bytes are left.
func (c *Decoder) End() error {
	if c.Err == nil && len(c.Rest) > 0 {
		return ErrTrailing
	}
	return c.Err
}

func AppendText[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}
