package receiver

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"

	"halite/api/remote"
)

// ErrEncoding means that the server does not support the encoding of a body.
var ErrEncoding = errors.New("content encoding is not accepted by this server; only gzip and deflate are acceptable")

// ErrContentType means that a protocol does not support the type of a body.
var ErrContentType = errors.New("the content type is not accepted by this server")

// Decoder decompresses bodies. The zero value is ready. Its methods may be called concurrently.
type Decoder struct {
	gzips sync.Pool
}

// Open returns a reader of a body that the header Content-Encoding describes. It fails with remote.ErrBodyTooLarge when the body
// as sent is longer than bytesMax. The caller must call done after the last read. The error is ErrEncoding or comes from the
// body.
func (d *Decoder) Open(encoding string, body io.Reader, bytesMax int64) (decoded io.Reader, done func(), err error) {
	done = func() {}
	limited := &limitedReader{r: body, left: bytesMax}
	switch strings.ToLower(encoding) {
	case "", "identity":
		return body, done, nil
	case "deflate", "x-deflate":
		decoded, err = inflate(limited)
		return decoded, done, err
	case "gzip", "x-gzip":
	default:
		return nil, done, fmt.Errorf("%q: %w", encoding, ErrEncoding)
	}
	z, ok := d.gzips.Get().(*gzip.Reader)
	if ok {
		err = z.Reset(limited)
	} else {
		z, err = gzip.NewReader(limited)
	}
	if err != nil {
		return nil, done, fmt.Errorf("gzip: %w", err)
	}
	return z, func() { d.gzips.Put(z) }, nil
}

// inflate returns a reader of a body in the encoding deflate. The standard demands zlib's header, but some clients leave it out.
// OpenTSDB accepts both forms.
func inflate(body io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(body)
	start, err := buffered.Peek(2)
	if err != nil {
		return nil, fmt.Errorf("deflate: %w", err)
	}
	const method, methodMask = 8, 0xf // zlib's number of deflate, in the low bits of the first byte
	if start[0]&methodMask != method || binary.BigEndian.Uint16(start)%31 != 0 {
		return flate.NewReader(buffered), nil
	}
	z, err := zlib.NewReader(buffered)
	if err != nil {
		return nil, fmt.Errorf("deflate: %w", err)
	}
	return z, nil
}

// limitedReader returns an error when its source is longer than left bytes.
type limitedReader struct {
	r    io.Reader
	left int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, remote.ErrBodyTooLarge
	}
	return n, err
}
