package api

import (
	"encoding/json"
	"io"
	"sync"
)

// spillBytes is the buffered size from which an answer is passed on while it is still being written, so that a large
// result is not held twice.
const spillBytes = 64 << 10

// jsonWriter appends JSON to a buffer that it passes on to w whenever it is large. Between calls buf may be appended
// to directly.
type jsonWriter struct {
	w       io.Writer
	buf     []byte
	spilled bool
	err     error // of w; afterwards nothing more is written
}

// raw appends text that is JSON already.
func (j *jsonWriter) raw(s string) { j.buf = append(j.buf, s...) }

// str appends a string.
func (j *jsonWriter) str(s string) { j.buf = appendString(j.buf, s, true) }

// list appends a list of n items, each written by item. It stops early when the client is gone.
func (j *jsonWriter) list(n int, item func(i int)) {
	j.buf = append(j.buf, '[')
	for i := 0; i < n && j.err == nil; i++ {
		if i > 0 {
			j.buf = append(j.buf, ',')
		}
		item(i)
		if len(j.buf) >= spillBytes {
			j.flush()
		}
	}
	j.buf = append(j.buf, ']')
}

// marshal appends v by its struct tags, for answers whose speed does not matter.
func (j *jsonWriter) marshal(v any) { j.buf = append(j.buf, marshal(v)...) }

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		// Only a type that JSON does not know ends here, which is a fault of the program.
		panic(err)
	}
	return b
}

// flush passes the buffer on.
func (j *jsonWriter) flush() {
	if j.err == nil {
		_, j.err = j.w.Write(j.buf)
	}
	j.spilled = true
	j.buf = j.buf[:0]
}

// bufferPool keeps byte slices between requests. Slices over bytesMax are left to the garbage collector, so that one
// large request does not keep its memory for ever.
type bufferPool struct {
	bytesMax int
	pool     sync.Pool
}

// get returns an empty slice of some capacity.
func (p *bufferPool) get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

// put takes a slice back; the caller must not use it any more.
func (p *bufferPool) put(b *[]byte) {
	if cap(*b) > p.bytesMax {
		return
	}
	*b = (*b)[:0]
	p.pool.Put(b)
}
