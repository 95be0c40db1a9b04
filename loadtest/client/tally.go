package client

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"halite/loadtest/measure"
)

// errorsMax bounds the distinct errors that a report shows.
const errorsMax = 5

// tally counts the outcomes of a target's write requests. It is safe for concurrent use.
type tally struct {
	latency, lag measure.Histogram

	mu                           sync.Mutex
	samples, requests, bodyBytes int64 // acknowledged
	rejected, abandoned          int64 // samples
	statuses, retries            map[string]int64
	errors                       []string
}

func newTally() *tally {
	return &tally{statuses: make(map[string]int64), retries: make(map[string]int64)}
}

// Writes are the outcomes of all write requests.
type Writes struct {
	Samples       int64   `json:"acknowledged_samples"`
	Requests      int64   `json:"acknowledged_requests"`
	BodyBytes     int64   `json:"acknowledged_body_bytes"`
	SamplesPerSec float64 `json:"samples_per_second"`
	// Rejected samples were refused permanently. Abandoned samples were not acknowledged within the time for retries.
	Rejected  int64 `json:"rejected_samples"`
	Abandoned int64 `json:"abandoned_samples"`
	// Latency is the time from the first attempt of a request to its 2xx response. Lag is the time since the request was
	// due; it is nil if the load has no rate.
	Latency measure.Quantiles  `json:"latency"`
	Lag     *measure.Quantiles `json:"lag,omitempty"`
	// Statuses counts all responses by status code. Retries counts the responses after which the request was sent again.
	Statuses map[string]int64 `json:"statuses"`
	Retries  map[string]int64 `json:"retries,omitempty"`
	Errors   []string         `json:"errors,omitempty"`
}

func (t *tally) report(took time.Duration) Writes {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := Writes{
		Samples: t.samples, Requests: t.requests, BodyBytes: t.bodyBytes, Rejected: t.rejected, Abandoned: t.abandoned,
		Latency: t.latency.Quantiles(), Statuses: maps.Clone(t.statuses), Retries: maps.Clone(t.retries),
		Errors: append([]string(nil), t.errors...),
	}
	if took > 0 {
		w.SamplesPerSec = float64(t.samples) / took.Seconds()
	}
	if lag := t.lag.Quantiles(); lag.Count > 0 {
		w.Lag = &lag
	}
	return w
}

func (t *tally) acknowledged() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.samples
}

// count records the response to one attempt of a request.
func (t *tally) count(bodyBytes, samples int, r *response, retry bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.statuses[r.status]++
	switch {
	case r.accepted():
		t.samples += int64(samples)
		t.requests++
		t.bodyBytes += int64(bodyBytes)
		return
	case retry:
		t.retries[r.status]++
	case r.retryable():
		t.abandoned += int64(samples)
	default:
		t.rejected += int64(samples)
	}
	text := fmt.Sprintf("%s: %.300s", r.status, r.text)
	if len(t.errors) < errorsMax && !slices.Contains(t.errors, text) {
		t.errors = append(t.errors, text)
	}
}
