package remotewrite

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/snappy"
)

var (
	// ErrTooLarge means that the declared decoded size is over the limit.
	ErrTooLarge = errors.New("decoded size over the limit")
	// ErrCorrupt means that the bytes are not snappy's block format.
	ErrCorrupt = errors.New("corrupt snappy block")
)

// Buffer holds a decoded body. The caller calls Release when nothing uses its bytes any more.
type Buffer struct {
	b []byte
}

// keepBytesMax is the largest buffer that goes back to the pool. Otherwise rare large bodies would fill the pool of every
// CPU.
const keepBytesMax = 8 << 20

var buffers = sync.Pool{New: func() any { return new(Buffer) }}

// DecodedLen returns the size that a snappy block declares, or ErrCorrupt. It decodes nothing.
func DecodedLen(body []byte) (int, error) {
	n, err := snappy.DecodedLen(body)
	if err != nil {
		return 0, fmt.Errorf("%w: unreadable length", ErrCorrupt)
	}
	return n, nil
}

// Snappy decodes a block into a pooled buffer. It compares the declared size with sizeBytesMax before it allocates.
func Snappy(body []byte, sizeBytesMax int) (*Buffer, error) {
	n, err := DecodedLen(body)
	if err != nil {
		return nil, err
	}
	if n > sizeBytesMax {
		return nil, fmt.Errorf("%w: %d bytes declared, %d allowed", ErrTooLarge, n, sizeBytesMax)
	}
	buf := buffers.Get().(*Buffer)
	decoded, err := snappy.Decode(buf.b[:cap(buf.b)], body)
	if err != nil {
		buf.Release()
		return nil, fmt.Errorf("%w: %d bytes declared", ErrCorrupt, n)
	}
	buf.b = decoded
	return buf, nil
}

// Bytes returns the decoded body, valid until Release.
func (b *Buffer) Bytes() []byte { return b.b }

// Release gives the buffer back.
func (b *Buffer) Release() {
	if cap(b.b) > keepBytesMax {
		b.b = nil
	}
	buffers.Put(b)
}
