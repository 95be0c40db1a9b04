package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Waits between tries of a request.
const (
	retryWaitMin = 50 * time.Millisecond
	retryWaitMax = 5 * time.Second
	// retryAfterMax bounds what is honoured of a Retry-After.
	retryAfterMax = 30 * time.Second
	// answerBytesMax is read of the answer to a write.
	answerBytesMax = 4096
	// errorsMax different errors are kept for the report.
	errorsMax = 5
)

// tally counts what became of the requests of one target. It is safe for concurrent use.
type tally struct {
	latency, lag latencies

	mu                           sync.Mutex
	samples, requests, bodyBytes int64 // acknowledged
	rejected, abandoned          int64 // samples
	statuses, retries            map[string]int64
	errors                       []string
}

func newTally() *tally {
	return &tally{statuses: make(map[string]int64), retries: make(map[string]int64)}
}

// Writes is what became of the write requests.
type Writes struct {
	Samples       int64   `json:"acknowledged_samples"`
	Requests      int64   `json:"acknowledged_requests"`
	BodyBytes     int64   `json:"acknowledged_body_bytes"`
	SamplesPerSec float64 `json:"samples_per_second"`
	Rejected      int64   `json:"rejected_samples"`
	Abandoned     int64   `json:"abandoned_samples"`
	// Acknowledgement is from the first try of a request to its 2xx; Lag is from when it was due, and nil if nothing is
	// waited for.
	Acknowledgement Quantiles  `json:"acknowledgement"`
	Lag             *Quantiles `json:"lag,omitempty"`
	// Statuses counts all answers, Retries those after which a request was sent again.
	Statuses map[string]int64 `json:"statuses"`
	Retries  map[string]int64 `json:"retries,omitempty"`
	Errors   []string         `json:"errors,omitempty"`
}

func (t *tally) report(took time.Duration) Writes {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := Writes{
		Samples: t.samples, Requests: t.requests, BodyBytes: t.bodyBytes, Rejected: t.rejected, Abandoned: t.abandoned,
		Acknowledgement: t.latency.quantiles(), Statuses: maps.Clone(t.statuses), Retries: maps.Clone(t.retries),
		Errors: append([]string(nil), t.errors...),
	}
	if took > 0 {
		w.SamplesPerSec = float64(t.samples) / took.Seconds()
	}
	if lag := t.lag.quantiles(); lag.Count > 0 {
		w.Lag = &lag
	}
	return w
}

func (t *tally) acked() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.samples
}

// poster sends write requests to one target.
type poster struct {
	url      string
	client   *http.Client
	retryFor time.Duration
	timeout  time.Duration
	tally    *tally
	now      func() time.Time
}

func newPoster(t *Target, o *Options) *poster {
	return &poster{url: t.WriteURL, client: newHTTPClient(o.Senders + 1), retryFor: o.RetryFor, timeout: o.RequestTimeout,
		tally: newTally(), now: o.Now}
}

// newHTTPClient makes a client for one server; conns connections are kept when idle.
func newHTTPClient(conns int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		MaxIdleConnsPerHost: conns, DisableCompression: true, WriteBufferSize: 64 << 10, IdleConnTimeout: 5 * time.Minute,
	}}
}

// outcome is what became of a request.
type outcome uint8

const (
	acknowledged outcome = iota
	doubtful             // it may have been stored, wholly or in part
)

// answer is what came back for one try.
type answer struct {
	status     string // "204", or "no answer"
	code       int
	text       string
	retryAfter time.Duration
}

func (a *answer) accepted() bool { return a.code/100 == 2 }
func (a *answer) again() bool {
	return a.code == 0 || a.code == http.StatusTooManyRequests || a.code/100 == 5
}

// send posts a request until it is acknowledged, refused for good or ctx ends; a try under way is finished. A zero due
// leaves the lag out.
func (p *poster) send(ctx context.Context, r *request, due time.Time) outcome {
	began := p.now()
	wait := retryWaitMin
	for {
		a := p.try(ctx, r.body)
		took := p.now().Sub(began)
		retry := !a.accepted() && a.again() && ctx.Err() == nil && took < p.retryFor
		p.count(r, a, retry)
		if a.accepted() {
			p.tally.latency.add(took)
			if !due.IsZero() {
				p.tally.lag.add(p.now().Sub(due))
			}
			return acknowledged
		}
		if !retry {
			return doubtful
		}
		// Some disorder, so that senders that were refused together do not come back together.
		pause := time.Duration(float64(wait) * (0.75 + 0.5*rand.Float64()))
		sleep(ctx, max(pause, min(a.retryAfter, retryAfterMax)))
		wait = min(2*wait, retryWaitMax)
	}
}

func (p *poster) try(ctx context.Context, body []byte) answer {
	// What was sent is waited for even if the load is to end: its outcome is wanted.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout)
	defer cancel()
	a, err := p.post(ctx, body)
	if err != nil {
		return answer{status: "no answer", text: err.Error()}
	}
	return a
}

func (p *poster) post(ctx context.Context, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("User-Agent", "halite-loadtest")
	req.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	resp, err := p.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerBytesMax))
	if _, rest := io.Copy(io.Discard, resp.Body); err == nil {
		err = rest
	}
	a := answer{status: strconv.Itoa(resp.StatusCode), code: resp.StatusCode, text: strings.TrimSpace(string(text))}
	a.retryAfter = retryAfter(resp.Header.Get("Retry-After"), p.now())
	if a.accepted() {
		return a, nil // the status says it all
	}
	return a, err
}

// retryAfter reads a Retry-After header, in seconds or as a date; 0 if there is none.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return time.Duration(min(seconds, 86400)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

func (p *poster) count(r *request, a answer, retry bool) {
	t := p.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	t.statuses[a.status]++
	switch n := int64(len(r.marks)); {
	case a.accepted():
		t.samples += n
		t.requests++
		t.bodyBytes += int64(len(r.body))
		return
	case retry:
		t.retries[a.status]++
	case a.again():
		t.abandoned += n
	default:
		t.rejected += n
	}
	if text := fmt.Sprintf("%s: %.300s", a.status, a.text); len(t.errors) < errorsMax {
		for _, known := range t.errors {
			if known == text {
				return
			}
		}
		t.errors = append(t.errors, text)
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
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

// errInterrupted ends a stream early; it is no failure.
var errInterrupted = errors.New("interrupted")
