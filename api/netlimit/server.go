package netlimit

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Timeouts of Limiter.HTTPServer.
const (
	// HeaderReadTimeout bounds the time in which a client sends its header.
	HeaderReadTimeout = 10 * time.Second
	// BodyReadTimeout bounds the time in which a client sends header and body, as Prometheus's --web.read-timeout does.
	BodyReadTimeout = 5 * time.Minute
	// IdleTimeout bounds the time for which an unused connection is kept.
	IdleTimeout = 5 * time.Minute
)

// HTTPServer returns a server for the Listeners of c. Its time limits keep slow clients from holding connections. It has no
// WriteTimeout: a response may take as long as its client makes progress. The caller may set ErrorLog before serving.
func (c *Limiter) HTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           c.limitStreams(h),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: c.opts.StreamsMax},
		ReadHeaderTimeout: HeaderReadTimeout,
		ReadTimeout:       BodyReadTimeout,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    c.opts.HeaderBytesMax,
		ConnState: func(nc net.Conn, state http.ConnState) {
			if conn, ok := limited(nc); ok {
				conn.setState(state)
			}
		},
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			if conn, ok := limited(nc); ok {
				return context.WithValue(ctx, connKey{}, conn)
			}
			return ctx
		},
	}
}

// limited returns the connection below a connection of TLS.
func limited(nc net.Conn) (c *Conn, ok bool) {
	if secure, ok := nc.(*tls.Conn); ok {
		nc = secure.NetConn()
	}
	c, ok = nc.(*Conn)
	return c, ok
}
