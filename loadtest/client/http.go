package client

import (
	"context"
	"net"
	"net/http"
	"time"
)

const userAgent = "halite-loadtest"

// newHTTPClient returns a client for a target that keeps up to conns idle connections.
func newHTTPClient(t *Target, conns int) *http.Client {
	return &http.Client{Transport: authorized{t.Token, &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		MaxIdleConnsPerHost: conns, DisableCompression: true, WriteBufferSize: 64 << 10, IdleConnTimeout: 5 * time.Minute,
	}}}
}

// authorized sends a bearer token with each request, unless it is "".
type authorized struct {
	token string
	http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	return a.RoundTripper.RoundTrip(r)
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
