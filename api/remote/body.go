package remote

import (
	"errors"
	"fmt"
	"io"
)

// BodyGrowBytes is the first size of a buffer for a body of unknown length.
const BodyGrowBytes = 64 << 10

// Errors of ReadBody.
var (
	ErrBodyTooLarge = errors.New("body too large")
	ErrBodyMemory   = errors.New("too many bytes of write requests are in memory")
)

// ReadBody reads a body of sizeBytes into buf. If sizeBytes is negative, the body may have any size up to bytesMax. ReadBody
// grows buf when it is too small. If the size is unknown, grant must permit each growth; nil permits all.
func ReadBody(r io.Reader, buf *[]byte, sizeBytes, bytesMax int64, grant func(moreBytes int64) bool) error {
	switch {
	case sizeBytes > bytesMax:
		return ErrBodyTooLarge
	case sizeBytes >= 0:
		return readKnown(r, buf, int(sizeBytes))
	case grant == nil:
		return readUnknown(r, buf, bytesMax, func(int64) bool { return true })
	}
	return readUnknown(r, buf, bytesMax, grant)
}

// readKnown reads exactly size bytes.
func readKnown(r io.Reader, buf *[]byte, size int) error {
	if cap(*buf) < size {
		*buf = make([]byte, size)
	}
	*buf = (*buf)[:size]
	n, err := io.ReadFull(r, *buf)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("request body ended after %d of %d bytes: %w", n, size, io.ErrUnexpectedEOF)
	}
	return err
}

// readUnknown reads to the end and doubles the buffer when it is full. grant must permit each growth.
func readUnknown(r io.Reader, buf *[]byte, bytesMax int64, grant func(moreBytes int64) bool) error {
	b := (*buf)[:0]
	if !grant(int64(cap(b))) {
		return ErrBodyMemory
	}
	for {
		if len(b) == cap(b) {
			size := max(2*int64(cap(b)), BodyGrowBytes)
			// Read one byte over the limit, to distinguish a body that is too large from one that just fits.
			size = min(size, bytesMax+1)
			if size <= int64(len(b)) {
				return ErrBodyTooLarge
			}
			if !grant(size - int64(cap(b))) {
				return ErrBodyMemory
			}
			b = append(make([]byte, 0, size), b...)
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		*buf = b
		if int64(len(b)) > bytesMax {
			return ErrBodyTooLarge
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
