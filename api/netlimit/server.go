package netlimit

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
)

// HTTPServer returns a server for the Listeners of c. Its time limits keep slow clients from holding connections. It has no
// WriteTimeout: a response may take as long as its client makes progress. The caller may set ErrorLog before serving.
func (c *Limiter) HTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           c.limitStreams(h),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: c.opts.StreamsMax},
		ReadHeaderTimeout: c.opts.HeaderTimeout,
		ReadTimeout:       c.opts.ReadTimeout,
		IdleTimeout:       c.opts.ReadTimeout,
		MaxHeaderBytes:    int(c.opts.HeaderBytesMax),
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
