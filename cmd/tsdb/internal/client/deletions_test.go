package client

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWatchCleaning: while a server cleans, each poll prints its progress. Polls before and failed ones print nothing.
func TestWatchCleaning(t *testing.T) {
	var polls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		poll := polls.Add(1)
		switch {
		case r.URL.Path != "/api/v1/admin/tsdb/deletions":
			http.NotFound(w, r)
		case poll == 1:
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case poll == 2:
			_, _ = io.WriteString(w, `{"status":"success","data":{"deletions":[]}}`)
		default:
			_, _ = io.WriteString(w, `{"status":"success","data":{"cleaning":{"deletions":3,"rowsRead":70,`+
				`"rowsRewritten":5,"rowsRemoved":6}}}`)
		}
	}))
	defer server.Close()
	c := &deleteConfig{server: Server{URL: server.URL}}
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.watchCleaning(ctx, in, time.Millisecond)
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^cleaning 3 deletions for \d+s; rows read: 70, rewritten: 5, removed: 6\n$`, line)
	stop()
	require.NoError(t, out.Close())
	<-over
	require.GreaterOrEqual(t, polls.Load(), int64(3))
}
