package client

import (
	"context"
	"net"
	"net/http"
	"time"
)

const userAgent = "halite-loadtest"

// newHTTPClient returns a client for one server that keeps up to conns idle connections.
func newHTTPClient(conns int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		MaxIdleConnsPerHost: conns, DisableCompression: true, WriteBufferSize: 64 << 10, IdleConnTimeout: 5 * time.Minute,
	}}
}

// Sleep waits for d or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
