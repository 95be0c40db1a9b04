package telnet

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"halite/api/netlimit"
	"halite/api/receiver/opentsdb"
	"halite/api/senders"
	"halite/ingest"
	"halite/ingest/batch"
)

const (
	// bufferBytesMin is the buffer of a connection that sends little, bufferBytesMax the buffer of one that sends much.
	bufferBytesMin = 4 << 10
	bufferBytesMax = 256 << 10
	// Bounds of the pause before a batch is tried again.
	retryMin = 20 * time.Millisecond
	retryMax = time.Second
)

// connection is one client.
type connection struct {
	server *Server
	conn   *netlimit.Conn
	lines  *opentsdb.Lines
	from   *http.Request // for the list of senders
	out    *responses
	// held are responses to bad lines and unknown commands. They wait until the client pauses: when a client closes its socket with
	// unread responses, its kernel discards the lines that it has not sent.
	held      []byte
	heldSince time.Time
	buf       []byte
	// discarding is set while the rest of a line that is too long is discarded.
	discarding bool
}

func newConnection(s *Server, conn *netlimit.Conn) *connection {
	return &connection{
		server: s, conn: conn, lines: opentsdb.NewLines(s.opts.Names, s.opts.LineBytesMax),
		from: &http.Request{RemoteAddr: conn.RemoteAddr().String(), Header: http.Header{}},
		out:  newResponses(conn, s.metrics.unsent), buf: make([]byte, 0, bufferBytesMin),
	}
}

// recovered turns a panic into the end of the connection.
func (c *connection) recovered() {
	if cause := recover(); cause != nil {
		c.server.metrics.panics.Inc()
		c.server.opts.Logger.Error("panic while serving telnet", "client", c.from.RemoteAddr, "panic", fmt.Sprint(cause),
			"stack", string(debug.Stack()))
	}
}

// serve reads lines and answers them until the client or the server closes the connection.
func (c *connection) serve() {
	defer c.out.close()
	defer c.release()
	for {
		c.makeRoom()
		if time.Since(c.heldSince) > heldAgeMax {
			c.release()
		}
		waits := len(c.held) > 0
		if waits {
			c.server.boundRead(c.conn, time.Now().Add(c.server.opts.ResponseDelay))
		}
		n, err := c.conn.Read(c.buf[len(c.buf):cap(c.buf)])
		if waits {
			c.server.boundRead(c.conn, time.Time{})
		}
		if waits && errors.Is(err, os.ErrDeadlineExceeded) {
			c.release()
			continue
		}
		c.conn.Touch()
		c.buf = c.buf[:len(c.buf)+n]
		if !c.process() || err != nil {
			return
		}
	}
}

const (
	// heldBytesMax and heldAgeMax bound the responses that wait. A client that reads gets all of them.
	heldBytesMax = 64 << 10
	heldAgeMax   = 5 * time.Second
)

// hold keeps a response until release. No client waits for such a response.
func (c *connection) hold(text []byte) {
	if len(c.held) == 0 {
		c.heldSince = time.Now()
	}
	if c.held = append(c.held, text...); len(c.held) > heldBytesMax {
		c.release()
	}
}

// release sends the responses that hold has kept.
func (c *connection) release() {
	if len(c.held) > 0 {
		c.out.send(c.held)
		c.held = nil
	}
}

// makeRoom grows the buffer of a busy connection, and shrinks the buffer of an idle one.
func (c *connection) makeRoom() {
	switch {
	case len(c.buf) == cap(c.buf):
		c.buf = append(make([]byte, 0, 2*cap(c.buf)), c.buf...)
	case len(c.buf) == 0 && cap(c.buf) > bufferBytesMax:
		c.buf = make([]byte, 0, bufferBytesMin)
	}
}

