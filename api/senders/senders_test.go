package senders

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"halite/ingest"
)

// from is a write request from an address.
func from(address, agent string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/api/v1/write", nil)
	r.RemoteAddr = address
	r.Header.Set("User-Agent", agent)
	r.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	return r
}

// TestStatusOfSenders counts the stored and refused samples of two senders.
func TestStatusOfSenders(t *testing.T) {
	now := time.Unix(1_763_000_000, 0)
	tracker := New(Options{Now: func() time.Time { return now }})
	a, b := from("10.0.0.1:4000", "Prometheus/3.15.0"), from("[::1]:1", "vmagent")
	tracker.Add(a, &Outcome{Protocol: ProtocolV2, Status: 204, Accepted: Counts{5, 2, 1}})
	a.RemoteAddr = "10.0.0.1:4001" // another connection
	tracker.Add(a, &Outcome{
		Protocol: ProtocolV2, Status: 400, Accepted: Counts{Samples: 1}, Samples: map[string]int{"too_far_ahead": 3},
		Omitted: map[string]int{"metadata_limit": 2}, Example: "series up{}: too far ahead",
	})
	now = now.Add(time.Second)
	b.Header.Set("Content-Type", "application/x-protobuf;proto=x.Y")
	tracker.Refuse(b, RemoteWrite(b), 415, ReasonContentType, errors.New("unknown message x.Y"))
	list, evicted := tracker.List(10)
	require.Zero(t, evicted)
	require.Equal(t, []Status{{
		Sender: Sender{"::1", "vmagent", ProtocolUnknown}, Version: "0.1.0", Requests: 1,
		RefusedRequests: map[string]uint64{"content_type": 1}, RefusedSamples: map[string]uint64{},
		LastRefusal: &Example{now, 415, "unknown message x.Y"}, FirstTime: now, LastTime: now,
	}, {
		Sender: Sender{"10.0.0.1", "Prometheus/3.15.0", ProtocolV2}, Version: "0.1.0", Requests: 2, Accepted: Counts{6, 2, 1},
		RefusedRequests: map[string]uint64{}, RefusedSamples: map[string]uint64{"too_far_ahead": 3, "metadata_limit": 2},
		LastRefusal: &Example{now.Add(-time.Second), 400, "series up{}: too far ahead"},
		FirstTime:   now.Add(-time.Second), LastTime: now.Add(-time.Second),
	}}, list)
	list, _ = tracker.List(1)
	require.Len(t, list, 1)
}

// TestAhead: the newest sample of the last request counts. A request without samples changes nothing.
func TestAhead(t *testing.T) {
	now := time.Unix(1_763_000_000, 0)
	tracker := New(Options{Now: func() time.Time { return now }})
	r := from("10.0.0.1:4000", "Prometheus/3.15.0")
	for _, c := range []struct{ newestMs, aheadMs int64 }{
		{now.UnixMilli() - 1, 0}, {now.UnixMilli() + 90_000, 90_000}, {0, 90_000}, {now.UnixMilli() - 60_000, 0},
	} {
		tracker.Add(r, &Outcome{Status: 204, NewestMs: c.newestMs})
		list, _ := tracker.List(1)
		require.Equal(t, c.aheadMs, list[0].AheadMs)
	}
}

// TestSendersAreBounded: the list drops the least recent sender, and truncates texts that a sender chooses.
func TestSendersAreBounded(t *testing.T) {
	tracker := New(Options{SendersMax: 2})
	add := func(n int) {
		tracker.Add(from(fmt.Sprintf("10.0.0.%d:1", n), strings.Repeat("ü", 1000)), &Outcome{
			Reason: ReasonMalformed, Example: strings.Repeat("x", 5000),
		})
	}
	for _, n := range []int{1, 2, 1, 3} {
		add(n)
	}
	list, evicted := tracker.List(10)
	require.Equal(t, uint64(1), evicted)
	require.Equal(t, []string{"10.0.0.3", "10.0.0.1"}, []string{list[0].Address, list[1].Address})
	require.Equal(t, uint64(2), list[1].Requests)
	require.Less(t, len(list[0].UserAgent), 210)
	require.Less(t, len(list[0].LastRefusal.Message), 1010)
}

