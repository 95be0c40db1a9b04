package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// bodyGrowBytes is the first size of a buffer for a body of unknown length.
const bodyGrowBytes = 64 << 10

// readBody reads a request body of at most bytesMax into a pooled buffer. The bytes count against the memory that all
// write bodies may take, until the caller calls release; body must not be used afterwards.
func (s *Server) readBody(r *http.Request, bytesMax int64) (body []byte, release func(), failure *writeError) {
	if r.ContentLength > bytesMax {
		return nil, nil, bodyTooLarge(bytesMax)
	}
	held := max(r.ContentLength, 0)
	waiting, stop := context.WithTimeout(r.Context(), s.opts.Limits.WriteQueueWait)
	defer stop()
	if err := s.writeBytes.Acquire(waiting, held); err != nil {
		return nil, nil, overloaded("too many bytes of write requests are in memory")
	}
	buf := s.buffers.get()
	release = func() {
		s.buffers.put(buf)
		s.writeBytes.Release(held)
	}
	var err error
	if r.ContentLength >= 0 {
		err = readKnown(r.Body, buf, int(r.ContentLength))
	} else {
		err = readUnknown(r.Body, buf, bytesMax, func(more int64) bool {
			if !s.writeBytes.TryAcquire(more) {
				return false
			}
			held += more
			return true
		})
	}
	if err != nil {
		release()
		return nil, nil, bodyFailure(err, bytesMax)
	}
	return *buf, release, nil
}

var (
	errBodyTooLarge = errors.New("body too large")
	errBodyMemory   = errors.New("too many bytes of write requests are in memory")
)

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

// readUnknown reads to the end, doubling the buffer as it fills, up to bytesMax. Each growth must be granted.
func readUnknown(r io.Reader, buf *[]byte, bytesMax int64, grant func(more int64) bool) error {
	b := (*buf)[:0]
	if !grant(int64(cap(b))) {
		return errBodyMemory
	}
	for {
		if len(b) == cap(b) {
			size := max(2*int64(cap(b)), bodyGrowBytes)
			// One byte over the limit tells a body that is too large from one that just fits.
			size = min(size, bytesMax+1)
			if size <= int64(len(b)) {
				return errBodyTooLarge
			}
			if !grant(size - int64(cap(b))) {
				return errBodyMemory
			}
			b = append(make([]byte, 0, size), b...)
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		*buf = b
		if int64(len(b)) > bytesMax {
			return errBodyTooLarge
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func bodyTooLarge(bytesMax int64) *writeError {
	return writeFailure(http.StatusRequestEntityTooLarge, rejectTooLarge,
		fmt.Errorf("request body exceeds the %d bytes limit", bytesMax))
}

// bodyFailure gives a failure to read a body its status. A sender that was merely slow should send again.
func bodyFailure(err error, bytesMax int64) *writeError {
	var network net.Error
	switch {
	case errors.Is(err, errBodyTooLarge):
		return bodyTooLarge(bytesMax)
	case errors.Is(err, errBodyMemory):
		return overloaded(err.Error())
	case errors.As(err, &network) && network.Timeout():
		return writeFailure(http.StatusServiceUnavailable, rejectBody, fmt.Errorf("reading the request body: %w", err))
	}
	return writeFailure(http.StatusBadRequest, rejectBody, fmt.Errorf("reading the request body: %w", err))
}
