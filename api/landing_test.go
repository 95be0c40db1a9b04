package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/api/senders"
	"halite/ingest"
)

// namesOf is an index of one metric that has one time and one job.
type namesOf struct {
	Index
	tsMs int64
	job  string
}

func (c namesOf) LabelValues(_ context.Context, _ string, mintMs, maxtMs int64, _ int, matchers ...*labels.Matcher,
) ([]string, error) {
	for _, m := range matchers {
		if m.Name != "job" || !m.Matches(c.job) {
			return nil, nil
		}
	}
	if c.tsMs < mintMs || c.tsMs > maxtMs {
		return nil, nil
	}
	return []string{"m"}, nil
}

// TestLandingPageSaysWhatIsMissing: as long as nobody has sent samples it says so, with what to do about it.
func TestLandingPageSaysWhatIsMissing(t *testing.T) {
	now := time.UnixMilli(1_763_000_000_000)
	for _, c := range []struct {
		ago     time.Duration
		job     string
		arrives bool
	}{
		{time.Minute, "node", true}, {2 * time.Hour, "node", false}, {time.Minute, "halite", false},
	} {
		f := newFixture(t, func(o *Options) {
			o.Index = namesOf{tsMs: now.Add(-c.ago).UnixMilli(), job: c.job}
			o.OwnJob, o.Now = "halite", func() time.Time { return now }
		})
		page := body(t, f.get("/"))
		if c.arrives {
			require.Contains(t, page, "samples are arriving")
			require.NotContains(t, page, "No samples")
			continue
		}
		require.Contains(t, page, "No samples have arrived in the past hour but its own")
		require.Contains(t, page, "/api/v1/write</pre>")
	}
}

// TestLandingPageSaysWhatWasRefused: refusals take the place of "no samples have arrived", with the configuration that mends
// each.
func TestLandingPageSaysWhatWasRefused(t *testing.T) {
	now := time.UnixMilli(1_763_000_000_000)
	f := newFixture(t, func(o *Options) {
		o.Index = namesOf{tsMs: 0, job: "node"}
		o.OwnJob, o.Now = "halite", func() time.Time { return now }
	})
	require.Contains(t, body(t, f.get("/")), "No samples have arrived")
	f.write(strings.NewReader("x"), "Content-Type", "application/x-protobuf;proto=<b>x.Y", "User-Agent", "Prometheus/2.0")
	f.writer.answer = func([]byte) (ingest.Result, error) {
		return ingest.Result{
			Accepted: 5, Rejected: 3, Reasons: map[string]int{ingest.ReasonTooManyLabels: 3}, First: "series up{}: 600 labels",
		}, nil
	}
	f.write(strings.NewReader("x"))
	page := body(t, f.get("/"))
	require.NotContains(t, page, "No samples")
	for _, text := range []string{
		"It is ready, but it refused data in the past hour", "<strong>1 write request</strong>: the server does not know",
		"<pre>protobuf_message: io.prometheus.write.v2.Request</pre>", "message &lt;b&gt;x.Y", "(Prometheus/2.0)",
		"<strong>3 samples</strong>: the series have too many labels", "<pre>--ingest.max-labels=1000</pre>",
		"series up{}: 600 labels",
	} {
		require.Contains(t, page, text)
	}
	now = now.Add(2 * time.Hour)
	page = body(t, f.get("/"))
	require.Contains(t, page, "No samples have arrived")
	require.NotContains(t, page, "it refused")
}

// TestSendersEndpoint: the list has the sender of each request, whatever its outcome.
func TestSendersEndpoint(t *testing.T) {
	ready := true
	f := newFixture(t, func(o *Options) {
		o.Ready = func() Readiness { return Readiness{Ready: ready, Reason: "the server is shutting down"} }
	})
	const v2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
	f.write(strings.NewReader("x"), "Content-Type", v2, "User-Agent", "p", "X-Prometheus-Remote-Write-Version", "2.0.0")
	f.write(strings.NewReader("x"), "Content-Type", v2, "User-Agent", "p", "Sec-Fetch-Site", "cross-site", "Origin", "http://x")
	ready = false
	f.write(strings.NewReader("x"), "Content-Type", v2, "User-Agent", "p")
	ready = true
	f.writer.answer = func([]byte) (ingest.Result, error) { return ingest.Result{}, ingest.ErrTooLarge }
	f.write(strings.NewReader("x"), "Content-Type", v2, "User-Agent", "p")
	var answer struct {
		Data struct{ Senders []senders.Status }
	}
	require.NoError(t, json.Unmarshal([]byte(body(t, f.get("/api/v1/status/senders"))), &answer))
	require.Len(t, answer.Data.Senders, 1)
	s := answer.Data.Senders[0]
	require.Equal(t, senders.Sender{Address: "192.0.2.1", UserAgent: "p", Protocol: senders.ProtocolV2}, s.Sender)
	require.Equal(t, uint64(4), s.Requests)
	require.Equal(t, uint64(3), s.Accepted.Samples)
	require.Equal(t, map[string]uint64{"cross_origin": 1, "not_ready": 1, "too_large": 1}, s.RefusedRequests)
	require.Equal(t, ingest.ErrTooLarge.Error(), s.LastRefusal.Message)
	require.Equal(t, http.StatusBadRequest, f.get("/api/v1/status/senders?limit=x").Code)
	require.Equal(t, `{"status":"success","data":{"senders":[],"forgotten":0,"haClusters":[]}}`,
		body(t, newFixture(t, nil).get("/api/v1/status/senders")))
}

// TestRefusalsAreCountedFromTheStart: the counters of all reasons exist before the first refusal.
func TestRefusalsAreCountedFromTheStart(t *testing.T) {
	f := newFixture(t, nil)
	for _, reason := range []string{"content_type", "encoding", "too_large", "body", "overload", "cross_origin", "not_ready",
		"repeated_panic"} {
		require.Zero(t, f.metric(t, "tsdb_http_rejected_total", map[string]string{"handler": WritePath, "reason": reason}), reason)
	}
}