// process answers the complete lines of the buffer. It returns false after exit.
func (c *connection) process() bool {
	full := len(c.buf) == cap(c.buf)
	complete := bytes.LastIndexByte(c.buf, '\n') + 1
	text := c.buf[:complete]
	if c.discarding && complete > 0 {
		c.discarding = false
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	for len(text) > 0 {
		if opentsdb.HoldsData(text) {
			text = text[c.write(text):]
			continue
		}
		line, rest, _ := bytes.Cut(text, []byte{'\n'})
		if !c.command(string(bytes.TrimRight(line, "\r"))) {
			return false
		}
		text = rest
	}
	c.buf = append(c.buf[:0], c.buf[complete:]...)
	switch {
	case c.discarding:
		c.buf = c.buf[:0]
	case len(c.buf) > c.server.opts.LineBytesMax+len("histogram ")+1:
		c.refuseLong()
	case len(c.buf) == 0 && !full && complete < cap(c.buf)/8 && cap(c.buf) > bufferBytesMin:
		c.buf = make([]byte, 0, bufferBytesMin)
	case full && len(c.buf) > 0 && cap(c.buf) < bufferBytesMax:
		c.buf = append(make([]byte, 0, 2*cap(c.buf)), c.buf...)
	}
	return true
}

// refuseLong drops a line that is too long, up to its end.
func (c *connection) refuseLong() {
	word, _, _ := strings.Cut(string(c.buf[:min(len(c.buf), 20)]), " ")
	c.server.metrics.lost.WithLabelValues(lostLong).Inc()
	c.hold(fmt.Appendf(nil, "%s: illegal argument: the line has more than %d bytes\n", word, c.server.opts.LineBytesMax))
	c.buf, c.discarding = c.buf[:0], true
}

// write stores the data points at the beginning of a text, and answers bad lines. It returns the length of these lines.
func (c *connection) write(text []byte) (used int) {
	s := c.server
	pause, until := retryMin, time.Now().Add(s.opts.WriteWait)
	for {
		parse := func(b *batch.Batch) error { return c.lines.Parse(text, b) }
		result, err := s.opts.Writer.Write(s.stop, ingest.Input{Parse: parse, SizeBytes: len(text)})
		if err == nil {
			c.respond(&result)
			return c.lines.Used
		}
		overload := new(ingest.OverloadError)
		if !errors.As(err, &overload) || time.Now().After(until) {
			return c.lose(text, err)
		}
		s.metrics.throttled.Inc()
		select {
		case <-time.After(pause):
		case <-s.stop.Done():
			return c.lose(text, err)
		}
		pause = min(2*pause, retryMax)
	}
}

// respond reports to the client and to the list of senders the lines that were not stored.
func (c *connection) respond(result *ingest.Result) {
	status := http.StatusNoContent
	if result.Rejected > 0 {
		status = http.StatusBadRequest
	}
	c.server.opts.Senders.Add(c.from, &senders.Outcome{
		Protocol: opentsdb.ProtocolTelnet, Status: status, Example: result.First, Samples: result.Reasons, Omitted: result.Omitted,
		NewestMs: result.NewestMs,
		Accepted: senders.Counts{Samples: uint64(result.Accepted), Histograms: uint64(result.Histograms)},
	})
	if result.Rejected == 0 {
		return
	}
	text := bytes.Clone(c.lines.Errors)
	if c.lines.ErrorsLeft > 0 {
		text = fmt.Appendf(text, "put: illegal argument: %d more lines have errors\n", c.lines.ErrorsLeft)
	}
	if result.Rejected > c.lines.Bad {
		text = fmt.Appendf(text, "put: illegal argument: %s\n", opentsdb.Refused(result, c.lines.Bad))
	}
	c.hold(text)
}

// lose answers that the data points at the beginning of a text are not stored. It returns the length of these lines.
func (c *connection) lose(text []byte, err error) (used int) {
	lines := 0
	for rest := text; opentsdb.HoldsData(rest); rest = text[used:] {
		used += bytes.IndexByte(rest, '\n') + 1
		lines++
	}
	reason, words, status := lostError, "HBase error", http.StatusInternalServerError
	overload := new(ingest.OverloadError)
	switch {
	case errors.As(err, &overload):
		reason, words, status = lostOverload, "Please throttle writes", http.StatusServiceUnavailable
	case errors.Is(err, ingest.ErrClosed), errors.Is(err, c.server.stop.Err()):
		status = http.StatusServiceUnavailable
	default:
		c.server.opts.Logger.Error("telnet: lines are not stored", "client", c.from.RemoteAddr, "lines", lines, "err", err)
	}
	c.server.metrics.lost.WithLabelValues(reason).Add(float64(lines))
	c.server.opts.Senders.Refuse(c.from, opentsdb.ProtocolTelnet, status, reason, err)
	c.hold(fmt.Appendf(nil, "put: %s: %d lines are not stored: %s\n", words, lines, strings.ReplaceAll(err.Error(), "\n", " ")))
	return used
}