// TestRefusalsOfAnHour: the window drops refusals older than an hour, minute by minute.
func TestRefusalsOfAnHour(t *testing.T) {
	now := time.Unix(1_763_000_000, 0)
	tracker := New(Options{Now: func() time.Time { return now }})
	count := func() uint64 {
		if list := tracker.Refusals(); len(list) > 0 {
			return list[0].Count
		}
		return 0
	}
	r := from("10.0.0.1:1", "p")
	for range 90 {
		tracker.Add(r, &Outcome{Samples: map[string]int{"too_far_ahead": 2}})
		now = now.Add(time.Minute)
	}
	require.Equal(t, uint64(118), count())
	now = now.Add(30 * time.Minute)
	require.Equal(t, uint64(58), count())
	now = now.Add(-time.Minute) // the clock goes back
	tracker.Add(r, &Outcome{Samples: map[string]int{"too_far_ahead": 1}})
	require.Equal(t, uint64(59), count())
	now = now.Add(2 * time.Hour)
	require.Zero(t, count())
	require.Empty(t, tracker.Refusals())
}

// TestLogOfRefusals: the first refusal of a kind is logged at once, the others of a minute together.
func TestLogOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var out bytes.Buffer
		lines := func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			text := strings.Split(strings.TrimSpace(out.String()), "\n")
			out.Reset()
			return text
		}
		tracker := New(Options{Logger: slog.New(slog.NewTextHandler(&lockedWriter{&mu, &out}, nil))})
		r := from("10.0.0.1:1", "Prometheus/3")
		r.Header.Set("Content-Type", "application/x-protobuf;proto=x.Y")
		for range 5 {
			tracker.Refuse(r, RemoteWrite(r), 415, ReasonContentType, errors.New("unknown message"))
		}
		got := lines()
		require.Len(t, got, 1)
		require.Contains(t, got[0], `msg="refused write requests" reason=content_type status=415 requests=1 remedy="protobuf_message: `+
			`io.prometheus.write.v2.Request" sender=10.0.0.1 user_agent=Prometheus/3 protocol=unknown example="unknown message"`)
		tracker.Add(r, &Outcome{Status: 400, Samples: map[string]int{"too_far_ahead": 7}})
		require.Contains(t, lines()[0], `msg="refused samples" reason=too_far_ahead status=400 requests=1 samples=7`)
		time.Sleep(logInterval)
		got = lines()
		require.Len(t, got, 1)
		require.Contains(t, got[0], "requests=4", "one line for the others")
		time.Sleep(10 * logInterval)
		require.Equal(t, []string{""}, lines(), "nothing was refused")
		tracker.Refuse(r, RemoteWrite(r), 415, ReasonContentType, errors.New("unknown message"))
		require.Contains(t, lines()[0], "requests=1")
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

// TestEachReasonHasAFix: the page explains each reason.
func TestEachReasonHasAFix(t *testing.T) {
	for _, reason := range append(ingest.Reasons(), ReasonContentType, ReasonEncoding, ReasonTooLarge, ReasonBody, ReasonOverload,
		ReasonOrigin, ReasonHost, ReasonNotReady, ReasonCrashLoop, ReasonMalformed, ReasonUnavailable, ReasonInternal) {
		fix := FixOf(reason, ProtocolV2)
		require.NotEmpty(t, fix.Words)
		require.NotContains(t, fix.Words, "the reason is", reason)
		require.Equal(t, fix.Line == "", fix.Where == "", reason)
	}
	require.Equal(t, "the reason is other", FixOf("other", ProtocolV1).Words)
	// The configuration of Prometheus or vmagent helps no sender of another protocol.
	for _, reason := range []string{ReasonContentType, ReasonEncoding, ReasonBody, ReasonNoCredentials} {
		require.NotEmpty(t, FixOf(reason, ProtocolUnknown).Line, reason)
		other := (&Refusal{Reason: reason, From: Sender{Protocol: "OTLP"}}).Fix()
		require.NotContains(t, other.Words, "snappy")
		require.Equal(t, Fix{Words: other.Words}, other, reason)
	}
	require.NotEmpty(t, FixOf(ReasonTooLarge, "OTLP").Line, "a flag of the server helps all")
	for want, f := range map[string]Refusal{
		"1 write request": {Count: 1}, "2 write requests": {Count: 2}, "3 samples": {Count: 3, Samples: true},
		"1 description of a metric": {Count: 1, Reason: ingest.ReasonMetadataLimit},
		"2 exemplars":               {Count: 2, Reason: ingest.ReasonExemplarTooLong},
	} {
		require.Equal(t, want, f.What())
	}
}

// BenchmarkAdd is what the list of senders adds to a write.
func BenchmarkAdd(b *testing.B) {
	tracker := New(Options{})
	r := from("10.0.0.1:4000", "Prometheus/3.15.0")
	b.ReportAllocs()
	for b.Loop() {
		tracker.Add(r, &Outcome{Protocol: ProtocolV1, Status: 204, Accepted: Counts{Samples: 2000}})
	}
}
