package netlimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"halite/storage/periodic"
)

// Body is the body of a request. It ends if its client sends nothing, or if the client is slow while others wait for a connection
// or for memory. A client is slow if it needs Options.SlowAfter longer than a client that sends at Options.BodyRateMin.
type Body struct {
	io.ReadCloser
	// SizeBytes counts what was read.
	SizeBytes int64

	limiter *Limiter // nil if none accepted the connection
	// sizeMax is the size of the body; -1 if it is unknown.
	sizeMax int64
	// drains is set if net/http reads the body after a handler that does not read it.
	drains bool
	// awaited is set if the client sends the body only after the first read.
	awaited bool
	control *http.ResponseController
	stall   time.Duration
	end     time.Time     // of the whole body
	lag     time.Duration // by which the client is behind Options.BodyRateMin
	done    bool          // read to the end, or failed
	ended   bool          // by endSlowBody; guarded by the limiter
}

// errSlowBody is the error of a body that ended for other clients. It is a timeout, so the client may send the request again.
var errSlowBody error = slowBodyError{}

type slowBodyError struct{}

func (slowBodyError) Error() string {
	return "the client sends the body slowly (web.min-body-rate, web.slow-after), and other clients wait for its connection " +
		"or its memory"
}
func (slowBodyError) Timeout() bool   { return true }
func (slowBodyError) Temporary() bool { return true }

// MakeBody returns the body of a request. The body ends if the client sends nothing for the time stall.
func MakeBody(w http.ResponseWriter, r *http.Request, stall time.Duration) Body {
	limiter := limiterOf(r.Context())
	return Body{
		ReadCloser: r.Body, limiter: limiter, control: http.NewResponseController(w), stall: stall,
		end: time.Now().Add(limiter.readTimeout()), sizeMax: r.ContentLength,
		drains: r.ProtoMajor < 2, awaited: r.Header.Get("Expect") != "",
	}
}

// Extend permits another Options.ReadTimeout for the rest of the body.
func (b *Body) Extend() { b.end = time.Now().Add(b.limiter.readTimeout()) }

// readTimeout returns Options.ReadTimeout. A nil Limiter has the default.
func (c *Limiter) readTimeout() time.Duration {
	if c == nil {
		return DefaultReadTimeout
	}
	return c.opts.ReadTimeout
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	began := time.Now()
	deadline := began.Add(b.stall)
	if deadline.After(b.end) {
		deadline = b.end
	}
	_ = b.control.SetReadDeadline(deadline) // fails only in tests without a connection
	if !b.limiter.beginRead(b, began.Add(-b.lag)) {
		return 0, errSlowBody
	}
	n, err := b.ReadCloser.Read(p)
	took := time.Since(began)
	b.SizeBytes += int64(n)
	if ended := b.limiter.endRead(b); err != nil && !errors.Is(err, io.EOF) {
		err = readFailure(err, ended)
	}
	b.done = err != nil
	if errors.Is(err, io.EOF) {
		// After the body, net/http continues to read without a deadline, to notice that the client is gone. After a failure
		// the deadline stays, because net/http tries to read the rest of the body.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	if b.limiter != nil {
		due := time.Duration(n) * time.Second / time.Duration(b.limiter.opts.BodyRateMin)
		b.lag = max(0, b.lag+took-due)
	}
	return n, err
}

// readFailure says why a read failed. A body may have ended for other clients.
func readFailure(err error, ended bool) error {
	var network net.Error
	switch {
	case ended:
		return errSlowBody
	case errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("the client sends nothing or too slowly (web.body-stall-timeout, web.read-timeout): %w", err)
	}
	return err
}

// drainBytesMax bounds the rest of a body that is read for the sake of the next request, as in net/http.
const drainBytesMax = 256 << 10

// Drain reads the rest of a body that the handler has not read, before the response. Otherwise net/http does, beyond the reach of
// a Limiter.
func (b *Body) Drain() {
	if b.done || !b.drains || b.awaited && b.SizeBytes == 0 || b.sizeMax-b.SizeBytes > drainBytesMax {
		return
	}
	_, _ = io.CopyN(io.Discard, b, drainBytesMax) // after an error, net/http closes the connection
}

// limiterOf returns the limiter of the connection of a request; nil if there is none.
func limiterOf(ctx context.Context) *Limiter {
	switch client := ctx.Value(connKey{}).(type) {
	case *Conn:
		return client.limiter
	case *stream:
		return client.limiter
	}
	return nil
}

// beginRead records that a read waits for the client. The body would have been read by the time due at Options.BodyRateMin. It
// returns false if endSlowBody has ended the body.
func (c *Limiter) beginRead(b *Body, due time.Time) bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !b.ended {
		c.reading[b] = due
	}
	return !b.ended
}

// endRead records that a read is done. It reports whether endSlowBody has ended the body.
func (c *Limiter) endRead(b *Body) (ended bool) {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reading, b)
	return b.ended
}

// endSlowBody ends the body that is slowest. It returns false if none is slow.
func (c *Limiter) endSlowBody() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var slowest *Body
	due := time.Now().Add(-c.opts.SlowAfter)
	for b, at := range c.reading {
		if at.Before(due) {
			slowest, due = b, at
		}
	}
	if slowest == nil {
		return false
	}
	delete(c.reading, slowest)
	slowest.ended = true
	c.metrics.ended.WithLabelValues(endedSlowBody).Inc()
	_ = slowest.control.SetReadDeadline(time.Unix(1, 0)) // an error means that the connection is closed already
	return true
}

// EndSlowBodies ends bodies of slow clients, one after the other, until ctx ends. A request calls it while it waits for memory
// that these bodies hold.
func EndSlowBodies(ctx context.Context) {
	c := limiterOf(ctx)
	if c == nil {
		return
	}
	periodic.Repeat(ctx, slotPoll, func(context.Context) { c.endSlowBody() })
}
