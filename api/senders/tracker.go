package senders

import (
	"container/list"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options configure a Tracker.
type Options struct {
	// SendersMax bounds the tracked senders. A new sender replaces the least recent one. Default SendersMaxDefault.
	SendersMax int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger logs refusals; nil discards them.
	Logger *slog.Logger
}

// SendersMaxDefault is the default of Options.SendersMax. A sender needs about 1 KiB.
const SendersMaxDefault = 1000

// Tracker keeps the status of senders. Its methods may be called concurrently.
type Tracker struct {
	most   int
	now    func() time.Time
	logger *slog.Logger

	mu       sync.Mutex
	byID     map[Sender]*list.Element
	recent   *list.List // of *Status, the most recent first
	evicted  uint64
	refusals map[kind]*refusals
}

// Status describes a sender since the server started.
type Status struct {
	Sender
	// Version is the header X-Prometheus-Remote-Write-Version of the last request.
	Version  string `json:"version"`
	Requests uint64 `json:"requests"`
	Accepted Counts `json:"accepted"`
	// Dropped counts samples that relabelling rules dropped. The sender counts them as written.
	Dropped Counts `json:"dropped"`
	// Deduplicated counts samples of a replica that is not elected. The sender counts them as written.
	Deduplicated    Counts            `json:"deduplicated"`
	RefusedRequests map[string]uint64 `json:"refusedRequests"`
	RefusedSamples  map[string]uint64 `json:"refusedSamples"`
	LastRefusal     *Example          `json:"lastRefusal,omitempty"`
	// AheadMs is a lower bound of how far the newest sample of the last request lies in the future; 0 if it does not.
	AheadMs   int64     `json:"aheadMs,omitempty"`
	FirstTime time.Time `json:"firstTime"`
	LastTime  time.Time `json:"lastTime"`
}

// Example describes a refusal.
type Example struct {
	Time    time.Time `json:"time"`
	Status  int       `json:"status"`
	Message string    `json:"message"`
}

// New returns a Tracker without senders.
func New(o Options) *Tracker {
	t := &Tracker{
		most: o.SendersMax, now: o.Now, logger: o.Logger, byID: map[Sender]*list.Element{}, recent: list.New(),
		refusals: map[kind]*refusals{},
	}
	if t.most <= 0 {
		t.most = SendersMaxDefault
	}
	if t.now == nil {
		t.now = time.Now
	}
	if t.logger == nil {
		t.logger = slog.New(slog.DiscardHandler)
	}
	return t
}

// Refuse counts a request that was refused as a whole.
func (t *Tracker) Refuse(r *http.Request, protocol string, status int, reason string, err error) {
	t.Add(r, &Outcome{Protocol: protocol, Status: status, Reason: reason, Example: err.Error()})
}

// Add counts a request.
func (t *Tracker) Add(r *http.Request, o *Outcome) {
	now, sender, version := t.now(), senderOf(r, o.Protocol), r.Header.Get(versionHeader)
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.find(sender, now)
	s.Requests++
	s.LastTime = now
	s.Accepted.add(o.Accepted)
	s.Dropped.add(o.Dropped)
	s.Deduplicated.add(o.Deduplicated)
	if o.NewestMs > 0 {
		s.AheadMs = max(0, o.NewestMs-now.UnixMilli())
	}
	if s.Version != version {
		s.Version = strings.Clone(clip(version, textBytesMax))
	}
	if o.Reason == "" && len(o.Samples) == 0 && len(o.Omitted) == 0 {
		return
	}
	example := Example{Time: now, Status: o.Status, Message: strings.Clone(clip(o.Example, exampleBytesMax))}
	s.LastRefusal = &example
	if o.Reason != "" {
		s.RefusedRequests[o.Reason]++
		t.refuse(kind{reason: o.Reason}, 1, 1, s.Sender, example)
	}
	for reason, n := range o.Samples {
		s.RefusedSamples[reason] += uint64(n)
		t.refuse(kind{reason, true}, 1, uint64(n), s.Sender, example)
	}
	for reason, n := range o.Omitted {
		s.RefusedSamples[reason] += uint64(n)
		t.refuse(kind{reason, true}, 1, uint64(n), s.Sender, example)
	}
}

// find returns the sender and makes it the most recent one. The caller holds mu.
func (t *Tracker) find(sender Sender, now time.Time) *Status {
	if e := t.byID[sender]; e != nil {
		t.recent.MoveToFront(e)
		return e.Value.(*Status)
	}
	for len(t.byID) >= t.most {
		last := t.recent.Back()
		delete(t.byID, t.recent.Remove(last).(*Status).Sender)
		t.evicted++
	}
	// The texts may share the memory of a whole request.
	sender.Address, sender.UserAgent = strings.Clone(sender.Address), strings.Clone(sender.UserAgent)
	s := &Status{Sender: sender, RefusedRequests: map[string]uint64{}, RefusedSamples: map[string]uint64{}, FirstTime: now}
	t.byID[sender] = t.recent.PushFront(s)
	return s
}

// List returns at most the given number of senders, the most recent first. It also returns the number of senders that were
// replaced because there were too many.
func (t *Tracker) List(most int) (senders []Status, evicted uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	senders = make([]Status, 0, min(most, len(t.byID)))
	for e := t.recent.Front(); e != nil && len(senders) < most; e = e.Next() {
		s := *e.Value.(*Status)
		s.RefusedRequests, s.RefusedSamples = maps.Clone(s.RefusedRequests), maps.Clone(s.RefusedSamples)
		senders = append(senders, s)
	}
	return senders, t.evicted
}
