package shortcut

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// holdBytes is how much of a body without a stated length is held back, so that one that ends there gets its length.
const holdBytes = 2 << 10

// headBytesMax is the memory of a head up to which it is kept for the next answer.
const headBytesMax = 32 << 10

// response is the http.ResponseWriter of a request.
type response struct {
	socket *socket
	cancel context.CancelFunc
	header http.Header
	*scratch

	code     int   // 0 before WriteHeader
	declared int64 // Content-Length as the handler stated it; -1 if it did not
	written  int64 // of the body
	typed    bool  // nothing has to be said about the type of the body
	dated    bool
	sent     bool // the head is on its way
	chunked  bool
	last     bool // the connection ends after this answer
	err      error
}

// scratch is memory that answers use one after the other.
type scratch struct {
	head bytes.Buffer // head of the answer, and what stands before and after chunks
	held []byte       // of the body
}

// scratches keeps memory between the answers of all connections; idle ones have none.
var scratches = sync.Pool{New: func() any { return new(scratch) }}

func newResponse(c *conn, cancel context.CancelFunc) *response {
	return &response{
		socket: c.socket, cancel: cancel, header: http.Header{}, scratch: scratches.Get().(*scratch), declared: -1,
		last: c.server.draining.Load(),
	}
}

// free gives memory back.
func (w *response) free() {
	w.head.Reset()
	w.held = w.held[:0]
	if w.head.Cap() <= headBytesMax {
		scratches.Put(w.scratch)
	}
	w.scratch = nil
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. What it notes of the header is what the client gets, whatever is changed
// later. Informational answers are left out.
func (w *response) WriteHeader(code int) {
	if code < 100 || code > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", code))
	}
	if w.code != 0 || code < http.StatusOK {
		return
	}
	w.code = code
	if v := w.header.Get("Content-Length"); v != "" && w.bodyAllowed() {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && n >= 0 {
			w.declared = n
		}
	}
	w.last = w.last || strings.EqualFold(w.header.Get("Connection"), "close")
	_, w.typed = w.header["Content-Type"]
	w.typed = w.typed || w.header.Get("Content-Encoding") != ""
	_, w.dated = w.header["Date"]
	w.head.WriteString("HTTP/1.1 ")
	number := strconv.Itoa(code)
	w.head.WriteString(number)
	w.head.WriteByte(' ')
	w.head.WriteString(cmp.Or(http.StatusText(code), "status code "+number))
	w.head.WriteString("\r\n")
	w.header.WriteSubset(&w.head, own) //nolint:errcheck // a bytes.Buffer takes everything
}

// own are header fields that are written here.
var own = map[string]bool{"Content-Length": true, "Transfer-Encoding": true, "Connection": true, "Trailer": true}

func (w *response) bodyAllowed() bool {
	return w.code != http.StatusNoContent && w.code != http.StatusNotModified
}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	if w.code == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case len(p) == 0:
		return 0, nil
	case !w.bodyAllowed():
		return 0, http.ErrBodyNotAllowed
	case w.declared >= 0 && w.written+int64(len(p)) > w.declared:
		return 0, http.ErrContentLength
	case w.err != nil:
		return 0, w.err
	}
	w.written += int64(len(p))
	if !w.sent && w.declared < 0 && len(w.held)+len(p) <= holdBytes {
		w.held = append(w.held, p...)
		return len(p), nil
	}
	w.begin(p)
	if held := w.held; len(held) > 0 {
		w.held = w.held[:0]
		w.send(held)
	}
	w.send(p)
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// begin ends the head, if that was not done, when the body will be longer than what is held of it, or has a length.
func (w *response) begin(p []byte) {
	if w.sent {
		return
	}
	w.chunked = w.declared < 0
	w.endHead(p, w.declared)
}

// endHead writes the fields that depend on the body, of lengthBytes if that is not negative, and beginning with what is
// held and p.
func (w *response) endHead(p []byte, lengthBytes int64) {
	w.sent = true
	if !w.dated {
		w.head.WriteString("Date: ")
		w.head.Write(time.Now().UTC().AppendFormat(w.head.AvailableBuffer(), http.TimeFormat))
		w.head.WriteString("\r\n")
	}
	if len(w.held) > 0 {
		p = w.held
	}
	if !w.typed && len(p) > 0 {
		w.head.WriteString("Content-Type: " + http.DetectContentType(p) + "\r\n")
	}
	switch {
	case w.chunked:
		w.head.WriteString("Transfer-Encoding: chunked\r\n")
	case lengthBytes >= 0:
		w.head.WriteString("Content-Length: ")
		w.head.Write(strconv.AppendInt(w.head.AvailableBuffer(), lengthBytes, 10))
		w.head.WriteString("\r\n")
	}
	if w.last {
		w.head.WriteString("Connection: close\r\n")
	}
	w.head.WriteString("\r\n")
}

// send writes what stands in head, and then p as a chunk or as it is. The end of a chunk goes before what follows it.
func (w *response) send(p []byte) {
	if w.chunked {
		w.head.Write(strconv.AppendInt(w.head.AvailableBuffer(), int64(len(p)), 16))
		w.head.WriteString("\r\n")
	}
	w.pass(p)
	if w.chunked {
		w.head.WriteString("\r\n")
	}
}

// pass writes head and p in one go, and empties head.
func (w *response) pass(p []byte) {
	defer w.head.Reset()
	if w.err != nil {
		return
	}
	if w.err = w.socket.writeBoth(w.head.Bytes(), p); w.err != nil {
		w.cancel()
	}
}

// FlushError sends what was written so far; http.ResponseController finds it.
func (w *response) FlushError() error {
	if w.code == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.sent {
		w.chunked = w.declared < 0 && w.bodyAllowed()
		w.endHead(nil, w.declared)
	}
	switch held := w.held; {
	case len(held) > 0:
		w.held = w.held[:0]
		w.send(held)
	default:
		w.pass(nil)
	}
	return w.err
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// finish ends the answer; it reports whether the connection can be used on.
func (w *response) finish() bool {
	if w.code == 0 {
		w.WriteHeader(http.StatusOK)
	}
	// The client waits for more than there is.
	short := w.declared > w.written
	w.last = w.last || short
	switch {
	case !w.sent:
		lengthBytes := w.declared
		if lengthBytes < 0 && w.bodyAllowed() {
			lengthBytes = int64(len(w.held))
		}
		w.endHead(nil, lengthBytes)
		w.pass(w.held)
	case w.chunked:
		w.head.WriteString("0\r\n\r\n")
		w.pass(nil)
	case w.head.Len() > 0:
		w.pass(nil)
	}
	return w.err == nil && !w.last
}
