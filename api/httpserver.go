package api

import (
	"net/http"
	"time"
)

// Timeouts and sizes of the server made by NewHTTPServer.
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

// NewHTTPServer returns an http.Server for addr and h with time limits that stop slow clients from holding connections.
// There is no write timeout: a streamed remote read may take longer than any fixed time, and queries end by their own
// timeout. The caller may set ErrorLog before serving.
func NewHTTPServer(addr string, h http.Handler) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           h,
		ReadHeaderTimeout: HeaderReadTimeout,
		ReadTimeout:       BodyReadTimeout,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    HeaderBytesMax,
	}
}
