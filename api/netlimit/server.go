package netlimit

import (
	"context"
	"net"
	"net/http"
	"time"
)

// Timeouts and sizes of Limiter.HTTPServer.
const (
	// HeaderReadTimeout bounds how long a client may take to send its header.
	HeaderReadTimeout = 10 * time.Second
	// BodyReadTimeout bounds how long a client may take to send header and body, as Prometheus' --web.read-timeout.
	BodyReadTimeout = 5 * time.Minute
	// IdleTimeout bounds how long an unused connection is kept.
	IdleTimeout = 5 * time.Minute
	// HeaderBytesMax bounds the request line and header. Queries of 100 KB in a URL fit.
	HeaderBytesMax = 1 << 20
)

// HTTPServer returns a server for the Listeners of c. Its time limits keep slow clients from holding connections. It has no
// WriteTimeout: an answer may take as long as its client makes progress. The caller may set ErrorLog before serving.
func (c *Limiter) HTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: HeaderReadTimeout,
		ReadTimeout:       BodyReadTimeout,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    HeaderBytesMax,
		ConnState: func(nc net.Conn, state http.ConnState) {
			if conn, ok := nc.(*Conn); ok {
				conn.setState(state)
			}
		},
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			if conn, ok := nc.(*Conn); ok {
				return context.WithValue(ctx, connKey{}, conn)
			}
			return ctx
		},
	}
}
