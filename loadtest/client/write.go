package client

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Pauses between attempts of a request.
const (
	RetryPauseMin = 50 * time.Millisecond
	RetryPauseMax = 5 * time.Second
	// retryAfterMax bounds the pause that a Retry-After header can ask for.
	retryAfterMax = 30 * time.Second
	// writeResponseBytesMax bounds the part of a response to a write that is read.
	writeResponseBytesMax = 4096
)

// WriteOptions configure a Writer.
type WriteOptions struct {
	Connections int           // idle connections to keep
	RetryFor    time.Duration // how long to retry a request
	Timeout     time.Duration // of one attempt
	Now         func() time.Time
}

// Writer sends write requests to one target and counts their outcomes.
type Writer struct {
	url    string
	client *http.Client
	opts   WriteOptions
	tally  *tally
}

// NewWriter returns a writer for a target.
func NewWriter(t *Target, o WriteOptions) *Writer {
	return &Writer{url: t.WriteURL, client: newHTTPClient(t, o.Connections), opts: o, tally: newTally()}
}

// response is the server's response to one attempt.
type response struct {
	status     string // "204", or "no response"
	code       int
	text       string
	retryAfter time.Duration
}

func (r *response) accepted() bool { return r.code/100 == 2 }

func (r *response) retryable() bool {
	return r.code == 0 || r.code == http.StatusTooManyRequests || r.code/100 == 5
}

// Send posts an encoded request with the given number of samples. It retries until the request is acknowledged or
// permanently refused, RetryFor has passed, or ctx ends. It reports whether the request was acknowledged; if not, the
// server may have stored all, some or none of its samples. If due is not zero, Send records the time since due as lag.
func (w *Writer) Send(ctx context.Context, body []byte, samples int, due time.Time) (acknowledged bool) {
	began := w.opts.Now()
	wait := RetryPauseMin
	for {
		r := w.attempt(ctx, body)
		took := w.opts.Now().Sub(began)
		retry := !r.accepted() && r.retryable() && ctx.Err() == nil && took < w.opts.RetryFor
		w.tally.count(len(body), samples, &r, retry)
		if r.accepted() {
			w.tally.latency.Observe(took)
			if !due.IsZero() {
				w.tally.lag.Observe(w.opts.Now().Sub(due))
			}
			return true
		}
		if !retry {
			return false
		}
		// Jitter keeps senders that were refused together from retrying together.
		pause := time.Duration(float64(wait) * (0.75 + 0.5*rand.Float64()))
		Sleep(ctx, max(pause, min(r.retryAfter, retryAfterMax)))
		wait = min(2*wait, RetryPauseMax)
	}
}

// attempt posts a request once. It waits for the response even if ctx ends, because the caller needs the outcome of every
// request that was sent.
func (w *Writer) attempt(ctx context.Context, body []byte) response {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.opts.Timeout)
	defer cancel()
	r, err := w.post(ctx, body)
	if err != nil {
		return response{status: "no response", text: err.Error()}
	}
	return r
}

func (w *Writer) post(ctx context.Context, body []byte) (response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return response{}, err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	resp, err := w.client.Do(req)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, writeResponseBytesMax))
	if _, discardErr := io.Copy(io.Discard, resp.Body); err == nil {
		err = discardErr
	}
	r := response{status: strconv.Itoa(resp.StatusCode), code: resp.StatusCode, text: strings.TrimSpace(string(text))}
	r.retryAfter = retryAfter(resp.Header.Get("Retry-After"), w.opts.Now())
	if r.accepted() {
		return r, nil // an error while reading the body does not change the outcome
	}
	return r, err
}

// retryAfter reads a Retry-After header, which holds seconds or a date. It returns 0 if there is none.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return time.Duration(min(seconds, 86400)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// Acknowledged returns the number of acknowledged samples.
func (w *Writer) Acknowledged() int64 { return w.tally.acknowledged() }

// P99Ms returns the 99th percentile of the latency of acknowledged requests.
func (w *Writer) P99Ms() float64 { return w.tally.latency.Quantiles().P99Ms }

// Report returns the outcomes of all requests. took is the length of the load, by which rates are computed.
func (w *Writer) Report(took time.Duration) Writes { return w.tally.report(took) }
