package receiver

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"halite/api/remote"
)

// ErrEncoding means that the server does not support the encoding of a body.
var ErrEncoding = errors.New("content encoding is not accepted by this server; only gzip is acceptable")

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
	switch strings.ToLower(encoding) {
	case "", "identity":
		return body, done, nil
	case "gzip":
	default:
		return nil, done, fmt.Errorf("%q: %w", encoding, ErrEncoding)
	}
	limited := &limitedReader{r: body, left: bytesMax}
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
