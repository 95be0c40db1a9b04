package api

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"halite/api/netlimit"
	"halite/query"
	"halite/storage"
)

// patience is a generous limit for waits in tests.
const patience = time.Minute

// serveConns serves h on a listener with limits and returns the address.
func serveConns(t *testing.T, h http.Handler) string {
	t.Helper()
	limiter, err := netlimit.New(netlimit.Options{})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := limiter.HTTPServer(h)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(limiter.Listener(l))
	}()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		<-done
	})
	return l.Addr().String()
}

// get sends a request on a connection of its own.
func get(addr, path string) (int, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get("http://" + addr + path)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// TestWorkAfterBody: the time limit of a body ends with the body, not with the work for the request.
func TestWorkAfterBody(t *testing.T) {
	const stall = 30 * time.Millisecond
	f := newFixture(t, func(o *Options) {
		o.Limits.BodyStallTimeout = stall
		o.Index = failing{err: storage.ErrUnavailable, before: func(ctx context.Context) {
			select {
			case <-ctx.Done():
				t.Error("the work was ended:", context.Cause(ctx))
			case <-time.After(5 * stall):
			}
		}}
	})
	addr := serveConns(t, f.Handler())
	resp, err := http.PostForm("http://"+addr+"/api/v1/labels", url.Values{"limit": {"1"}})
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
}

// blocked is a store whose queries wait.
type blocked struct {
	promstorage.SampleAndChunkQueryable
	leave chan struct{}
}

func (b blocked) Querier(mintMs, maxtMs int64) (promstorage.Querier, error) {
	<-b.leave
	return b.SampleAndChunkQueryable.Querier(mintMs, maxtMs)
}

// TestHealthDuringQueries: the server answers health and metrics even if all query slots are in use.
func TestHealthDuringQueries(t *testing.T) {
	leave := make(chan struct{})
	f := newFixture(t, func(o *Options) {
		var err error
		o.Engine, err = query.New(query.Options{Queryable: blocked{o.Queryable, leave}, ConcurrencyMax: 1})
		require.NoError(t, err)
	})
	addr := serveConns(t, f.Handler())
	var queries sync.WaitGroup
	for range 3 {
		queries.Go(func() {
			if code, err := get(addr, "/api/v1/query?query=up"); err != nil || code != http.StatusOK {
				t.Error(code, err)
			}
		})
	}
	require.Eventually(t, func() bool { return len(f.opts.Engine.Active()) == 3 }, patience, time.Millisecond)
	for _, path := range []string{"/-/ready", "/-/healthy", "/metrics"} {
		code, err := get(addr, path)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, code, path)
	}
	close(leave)
	queries.Wait()
}
